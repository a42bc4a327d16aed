"""Networks of the size that people bring to a small FPGA, with random weights: nothing is trained, everything runs.

What training does to the numbers is imitated, because constants in hardware are as wide as it makes them: the scales of
channels are spread over three decades, and biases are as large as what they are added to.

    python -m bench.synthetic NAME FOLDER     writes NAME.onnx and NAME.npz
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from bench.encoder import encoder
from bench.loop import gru_64
from hwflow import onnx
from hwflow.onnx.model import Model
from tests.quantize.net import Net, data

ROWS = 12


class TrainedNet(Net):
    """A `Net` whose normalizations are like those of trained networks."""

    def norm(self, x: str) -> str:
        """The scales of channels are log-uniform over three decades; as a whole values keep their size."""
        c = self.channels[x]
        scale = 10 ** self.rng.uniform(-2, 1, c)
        scale /= np.sqrt(np.mean(scale**2))
        values = (scale, self.normal(c) * scale, self.normal(c, deviation=0.5), self.rng.uniform(0.2, 5, c))
        return self.node("BatchNormalization", x, *(self.constant(value) for value in values), epsilon=1e-3)


def mobilenet_v1_96() -> Model:
    """MobileNetV1 with 0.25 of the channels on 96 x 96 pixels (Howard et al., 2017): 27 convolutions."""
    n = TrainedNet((3, 96, 96))
    x = n.unit(n.x, 8, stride=2)
    for cout, stride in ((16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *((128, 1),) * 5, (256, 2), (256, 1)):
        x = n.unit(n.unit(x, n.channels[x], 3, stride, group=n.channels[x]), cout, 1)
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 2))


def resnet20() -> Model:
    """The ResNet of 20 layers for 32 x 32 pixels (He et al., 2015), with projections: 41 million multiplications."""
    n = TrainedNet((3, 32, 32))
    x = n.unit(n.x, 16)
    for cout, first in ((16, 1), (32, 2), (64, 2)):
        for stride in (first, 1, 1):
            y = n.norm(n.conv(n.unit(x, cout, 3, stride), cout, (3, 3), bias=False))
            skip = n.norm(n.conv(x, cout, (1, 1), stride, bias=False)) if stride > 1 else x
            x = n.relu(n.node("Add", y, skip))
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 10))


def resnet8_wide() -> Model:
    """ResNet-8 of MLPerf Tiny (Banbury et al., 2021) with three times the channels: 109.9 million multiplications, and
    more weights than an LFE5U-85F holds."""
    n = TrainedNet((3, 32, 32))
    x = n.unit(n.x, 48)
    for cout, stride in ((48, 1), (96, 2), (192, 2)):
        y = n.norm(n.conv(n.unit(x, cout, 3, stride), cout, (3, 3), bias=False))
        skip = n.norm(n.conv(x, cout, (1, 1), stride, bias=False)) if stride > 1 else x
        x = n.relu(n.node("Add", y, skip))
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 10))


def dense_200k() -> Model:
    """Dense layers with 200 kB of 8-bit weights, as in anomaly detection."""
    n = Net((640,))
    x = n.x
    for cout in (192, 192, 192):
        x = n.relu(n.gemm(x, cout))
    return n.model(n.gemm(x, 10))


def dense_wide() -> Model:
    """The same in two layers: 195 kB of weights, nearly all of them in one."""
    n = Net((640,))
    return n.model(n.gemm(n.relu(n.gemm(n.x, 300)), 10))


def squeeze_excite() -> Model:
    """Inverted residuals with squeeze and excitation, as in MobileNetV3 (Howard et al., 2019), on 48 x 48 pixels."""
    n = TrainedNet((3, 48, 48))
    x = n.hard_swish(n.norm(n.conv(n.x, 16, (3, 3), 2, bias=False)))
    for wide, cout, kernel, stride in ((16, 16, 3, 2), (48, 24, 3, 1), (64, 24, 5, 1), (96, 40, 5, 2), (96, 40, 5, 1)):
        y = n.hard_swish(n.norm(n.conv(x, wide, (1, 1), bias=False)))
        y = n.hard_swish(n.norm(n.conv(y, wide, (kernel, kernel), stride, group=wide, bias=False)))
        gate = n.relu(n.conv(n.node("GlobalAveragePool", y), wide // 4, (1, 1)))
        gate = n.node("HardSigmoid", n.conv(gate, wide, (1, 1)), alpha=1 / 6, beta=0.5)
        y = n.norm(n.conv(n.node("Mul", y, gate), cout, (1, 1), bias=False))
        x = n.node("Add", x, y) if stride == 1 and n.channels[x] == cout else y
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 10))


def dilated_1d() -> Model:
    """Residual blocks of dilated convolutions over 256 samples of 8 sensors (Bai et al., 2018)."""
    n = Net((8, 256))
    x = n.relu(n.conv(n.x, 24, (1,)))
    for dilation in (1, 2, 4, 8, 16):
        y = n.relu(n.conv(x, 24, (3,), dilation=dilation))
        x = n.relu(n.node("Add", n.conv(y, 24, (3,), dilation=dilation), x))
    return n.model(n.gemm(n.flatten(n.node("GlobalAveragePool", x)), 6))


def transposed_autoencoder() -> Model:
    """An image is halved twice by convolutions and doubled twice by transposed ones."""
    n = Net((1, 32, 32))
    x = n.relu(n.conv(n.relu(n.conv(n.x, 8, (3, 3), 2)), 16, (3, 3), 2))
    x = n.relu(n.conv(x, 4, (1, 1)))
    for cout in (16, 8):
        cin = n.channels[x]
        weights = n.constant(n.normal(cin, cout, 4, 4, deviation=(2 / (4 * cin)) ** 0.5))
        x = n.relu(n.node("ConvTranspose", x, weights, n.constant(n.normal(cout, deviation=0.1)), channels=cout,
                          kernel_shape=(4, 4), strides=(2, 2), pads=(1, 1, 1, 1)))
    return n.model(n.node("Sigmoid", n.conv(x, 1, (3, 3))))


def colors_cnn() -> Model:
    """Two convolutions of 5 x 5 on 32 x 32 pixels, for an iCE40 UP5K: 6 and 10 of its 16 multipliers are all busy."""
    n = Net((3, 32, 32))
    x = n.node("MaxPool", n.relu(n.conv(n.x, 8, (5, 5))), kernel_shape=(2, 2), strides=(2, 2))
    return n.model(n.flatten(n.node("GlobalAveragePool", n.relu(n.conv(x, 20, (5, 5))))))


#: Name to what makes it.
SYNTHETIC: dict[str, Callable[[], Model]] = {
    make.__name__: make for make in (
        mobilenet_v1_96, resnet20, resnet8_wide, dense_200k, dense_wide, squeeze_excite, dilated_1d,
        transposed_autoencoder, colors_cnn, encoder, gru_64)}


def write(name: str, folder: Path) -> tuple[Path, Path]:
    """The model and its data, with rows to simulate and to calibrate with."""
    model = onnx.infer(SYNTHETIC[name]())
    folder.mkdir(parents=True, exist_ok=True)
    paths = folder / f"{name}.onnx", folder / f"{name}.npz"
    onnx.save(model, paths[0])
    rows = data(model, ROWS)
    np.savez(paths[1], allow_pickle=False, **{f"in_{key}": values for key, values in rows.items()},
             **{f"calib_{key}": values for key, values in rows.items()})
    return paths


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]))
