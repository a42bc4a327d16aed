"""Small versions of the networks that people bring to an FPGA, written the way exporters write them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hwflow.onnx.model import Dim, Model
from tests.quantize.net import Net

Maker = Callable[..., Model]


def mobilenet_v1(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((3, 16, 16), batch, opset)
    x = n.unit(n.x, 8, stride=2)
    for cout, stride in ((12, 1), (16, 2), (16, 1)):
        x = n.unit(n.unit(x, n.channels[x], 3, stride, group=n.channels[x]), cout, 1)
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 10))


def mobilenet_v2(batch: Dim = 1, opset: int = 17, fused: bool = False) -> Model:
    """Inverted residuals, Clip(0, 6); `fused` as PyTorch exports it: batch normalization in the weights."""
    n = Net((3, 16, 16), batch, opset)

    def unit(x: str, cout: int, kernel: int, stride: int = 1, group: int = 1, *, linear: bool = False) -> str:
        x = n.conv(x, cout, (kernel, kernel), stride, group=group, bias=fused)
        x = x if fused else n.norm(x)
        return x if linear else n.clip(x)

    x = unit(n.x, 8, 3, 2)
    for cout, stride in ((8, 1), (12, 2), (12, 1)):
        wide = 2 * n.channels[x]
        y = unit(unit(unit(x, wide, 1), wide, 3, stride, group=wide), cout, 1, linear=True)
        x = n.node("Add", x, y) if stride == 1 and n.channels[x] == cout else y
    x = n.mean(unit(x, 24, 1))
    return n.model(n.gemm(x, 10))


def mobilenet_v3(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((3, 16, 16), batch, opset)

    def excite(x: str) -> str:
        y = n.relu(n.conv(n.node("GlobalAveragePool", x), 4, (1, 1)))
        y = n.conv(y, n.channels[x], (1, 1))
        return n.node("Mul", x, n.node("HardSigmoid", y, alpha=1 / 6, beta=0.5))

    x = n.hard_swish(n.norm(n.conv(n.x, 8, (3, 3), 2, bias=False)))
    for _ in range(2):
        y = n.hard_swish(n.norm(n.conv(x, 16, (1, 1), bias=False)))
        y = n.norm(n.conv(y, 16, (5, 5), group=16, bias=False))
        x = n.node("Add", n.norm(n.conv(n.hard_swish(excite(y)), 8, (1, 1), bias=False)), x)
    x = n.flatten(n.node("GlobalAveragePool", n.hard_swish(n.norm(n.conv(x, 24, (1, 1), bias=False)))))
    return n.model(n.gemm(n.hard_swish(n.gemm(x, 16)), 10))


def resnet(batch: Dim = 1, opset: int = 17) -> Model:
    """Projection shortcuts; batch normalization not fused."""
    n = Net((3, 16, 16), batch, opset)
    x = n.max_pool(n.unit(n.x, 8, 7, 1), 3, 2, pads=(1, 1, 1, 1))
    for cout, stride in ((8, 1), (12, 2), (16, 2)):
        y = n.norm(n.conv(n.unit(x, cout, 3, stride), cout, (3, 3), bias=False))
        skip = n.norm(n.conv(x, cout, (1, 1), stride, bias=False)) if stride > 1 else x
        x = n.relu(n.node("Add", y, skip))
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 10))


def resnet_v2(batch: Dim = 1, opset: int = 17) -> Model:
    """BatchNormalization and Relu in front of the Conv, read by both branches."""
    n = Net((3, 16, 16), batch, opset)
    x = n.conv(n.x, 8, (3, 3), bias=False)
    for cout, stride in ((8, 1), (12, 2), (12, 1)):
        start = n.relu(n.norm(x))
        y = n.conv(n.unit(start, cout, 3, stride), cout, (3, 3), bias=False)
        project = stride > 1 or n.channels[x] != cout
        x = n.node("Add", y, n.conv(start, cout, (1, 1), stride, bias=False) if project else x)
    x = n.mean(n.relu(n.norm(x)), keepdims=1)
    return n.model(n.gemm(n.flatten(x), 10))


def squeezenet(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((3, 18, 18), batch, opset)
    rounding = {} if opset < 10 else {"ceil_mode": 1}
    x = n.max_pool(n.relu(n.conv(n.x, 8, (3, 3), 2, pad=0)), 3, 2, **rounding)
    for cout in (6, 8):
        s = n.relu(n.conv(x, 4, (1, 1)))
        parts = n.relu(n.conv(s, cout, (1, 1))), n.relu(n.conv(s, cout, (3, 3)))
        x = n.node("Concat", *parts, axis=1, channels=2 * cout)
    x = n.relu(n.conv(n.dropout(x), 10, (1, 1)))
    return n.model(n.node("Softmax", n.flatten(n.node("GlobalAveragePool", x)), axis=1))


def inception(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((3, 16, 16), batch, opset)
    x = n.max_pool(n.unit(n.x, 8))
    for pool in ("MaxPool", "AveragePool"):
        include = {"count_include_pad": 1} if pool == "AveragePool" else {}
        pooled = n.node(pool, x, kernel_shape=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), **include)
        branches = n.unit(x, 4, 1), n.unit(n.unit(x, 4, 1), 6, 3), n.unit(pooled, 4, 1)
        x = n.node("Concat", *branches, axis=1, channels=14)
    x = n.node("AveragePool", x, kernel_shape=(8, 8))
    return n.model(n.gemm(n.dropout(n.flatten(x)), 10))


def shufflenet_v1(batch: Dim = 1, opset: int = 17) -> Model:
    """Convolutions in groups, a channel shuffle, a depthwise one, and the sum with the input."""
    n = Net((3, 16, 16), batch, opset)
    x = n.unit(n.x, 12, stride=2)
    for _ in range(2):
        y = n.shuffle(n.unit(x, 12, 1, group=3), 3, 8)
        y = n.norm(n.conv(y, 12, (3, 3), group=12, bias=False))
        x = n.relu(n.node("Add", n.norm(n.conv(y, 12, (1, 1), group=3, bias=False)), x))
    return n.model(n.gemm(n.mean(x), 10))


def shufflenet_v2(batch: Dim = 1, opset: int = 17) -> Model:
    """The channels are split; one half goes through layers, and both are shuffled."""
    n = Net((3, 16, 16), batch, opset)
    x = n.unit(n.x, 12, stride=2)
    for _ in range(2):
        a, b = n.split(x, 6, 6)
        b = n.norm(n.conv(n.unit(b, 6, 1), 6, (3, 3), group=6, bias=False))
        x = n.shuffle(n.node("Concat", a, n.unit(b, 6, 1), axis=1, channels=12), 2, 8)
    return n.model(n.gemm(n.mean(n.unit(x, 16, 1)), 10))


def resnet_a(batch: Dim = 1, opset: int = 17) -> Model:
    """Shortcuts without weights: every other pixel, and zeros for the new channels."""
    n = Net((3, 16, 16), batch, opset)
    x = n.unit(n.x, 8)
    for cout in (12, 16):
        y = n.norm(n.conv(n.unit(x, cout, 3, 2), cout, (3, 3), bias=False))
        new = (cout - n.channels[x]) // 2
        skip = n.pad(n.halved(x), (0, new, 0, 0, 0, new, 0, 0))
        x = n.relu(n.node("Add", y, skip, channels=cout))
    return n.model(n.gemm(n.mean(x), 10))


def densenet(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((3, 16, 16), batch, opset)
    x = n.conv(n.x, 8, (3, 3), 2, bias=False)
    for last in (False, True):
        for _ in range(2):
            y = n.conv(n.before(x, 8, 1), 4, (3, 3), bias=False)
            x = n.node("Concat", x, y, axis=1, channels=n.channels[x] + 4)
        if not last:
            x = n.node("AveragePool", n.before(x, 8, 1), kernel_shape=(2, 2), strides=(2, 2))
    x = n.node("GlobalAveragePool", n.relu(n.norm(x)))
    return n.model(n.gemm(n.flatten(x), 10))


def keyword_1d(batch: Dim = 1, opset: int = 17) -> Model:
    """Dilated convolutions over time."""
    n = Net((10, 32), batch, opset)
    x = n.relu(n.norm(n.conv(n.x, 12, (3,), bias=False)))
    for dilation in (2, 4):
        y = n.relu(n.norm(n.conv(x, 12, (3,), group=12, dilation=dilation, bias=False)))
        x = n.node("Add", x, n.relu(n.norm(n.conv(y, 12, (1,), bias=False))))
    x = n.squeeze(n.node("GlobalAveragePool", n.node("MaxPool", x, kernel_shape=(2,), strides=(2,))), (2,))
    return n.model(n.gemm(x, 8))


def mlp(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((24,), batch, opset)
    x = n.dropout(n.relu(n.norm(n.gemm(n.x, 32))))
    x = n.norm(n.node("LeakyRelu", n.gemm(x, 24), alpha=0.1))
    x = n.node("Tanh", n.gemm(x, 16))
    return n.model(n.node("Sigmoid", n.gemm(n.node("Sigmoid", n.gemm(x, 12)), 4)))


def autoencoder(batch: Dim = 1, opset: int = 17) -> Model:
    """Keras: MatMul, Add, batch normalization of rows."""
    n = Net((40,), batch, opset)
    x = n.x
    for width in (24, 24, 8, 24, 24):
        x = n.relu(n.norm(n.matmul(x, width)))
    return n.model(n.matmul(x, 40))


def vgg(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((3, 16, 16), batch, opset)
    x = n.x
    for cout, depth in ((8, 1), (12, 2), (16, 2)):
        for _ in range(depth):
            x = n.relu(n.conv(x, cout, (3, 3)))
        x = n.max_pool(x)
    x = n.dropout(n.relu(n.gemm(n.flatten(x, 64), 24)))
    return n.model(n.gemm(x, 10))


def keras(batch: Dim = 1, opset: int = 17) -> Model:
    """NHWC: a Transpose at both ends, ZeroPadding2D in front of a VALID Conv, the bias as an Add, pooling, Reshape."""
    n = Net((16, 16, 3), batch, opset)
    x = n.node("Transpose", n.x, perm=(0, 3, 1, 2), channels=3)
    x = n.conv(n.pad(x, (0, 0, 1, 1, 0, 0, 1, 1)), 8, (3, 3), 1, pad=0, bias=False)
    x = n.clip(n.norm(n.node("Add", x, n.constant(n.normal(1, 8, 1, 1, deviation=0.1)))))
    x = n.conv(n.pad(x, (0, 0, 0, 0, 0, 0, 1, 1)), 8, (3, 3), 2, auto_pad="VALID", bias=False, group=8)
    x = n.relu(n.node("Add", x, n.constant(n.normal(8, 1, 1, deviation=0.1))))
    x = n.max_pool(n.pad(x, (0, 0, 1, 1, 0, 0, 1, 1)), 3, 2)
    x = n.relu(n.conv(x, 12, (3, 3), auto_pad="SAME_UPPER"))
    x = n.node("Transpose", x, perm=(0, 2, 3, 1))
    x = n.node("Reshape", x, n.constant((-1, 4 * 4 * 12), np.int64))
    return n.model(n.node("Softmax", n.matmul(x, 10, cin=192), axis=1))


def keras_mean(batch: Dim = 1, opset: int = 17) -> Model:
    """GlobalAveragePooling2D and Reshape of NHWC tensors; a dense layer with its Relu; two dense heads."""
    n = Net((16, 16, 3), batch, opset)
    x = n.node("Transpose", n.node("Div", n.x, n.constant(2.0)), perm=(0, 3, 1, 2), channels=3)
    x = n.relu(n.conv(x, 8, (3, 3), 2, auto_pad="SAME_UPPER"))
    x = n.node("Transpose", n.relu(n.conv(x, 12, (1, 1))), perm=(0, 2, 3, 1))
    x = n.relu(n.matmul(n.mean(x, (1, 2)), 16, cin=12))
    return n.model(n.node("Softmax", n.matmul(x, 4), axis=-1), n.node("Sigmoid", n.matmul(x, 1)))


def pytorch(batch: Dim = 1, opset: int = 17) -> Model:
    """ZeroPad2d, LeakyRelu, AveragePool, ReduceMean over both axes, Flatten, LogSoftmax."""
    n = Net((1, 18, 18), batch, opset)
    x = n.pad(n.x, (0, 0, 2, 2, 0, 0, 2, 2))
    x = n.node("LeakyRelu", n.conv(x, 6, (5, 5), 1, pad=0), alpha=0.01)
    x = n.node("AveragePool", x, kernel_shape=(2, 2), strides=(2, 2))
    x = n.node("Elu", n.conv(n.pad(x, (0, 0, 1, 1, 0, 0, 1, 1)), 8, (3, 3), 1, pad=1))
    x = n.mean(x, (-1, -2))
    return n.model(n.node("LogSoftmax", n.gemm(x, 10), axis=1))


def two_inputs(batch: Dim = 1, opset: int = 17) -> Model:
    """An image and numbers; both meet in a Concat of rows."""
    n = Net((3, 8, 8), batch, opset)
    x = n.flatten(n.node("GlobalAveragePool", n.unit(n.x, 8, 3, 2)))
    y = n.relu(n.gemm(n.input("numbers", (6,)), 8))
    return n.model(n.gemm(n.node("Concat", x, y, axis=1, channels=16), 5))


def two_outputs(batch: Dim = 1, opset: int = 17) -> Model:
    """Features that are an output and are read further."""
    n = Net((3, 8, 8), batch, opset)
    features = n.unit(n.x, 8, 3, 2)
    x = n.relu(n.gemm(n.flatten(n.node("GlobalAveragePool", n.unit(features, 12))), 12))
    return n.model(features, x, n.node("Softmax", n.gemm(x, 6), axis=1))


def sklearn(batch: Dim = 1, opset: int = 17) -> Model:
    """skl2onnx: a Scaler in front; probabilities, and behind them the label out of a list."""
    n = Net((12,), batch, opset)
    mean, scale = n.normal(12), n.rng.uniform(0.5, 2, 12).astype(np.float32)
    offsets = {"offset": mean.tolist(), "scale": scale.tolist()}
    x = n.b.nodes("Scaler", n.x, outputs=("scaled",), name="Scaler", domain="ai.onnx.ml", **offsets)[0]
    n.channels[x] = 12
    x = n.node("Cast", x, to=1)
    probabilities = n.node("Softmax", n.matmul(n.relu(n.matmul(x, 16)), 4), axis=1)
    index = n.node("ArgMax", probabilities, axis=1)
    labels = n.constant((3, 5, 7, 9), np.int64)
    picked = n.b.nodes("ArrayFeatureExtractor", labels, index, outputs=("picked",), name="pick", domain="ai.onnx.ml")[0]
    n.channels[picked] = 1
    label = n.node("Reshape", n.node("Cast", picked, to=6), n.constant((-1,), np.int64))
    return n.model(n.node("Cast", label, to=7), probabilities, opsets={"ai.onnx.ml": 1})


def image_autoencoder(batch: Dim = 1, opset: int = 17) -> Model:
    """Strides down, transposed convolutions up."""
    n = Net((3, 16, 16), batch, opset)
    x = n.unit(n.unit(n.x, 8, stride=2), 12, stride=2)
    for cout in (8, 6):
        x = n.relu(n.norm(n.transposed(x, cout, (4, 4), strides=(2, 2), pads=(1, 1, 1, 1))))
    return n.model(n.node("Sigmoid", n.conv(x, 3, (3, 3))))


def unet(batch: Dim = 1, opset: int = 17) -> Model:
    """Down by maxima; up by repetition and by a transposed convolution, beside what came from the way down."""
    n = Net((3, 16, 16), batch, opset)
    a = n.unit(n.x, 6)
    b = n.unit(n.max_pool(a), 8)
    x = n.unit(n.max_pool(b), 12)
    x = n.unit(n.node("Concat", n.doubled(x), b, axis=1, channels=20), 8)
    x = n.node("Concat", n.transposed(x, 6, (2, 2), strides=(2, 2)), a, axis=1, channels=12)
    return n.model(n.conv(n.unit(x, 6), 2, (1, 1)))


def segmentation(batch: Dim = 1, opset: int = 17) -> Model:
    """Coarse features on lines between their pixels, beside fine ones, and classes of pixels."""
    n = Net((3, 16, 16), batch, opset)
    fine = n.unit(n.x, 6, stride=2)
    coarse = n.unit(n.unit(fine, 8, stride=2), 8)
    both = n.node("Concat", fine, n.grown(coarse), axis=1, channels=14)
    return n.model(n.conv(n.grown(n.unit(both, 6)), 4, (3, 3)))


def super_resolution(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((1, 12, 12), batch, opset)
    x = n.node("Tanh", n.conv(n.relu(n.conv(n.x, 8, (5, 5))), 8, (3, 3)))
    x = n.node("DepthToSpace", n.conv(x, 12, (3, 3)), blocksize=2, channels=3)
    return n.model(n.conv(n.relu(x), 1, (3, 3)))


def feature_pyramid(batch: Dim = 1, opset: int = 17) -> Model:
    """Two outputs; the coarse features, repeated, are added to the fine ones."""
    n = Net((3, 16, 16), batch, opset)
    fine = n.unit(n.x, 8, stride=2)
    coarse = n.unit(fine, 12, stride=2)
    top = n.conv(coarse, 8, (1, 1))
    both = n.node("Add", n.conv(fine, 8, (1, 1)), n.doubled(top))
    return n.model(n.conv(top, 4, (3, 3)), n.conv(both, 4, (3, 3)))


def wavenet(batch: Dim = 1, opset: int = 17) -> Model:
    """Causal dilated convolutions over time, gated: tanh of one half of the channels times sigmoid of the other."""
    n = Net((4, 32), batch, opset)
    x = n.conv(n.x, 8, (1,))
    for dilation in (1, 2, 4):
        y = n.conv(n.pad(x, (0, 0, dilation, 0, 0, 0)), 16, (2,), pad=0, dilation=dilation)
        a, b = n.split(y, 8, 8)
        x = n.node("Add", x, n.conv(n.node("Mul", n.node("Tanh", a), n.node("Sigmoid", b)), 8, (1,)))
    return n.model(n.gemm(n.mean(n.relu(x), (2,)), 5))


def resnext(batch: Dim = 1, opset: int = 17) -> Model:
    n = Net((3, 16, 16), batch, opset)
    x = n.unit(n.x, 8, stride=2)
    for _ in range(2):
        y = n.norm(n.conv(n.unit(n.unit(x, 8, 1), 8, group=4), 8, (1, 1), bias=False))
        x = n.relu(n.node("Add", x, y))
    return n.model(n.gemm(n.mean(x), 10))


def efficientnet_lite(batch: Dim = 1, opset: int = 17) -> Model:
    """Inverted residuals with kernels of 3 and 5, TensorFlow's padding, Clip(0, 6), nothing excited."""
    n = Net((3, 16, 16), batch, opset)

    def unit(x: str, cout: int, kernel: int, stride: int = 1, group: int = 1) -> str:
        return n.norm(n.conv(x, cout, (kernel, kernel), stride, group=group, bias=False, auto_pad="SAME_UPPER"))

    x = n.clip(unit(n.x, 8, 3, 2))
    for cout, kernel, stride in ((12, 5, 2), (12, 3, 1)):
        wide = 3 * n.channels[x]
        y = unit(n.clip(unit(n.clip(unit(x, wide, 1)), wide, kernel, stride, group=wide)), cout, 1)
        x = n.node("Add", y, x) if stride == 1 else y
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", n.clip(unit(x, 24, 1)))), 10))


def tcn(batch: Dim = 1, opset: int = 17) -> Model:
    """Causal as PyTorch writes it: padding at both ends, and the far end cut off again; the last step is the answer."""
    n = Net((4, 32), batch, opset)
    x = n.x
    for cout, dilation in ((8, 1), (8, 2), (12, 4)):
        y = x
        for _ in range(2):
            y = n.conv(y, cout, (3,), pad=2 * dilation, dilation=dilation)
            y = n.relu(n.cut(y, 2, 0, -2 * dilation))
        x = n.relu(n.node("Add", y, x if n.channels[x] == cout else n.conv(x, cout, (1,))))
    return n.model(n.gemm(n.flatten(n.cut(x, 2, 31, 32)), 5))


#: Name to what makes it of a batch dimension and an operator set.
ARCHITECTURES: dict[str, Maker] = {
    maker.__name__: maker
    for maker in (
        mobilenet_v1, mobilenet_v2, mobilenet_v3, resnet, resnet_v2, resnet_a, squeezenet, inception, densenet,
        shufflenet_v1, shufflenet_v2, keyword_1d, mlp,
        autoencoder, vgg, keras, keras_mean, pytorch, two_inputs, two_outputs, sklearn,
        image_autoencoder, unet, segmentation, super_resolution, feature_pyramid, wavenet, resnext,
        efficientnet_lite, tcn,
    )
}  # fmt: skip
