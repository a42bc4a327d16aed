"""A random walk over the operators that users have; a `Style` says how weights and activations become integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from hwflow import onnx
from hwflow.onnx.model import Model
from tests.strategies.drawing import Walk
from tests.strategies.moves import moved, transposed

Shape = tuple[int, ...]


@dataclass(frozen=True)
class T:
    """A tensor while the network grows.

    `bits` of its integers, 32 while it is affine in sums, which may become any integers; `whole`: nothing was computed
    since its quantizer; `deep`: it stands behind a product.
    """

    name: str
    shape: Shape
    whole: bool = False
    bits: int = 32
    positive: bool = False
    scale: float = 1.0
    bipolar: bool = False
    deep: bool = False

    @property
    def channels(self) -> int:
        return self.shape[1]


class Style:
    """A float model: nothing is quantized yet."""

    domains: ClassVar[Mapping[str, int]] = {}

    def activation(self, net: Net, t: T, wide: bool = False, sums: bool = False) -> T:
        return t

    def weights(self, net: Net, w: np.ndarray, axis: int) -> tuple[str, np.ndarray]:
        return net.constant(w.astype(np.float32)), np.ones(1)

    def bias(self, net: Net, b: np.ndarray, x: T, scales: np.ndarray) -> str:
        return net.constant(b.astype(np.float32))


class Net(Walk):
    """The model that grows.  `exact`: all constants are such that float32 computes without rounding."""

    def __init__(self, rng: Any, style: Style, exact: bool = False) -> None:
        super().__init__(rng, "random")
        self.style, self.exact, self.ties = style, exact, 0
        self.opset = int(self.rng.choice([14, 16, 17, 18, 21]))

    def constant(self, value: Any) -> str:
        array = np.asarray(value)
        return self.b.constant(self.new("c"), array.astype(np.float32) if array.dtype == np.float64 else array)

    def node(self, op: str, *inputs: Any, domain: str = "", **attributes: Any) -> str:
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        label = self.new(op.lower())
        return self.b.nodes(op, *names, outputs=(f"{label}.out",), name=label, domain=domain, **attributes)[0]

    def power(self, low: int, high: int) -> float:
        return 2.0 ** self.number(low, high)

    def q(self, t: T, wide: bool = False) -> T:
        """The tensor with a quantizer behind it, unless there is one."""
        return t if t.whole else self.style.activation(self, t, wide and t.bits == 32)

    # Operators.

    def conv(self, t: T, cout: int = 0, same: bool = False, kernel: Shape = ()) -> T:
        """A Conv; `same`: of the shape of its input."""
        t = self.q(t, wide=True)
        rank, c = len(t.shape) - 2, t.channels
        cout = c if same else cout or self.number(1, 6)
        groups = self.pick(1, 1, 1, c, *(g for g in (2, 3) if c % g == 0))
        if groups > 1 and not same:
            cout = groups * self.number(1, 2)
        kernel = kernel or tuple(self.number(1, min(3, n)) for n in t.shape[2:])
        attributes: dict[str, Any] = {"group": groups} if groups > 1 or self.chance(0.3) else {}
        strides = (1,) * rank if same else tuple(self.number(1, 2) for _ in range(rank))
        dilations = tuple(self.number(1, 2) if (k - 1) * 2 < n else 1 for k, n in zip(kernel, t.shape[2:], strict=True))
        pad = "SAME" if same else self.pick("", "pads", "SAME", "VALID")
        pad = "" if t.bipolar and not same else pad
        if pad == "SAME":
            attributes["auto_pad"] = self.pick("SAME_UPPER", "SAME_LOWER")
            dilations = (1,) * rank
        elif pad == "VALID":
            attributes["auto_pad"] = "VALID"
        elif pad == "pads":
            attributes["pads"] = tuple(self.number(0, k - 1) for k in (*kernel, *kernel))
        if t.bipolar and same:
            kernel = (1,) * rank
            attributes.pop("auto_pad", None)
        if self.chance(0.7) or any(s > 1 for s in strides):
            attributes["strides"] = strides
        if any(d > 1 for d in dilations):
            attributes["dilations"] = dilations
        shape = (cout, c // groups, *kernel)
        w, scales = self.style.weights(self, self.gaussian(shape), 0)
        inputs = [t.name, w]
        if self.chance(0.7):
            inputs.append(self.style.bias(self, self.rng.normal(0, 0.5, cout), t, scales))
        name = self.node("Conv", *inputs, **attributes)
        sizes = []
        for k, n in enumerate(t.shape[2:]):
            reach = dilations[k] * (kernel[k] - 1) + 1
            pads = attributes.get("pads")
            padded = n + (pads[k] + pads[k + rank] if pads else 0)
            sizes.append(-(-n // strides[k]) if "SAME" in attributes.get("auto_pad", "")
                         else (padded - reach) // strides[k] + 1)  # fmt: skip
        return T(name, (1, cout, *sizes), deep=True)

    def gaussian(self, shape: Shape) -> np.ndarray:
        return self.rng.normal(0, 1 / np.sqrt(int(np.prod(shape[1:]))), shape)

    def dense(self, t: T, cout: int = 0) -> T:
        t = self.q(t, wide=True)
        cin, cout = t.shape[1], cout or self.number(2, 8)
        form = self.pick("gemm", "gemmT", "matmul")
        w = self.gaussian((cout, cin))
        if form == "gemmT":
            name, scales = self.style.weights(self, w, 0)
        else:
            name, scales = self.style.weights(self, w.T.copy(), 1)
        bias = self.style.bias(self, self.rng.normal(0, 0.5, cout), t, scales) if self.chance(0.8) else ""
        if form == "matmul":
            y = self.node("MatMul", t.name, name)
            y = self.node("Add", *(self.rng.permutation([y, bias]).tolist())) if bias else y
        else:
            y = self.node("Gemm", t.name, name, *([bias] if bias else []), **({"transB": 1} if form == "gemmT" else {}))
        return T(y, (1, cout), deep=True)

    def affine(self, t: T) -> T:
        """BatchNormalization, or a constant per channel or for all."""
        c, tail = t.channels, (1,) * (len(t.shape) - 2)
        op = self.pick("BatchNormalization", "Mul", "Add", "Sub", "Div", "Rsub")
        if op == "BatchNormalization":
            if self.exact:
                var, scale = 4.0 ** self.rng.integers(-1, 2, c), 2.0 ** self.rng.integers(-1, 2, c)
                offsets = [self.rng.integers(-8, 9, c) / 8 for _ in range(2)]
            else:
                var, scale = self.rng.uniform(0.3, 2, c), self.rng.uniform(0.3, 1.5, c)
                offsets = [self.rng.normal(0, 0.4, c) for _ in range(2)]
            scale *= np.where(self.rng.random(c) < 0.2, -1, 1)
            eps = {"epsilon": 0.0} if self.exact else {}
            return replace(t, name=self.node(op, t.name, scale, *offsets, var, **eps), whole=False, positive=False)
        shape = self.pick((), (1,), (1, c, *tail), (c, *tail))
        if self.exact:
            value = self.rng.integers(-8, 9, shape) / 8 if op in ("Add", "Sub", "Rsub") else 2.0 ** self.rng.integers(
                -1, 2, shape)  # fmt: skip
        else:
            value = self.rng.normal(0, 0.4, shape) if op in ("Add", "Sub", "Rsub") else self.rng.uniform(0.4, 2, shape)
        if self.chance(0.2) and op in ("Mul", "Div"):
            value = -value
        y = self.node("Sub", value, t.name) if op == "Rsub" else self.node(op, t.name, value)
        return replace(t, name=y, whole=False, positive=False)

    def monotone(self, t: T) -> T:
        """A function that a layer before it can take in."""
        ops = ("Relu", "Relu", "Clip", "LeakyRelu", "PRelu")
        op = self.pick(*ops, *(() if self.exact else ("Sigmoid", "Tanh", "HardSigmoid", "Elu", "Softplus")))
        if op == "Clip":
            low, high = self.pick((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0), (-2.0, None), (None, 2.0))
            y = self.node(op, t.name, *["" if v is None else np.float32(v) for v in (low, high)])
            return replace(t, name=y, whole=False, positive=low == 0)
        if op == "LeakyRelu":
            y = self.node(op, t.name, alpha=0.25 if self.exact else 0.1)
        elif op == "PRelu":
            shape = self.pick((1,), (t.channels, *(1,) * (len(t.shape) - 2)))
            y = self.node(op, t.name, 2.0 ** -self.rng.integers(1, 4, shape) if self.exact
                          else self.rng.uniform(0.05, 0.5, shape))  # fmt: skip
        else:
            y = self.node(op, t.name)
        bits = t.bits if op == "Relu" else 8
        return replace(t, name=y, bits=bits, whole=False, positive=op in ("Relu", "Sigmoid", "HardSigmoid", "Softplus"))

    def curve(self, t: T) -> T:
        """A function that goes down and up: a table."""
        t = self.q(t)
        op = self.pick("silu", "HardSwish", "hardswish", "Gelu", *(() if t.bipolar else ("Abs", "square")))
        if op == "silu":
            y = self.node("Mul", t.name, self.node("Sigmoid", t.name))
        elif op == "hardswish":
            y = self.node("Clip", self.node("Add", t.name, np.float32(3)), np.float32(0), np.float32(6))
            y = self.node("Div", self.node("Mul", t.name, y), np.float32(6))
        elif op == "square":
            y = self.node("Mul", t.name, t.name)
        elif op == "Gelu":  # as written in single nodes
            y = self.node("Add", self.node("Erf", self.node("Div", t.name, np.float32(np.sqrt(2)))), np.float32(1))
            y = self.node("Mul", self.node("Mul", t.name, y), np.float32(0.5))
        else:
            y = self.node(op, t.name)
        return self.style.activation(self, replace(t, name=y, whole=False, positive=False))

    def activation(self, t: T) -> T:
        """What stands behind a product, often nothing."""
        if self.chance(0.3):
            t = self.affine(t)
        if self.chance(0.7):
            t = self.monotone(t) if self.exact or self.chance(0.75) else self.curve(t)
        return t

    def pool(self, t: T) -> T:
        t, rank = self.q(t), len(t.shape) - 2
        if self.chance(0.5):
            kernel = tuple(self.number(1, min(3, n)) for n in t.shape[2:])
            strides = tuple(self.number(1, k) for k in kernel)
            extra = {"ceil_mode": 1} if self.chance(0.2) else {}
            padded = not extra and self.chance(0.3)  # windows that start in the padding: ONNX disagrees with itself
            pads = tuple(self.number(0, k // 2) for k in (*kernel, *kernel)) if padded else (0,) * 2 * rank
            y = self.node("MaxPool", t.name, kernel_shape=kernel, strides=strides, pads=pads, **extra)
            return replace(t, name=y, shape=self._pooled(t, kernel, strides, pads, bool(extra)))
        kernel = tuple(self.pick(1, 2) if self.exact else self.number(1, min(3, n)) for n in t.shape[2:])
        kernel = tuple(min(k, n) for k, n in zip(kernel, t.shape[2:], strict=True))
        strides, pads = tuple(self.number(1, k) for k in kernel), (0,) * 2 * rank
        extra = {}
        if self.chance(0.3) and not t.bipolar:
            pads, extra = tuple(self.number(0, k // 2) for k in (*kernel, *kernel)), {"count_include_pad": 1}
        y = self.node("AveragePool", t.name, kernel_shape=kernel, strides=strides, pads=pads, **extra)
        return self.q(replace(t, name=y, whole=False, shape=self._pooled(t, kernel, strides, pads, False)))

    def _pooled(self, t: T, kernel: Shape, strides: Shape, pads: Shape, ceil: bool) -> Shape:
        sizes, rank = [], len(kernel)
        for k, n in enumerate(t.shape[2:]):
            over = n + pads[k] + pads[k + rank] - kernel[k]
            count = -(-over // strides[k]) + 1 if ceil else over // strides[k] + 1
            if ceil and (count - 1) * strides[k] >= n + pads[k]:
                count -= 1
            sizes.append(count)
        return (*t.shape[:2], *sizes)

    def residual(self, t: T) -> T:
        t = self.q(t)
        other = self.activation(self.conv(t, same=True)) if len(t.shape) > 2 else self.dense(t, t.channels)
        if self.chance(0.3) and len(t.shape) > 2:
            other = self.conv(other, same=True)
        other = self.q(other)
        op = self.pick("Add", "Add", "Add", "Sub", "Mul")
        pair = [t.name, other.name] if self.chance(0.5) else [other.name, t.name]
        made = T(self.node(op, *pair), t.shape, deep=True)
        if self.chance(0.5):
            made = replace(made, name=self.node("Relu", made.name), positive=True)
        return self.style.activation(self, made, sums=True)

    def squeeze(self, t: T) -> T:
        """Squeeze and excitation: a factor for each channel."""
        t = self.q(t)
        s = self.mean(t, keep=True)
        s = self.conv(s, kernel=(1,) * (len(t.shape) - 2))
        s = self.conv(replace(s, name=self.node("Relu", s.name), positive=True), t.channels,
                      kernel=(1,) * (len(t.shape) - 2))  # fmt: skip
        if s.channels != t.channels or s.shape[2:] != (1,) * (len(t.shape) - 2):
            return t
        gate = self.pick("Sigmoid", "HardSigmoid")
        s = self.q(replace(s, name=self.node(gate, s.name), positive=True))
        pair = [t.name, s.name] if self.chance(0.5) else [s.name, t.name]
        return self.style.activation(self, T(self.node("Mul", *pair), t.shape, deep=True), sums=True)

    def mean(self, t: T, keep: bool) -> T:
        t, rank = self.q(t), len(t.shape)
        if keep:
            y = self.node("GlobalAveragePool", t.name) if self.chance(0.5) else self.reduce_mean(t, 1)
            return self.q(replace(t, name=y, shape=(*t.shape[:2], *(1,) * (rank - 2)), whole=False))
        y = self.reduce_mean(t, 0)
        return self.q(replace(t, name=y, shape=t.shape[:2], whole=False))

    def reduce_mean(self, t: T, keep: int) -> str:
        """Axes are an attribute before operator set 18."""
        axes = tuple(range(2, len(t.shape)))
        if self.opset >= 18:
            return self.node("ReduceMean", t.name, np.array(axes), keepdims=keep)
        return self.node("ReduceMean", t.name, axes=axes, keepdims=keep)

    def branch(self, t: T) -> T:
        """Branches that meet in a Concat."""
        t = self.q(t)
        parts = [t] if self.chance(0.3) and t.deep else []
        for _ in range(self.number(1, 2) + (not parts)):
            y = self.conv(t, same=True) if len(t.shape) > 2 else self.dense(t)
            parts.append(self.q(self.activation(y)) if self.chance(0.7) else self.activation(y))
        made = self.node("Concat", *(p.name for p in parts), axis=1)
        return T(made, (1, sum(p.channels for p in parts), *t.shape[2:]), deep=True)

    def there_and_back(self, t: T) -> T:
        """Channels last for a function, as converters from TensorFlow leave it."""
        last, first = ((0, 2, 3, 1), (0, 3, 1, 2)) if len(t.shape) == 4 else ((0, 2, 1), (0, 2, 1))
        y = self.node("Transpose", t.name, perm=last)
        y = self.node("Relu", y)
        return replace(t, name=self.node("Transpose", y, perm=first), whole=False, positive=True)

    def flatten(self, t: T) -> T:
        if not t.whole and self.chance(0.5):
            t = self.q(t)
        size = int(np.prod(t.shape))
        name = t.name
        if len(t.shape) > 2 and self.chance(0.3):
            name = self.node("Transpose", name, perm=(0, *range(2, len(t.shape)), 1))
        y = self.node("Flatten", name) if self.chance(0.5) else self.node("Reshape", name, np.array([1, -1]))
        return replace(t, name=y, shape=(1, size))

    # Whole networks.

    def image(self, t: T, depth: int) -> T:
        for _ in range(depth):
            kinds = [self.conv, self.conv, self.residual, self.branch, self.affine]
            kinds += [self.there_and_back] if t.deep else []
            if max(t.shape[2:]) > 1:
                kinds.append(self.pool)
            kinds += [partial(moved, self), partial(transposed, self)] if t.deep else []
            if not self.exact:
                kinds += [self.squeeze, self.curve]
            t = self.pick(*kinds)(t)
            t = self.activation(t) if self.chance(0.6) else t
            if t.channels > 12:
                t = self.conv(t)
        return t

    def model(self) -> Model:
        kind = self.pick("image", "image", "image", "signal", "vector")
        depth, c = self.number(1, 4), self.number(1, 4)
        outputs: list[T] = []
        if kind == "vector":
            t = T(self.b.input("input", np.float32, (1, self.number(2, 12))), ())
            t = replace(t, shape=(1, self.b._inputs[0].tensor.shape[1]))
            t = self.second_input(t)
            for _ in range(depth):
                t = self.pick(self.dense, self.dense, self.residual, self.branch)(t)
                t = self.activation(t)
        else:
            shape = (1, c, self.number(3, 9), self.number(3, 9)) if kind == "image" else (1, c, self.number(4, 16))
            if self.chance(0.25):
                last = (shape[0], *shape[2:], c)
                name = self.b.input("input", np.float32, last)
                t = T(self.node("Transpose", name, perm=(0, len(shape) - 1, *range(1, len(shape) - 1))), shape)
            else:
                t = T(self.b.input("input", np.float32, shape), shape)
            t = self.second_input(t)
            t = self.image(t, depth)
            if t.deep and self.chance(0.15):
                outputs.append(t)
                t = self.conv(t)
            if self.chance(0.75):
                t = self.mean(t, keep=False) if self.chance(0.4) and not self.exact else self.flatten(t)
                for _ in range(self.number(1, 2)):
                    t = self.activation(self.dense(t))
        if not t.deep:
            t = self.conv(t) if len(t.shape) > 2 else self.dense(t)
        outputs.append(t)
        for t in outputs:
            self.finish(t)
        return onnx.infer(self.b.model(opset=self.opset, opsets=self.style.domains))

    def second_input(self, t: T) -> T:
        if not self.chance(0.15):
            return t
        other = T(self.b.input("other", np.float32, t.shape), t.shape)
        op = self.pick("Concat", "Add", "Sub")
        a, b = self.q(t), self.q(other)
        if op == "Concat":
            return T(self.node(op, a.name, b.name, axis=1), (1, 2 * t.channels, *t.shape[2:]))
        return self.style.activation(self, T(self.node(op, a.name, b.name), t.shape), sums=True)

    def finish(self, t: T) -> None:
        t = self.q(t) if self.chance(0.8) else t
        name = t.name
        if len(t.shape) == 4 and self.chance(0.3):
            name = self.node("Transpose", name, perm=(0, 2, 3, 1))
        elif len(t.shape) == 2 and self.chance(0.4) and not self.exact:
            name = self.node(self.pick("Softmax", "Sigmoid", "LogSoftmax"), name)
        self.b.output(name)
