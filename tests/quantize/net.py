"""A builder of float networks in any operator set, the way exporters write them, and inputs for them.

Weights are random from a seed, scaled so that values keep their size from layer to layer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hwflow.onnx.build import Builder
from hwflow.onnx.model import Dim, Model


class Net:
    """Builds a float network in the operator set `opset`; methods take and return names of tensors [n, C, ...]."""

    def __init__(self, shape: tuple[int, ...], batch: Dim = 1, opset: int = 17, seed: int = 0) -> None:
        self.b, self.rng, self.opset, self.batch = Builder("network"), np.random.default_rng(seed), opset, batch
        self.channels: dict[str, int] = {}
        self.count = 0
        self.x = self.input("input", shape)

    def input(self, name: str, shape: tuple[int, ...]) -> str:
        self.channels[name] = shape[0]
        return self.b.input(name, np.float32, (self.batch, *shape))

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        self.count += 1
        return self.b.constant(f"c{self.count}", np.asarray(value, dtype))

    def node(self, op: str, *inputs: str, channels: int | None = None, **attributes: Any) -> str:
        self.count += 1
        made = self.b.node(op, *inputs, name=f"{op.lower()}{self.count}", **attributes)
        self.channels[made] = channels or self.channels[inputs[0]]
        return made

    def normal(self, *shape: int, deviation: float = 1.0) -> np.ndarray:
        return self.rng.normal(0, deviation, shape).astype(np.float32)

    def conv(
        self, x: str, cout: int, kernel: tuple[int, ...], stride: int = 1, *, pad: int | None = None, group: int = 1,
        dilation: int = 1, bias: bool = True, **attributes: Any,
    ) -> str:  # fmt: skip
        """A Conv; `pad` None keeps the size."""
        cin, rank = self.channels[x] // group, len(kernel)
        fan = cin * int(np.prod(kernel))
        inputs = [x, self.constant(self.normal(cout, cin, *kernel, deviation=(2 / fan) ** 0.5))]
        if bias:
            inputs.append(self.constant(self.normal(cout, deviation=0.1)))
        if "auto_pad" not in attributes:
            half = [dilation * (k // 2) if pad is None else pad for k in kernel]
            attributes["pads"] = (*half, *half)
        sizes = {"strides": (stride,) * rank, "dilations": (dilation,) * rank, "kernel_shape": kernel}
        return self.node("Conv", *inputs, channels=cout, group=group, **sizes, **attributes)

    def transposed(self, x: str, cout: int, kernel: tuple[int, ...], group: int = 1, **attributes: Any) -> str:
        weights = self.normal(self.channels[x], cout // group, *kernel, deviation=0.3)
        inputs = (x, self.constant(weights), self.constant(self.normal(cout, deviation=0.1)))
        return self.node("ConvTranspose", *inputs, channels=cout, group=group, **attributes)

    def doubled(self, x: str) -> str:
        """Every pixel as 2x2, as each operator set writes it."""
        scales = self.constant((1, 1, 2, 2))
        if self.opset < 11:
            return self.node("Upsample" if self.opset < 10 else "Resize", x, scales)
        return self.node("Resize", x, self.constant(()), scales, coordinate_transformation_mode="asymmetric",
                         nearest_mode="floor")  # fmt: skip

    def grown(self, x: str) -> str:
        """Twice as high and wide, by linear interpolation as each operator set writes it."""
        scales = self.constant((1, 1, 2, 2))
        if self.opset < 11:
            return self.node("Upsample" if self.opset < 10 else "Resize", x, scales, mode="linear")
        return self.node("Resize", x, self.constant(()), scales, mode="linear")

    def norm(self, x: str) -> str:
        c = self.channels[x]
        values = (self.rng.uniform(0.5, 1.5, c), self.normal(c, deviation=0.2), self.normal(c, deviation=0.2),
                  self.rng.uniform(0.5, 1.5, c))  # fmt: skip
        return self.node("BatchNormalization", x, *(self.constant(value) for value in values), epsilon=1e-3)

    def relu(self, x: str) -> str:
        return self.node("Relu", x)

    def clip(self, x: str, low: float = 0.0, high: float = 6.0) -> str:
        if self.opset < 11:
            return self.node("Clip", x, min=low, max=high)
        return self.node("Clip", x, self.constant(low), self.constant(high))

    def unit(self, x: str, cout: int, kernel: int = 3, stride: int = 1, group: int = 1) -> str:
        """Conv without bias, BatchNormalization, Relu: a training framework's block, not fused."""
        return self.relu(self.norm(self.conv(x, cout, (kernel, kernel), stride, group=group, bias=False)))

    def before(self, x: str, cout: int, kernel: int, stride: int = 1) -> str:
        """BatchNormalization, Relu, Conv."""
        return self.conv(self.relu(self.norm(x)), cout, (kernel, kernel), stride, bias=False)

    def hard_swish(self, x: str) -> str:
        if self.opset >= 14:
            return self.node("HardSwish", x)
        shifted = self.clip(self.node("Add", x, self.constant(3)))
        return self.node("Div", self.node("Mul", x, shifted), self.constant(6))

    def gemm(self, x: str, cout: int, *, cin: int | None = None) -> str:
        cin = cin or self.channels[x]
        w, b = self.normal(cout, cin, deviation=(2 / cin) ** 0.5), self.normal(cout, deviation=0.1)
        return self.node("Gemm", x, self.constant(w), self.constant(b), channels=cout, transB=1)

    def matmul(self, x: str, cout: int, *, cin: int | None = None) -> str:
        """As TensorFlow and scikit-learn write a dense layer."""
        cin = cin or self.channels[x]
        made = self.node("MatMul", x, self.constant(self.normal(cin, cout, deviation=(2 / cin) ** 0.5)), channels=cout)
        return self.node("Add", made, self.constant(self.normal(cout, deviation=0.1)))

    def flatten(self, x: str, features: int | None = None) -> str:
        return self.node("Flatten", x, axis=1, channels=features)

    def mean(self, x: str, axes: tuple[int, ...] = (2, 3), keepdims: int = 0) -> str:
        if self.opset < 18:
            return self.node("ReduceMean", x, axes=axes, keepdims=keepdims)
        return self.node("ReduceMean", x, self.constant(axes, np.int64), keepdims=keepdims)

    def squeeze(self, x: str, axes: tuple[int, ...]) -> str:
        if self.opset < 13:
            return self.node("Squeeze", x, axes=axes)
        return self.node("Squeeze", x, self.constant(axes, np.int64))

    def pad(self, x: str, pads: tuple[int, ...], value: float = 0.0) -> str:
        if self.opset < 11:
            return self.node("Pad", x, pads=pads, value=value)
        return self.node("Pad", x, self.constant(pads, np.int64), self.constant(value))

    def halved(self, x: str) -> str:
        """x[:, :, ::2, ::2]; before operator set 10, which has no steps, a pool of single elements."""
        if self.opset < 10:
            return self.max_pool(x, 1)
        far = np.iinfo(np.int64).max
        parts = [self.constant(values, np.int64) for values in ((0, 0), (far, far), (2, 3), (2, 2))]
        return self.node("Slice", x, *parts)

    def cut(self, x: str, axis: int, start: int, end: int) -> str:
        """x[start:end] along `axis`."""
        if self.opset < 10:
            return self.node("Slice", x, axes=(axis,), starts=(start,), ends=(end,))
        return self.node("Slice", x, *(self.constant((value,), np.int64) for value in (start, end, axis)))

    def split(self, x: str, *sizes: int) -> tuple[str, ...]:
        self.count += 1
        stated = {"split": sizes} if self.opset < 13 else {}
        inputs = (x,) if stated else (x, self.constant(sizes, np.int64))
        made = self.b.nodes("Split", *inputs, outputs=("",) * len(sizes), name=f"split{self.count}", axis=1, **stated)
        self.channels.update(zip(made, sizes, strict=True))
        return made

    def shuffle(self, x: str, groups: int, size: int) -> str:
        """Channels of [n, C, size, size] as a matrix of `groups` rows, column by column."""
        c = self.channels[x]
        y = self.node("Reshape", x, self.constant((-1, groups, c // groups, size, size), np.int64))
        y = self.node("Transpose", y, perm=(0, 2, 1, 3, 4))
        return self.node("Reshape", y, self.constant((-1, c, size, size), np.int64), channels=c)

    def dropout(self, x: str) -> str:
        return self.node("Dropout", x, ratio=0.5) if self.opset < 12 else self.node("Dropout", x, self.constant(0.5))

    def max_pool(self, x: str, kernel: int = 2, stride: int = 2, **attributes: Any) -> str:
        return self.node("MaxPool", x, kernel_shape=(kernel,) * 2, strides=(stride,) * 2, **attributes)

    def model(self, *outputs: str, opsets: Mapping[str, int] | None = None) -> Model:
        for name in outputs:
            self.b.output(name)
        return self.b.model(opset=self.opset, opsets=opsets)


def data(model: Model, rows: int = 64, seed: int = 1) -> dict[str, np.ndarray]:
    """Inputs in which neighbours resemble each other, as those of images and sounds do; batch 1."""
    rng, found = np.random.default_rng(seed), {}
    for value in model.graph.inputs:
        assert value.tensor is not None
        assert value.tensor.shape is not None
        shape = [size if isinstance(size, int) else 1 for size in value.tensor.shape]
        x = rng.standard_normal((rows, *shape))
        for axis, size in enumerate(shape[1:], start=2):
            if size > 4:
                x = x + np.roll(x, 1, axis)
        found[value.name] = (x / x.std()).astype(value.tensor.dtype)
    return found
