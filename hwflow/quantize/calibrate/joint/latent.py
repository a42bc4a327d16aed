"""One layer's weights while they change: real numbers beside the integers that they are rounded to."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.onnx.model import Array, Node
from hwflow.quantize.calibrate.joint.derivatives import Stack
from hwflow.quantize.calibrate.weights import WeightForm
from hwflow.quantize.scale import SMALLEST_NORMAL
from hwflow.quantize.settings import WeightSettings


@dataclass
class Latent:
    """One layer while it changes: `values` are its weights in steps of `scales` times exp(`growth`), which round to its
    integers.  `unit` is the size of its results; `changes` are what of it may change."""

    node: Node
    form: WeightForm
    values: Stack
    scales: Stack
    growth: Stack
    bias: Stack
    unit: float
    changes: tuple[str, ...]

    @staticmethod
    def of(node: Node, form: WeightForm, weights: Array, bias: Array, settings: WeightSettings | None) -> Latent:
        """`settings` are those of a layer that changes."""
        scales = form.scales.reshape(-1, *[1] * (weights.ndim - 1))
        integers, reals = form.integers.astype(np.float32), (np.asarray(weights, np.float32) / scales)
        if form.bits == 1:
            values = np.where(integers * reals > 0, np.clip(reals, -1, 1), integers * np.float32(0.01))
        else:
            values = np.clip(reals, integers - np.float32(0.49), integers + np.float32(0.49))
        shared = scales.shape if settings is None or settings.per_channel else (1,) * weights.ndim
        changes = ("values", "growth", *(("bias",) if settings and settings.bias_correction else ()))
        return Latent(node, form, values, scales, np.zeros(shared, np.float32), np.asarray(bias, np.float32), 1.0,
                        () if settings is None else changes)

    @property
    def limit(self) -> int:
        return max(1, (1 << (self.form.bits - 1)) - 1)

    @property
    def steps(self) -> Stack:
        """The scales that hold now."""
        return np.asarray(np.maximum(self.scales * np.exp(self.growth), np.float32(SMALLEST_NORMAL)))

    @property
    def integers(self) -> Stack:
        if self.form.bits == 1:
            return np.where(self.values >= 0, np.float32(1), np.float32(-1))
        return np.asarray(np.clip(np.rint(self.values), -self.limit, self.limit))

    @property
    def made(self) -> WeightForm:
        return WeightForm(self.integers.astype(np.int64), self.steps.ravel().astype(np.float32), self.form.bits)

    def slopes(self, by_weights: Stack, by_bias: Stack) -> dict[str, Stack]:
        """The slopes by what changes, from those by the real weights and the bias."""
        own = by_weights * self.steps
        end = 1.0 if self.form.bits == 1 else self.limit + 0.5
        inside = np.abs(self.values) <= end
        distance = self.integers if self.form.bits == 1 else self.integers - np.where(inside, self.values, 0)
        axes = tuple(axis for axis, size in enumerate(self.growth.shape) if size == 1)
        return {"values": own * inside, "growth": (own * distance).sum(axis=axes, keepdims=True), "bias": by_bias}

    def bound(self) -> None:
        """Weights that run away beyond the last integer could never come back."""
        end = np.float32(1.0 if self.form.bits == 1 else self.limit + 0.5)
        self.values = np.clip(self.values, -end, end)
