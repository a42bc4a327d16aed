"""How good the integer model is: against labels and expected values, against the float model, and layer by layer."""

from __future__ import annotations

from hwflow.accuracy.layers import LayerNoise, decibels, layer_noise, most_harmful
from hwflow.accuracy.measure import Accuracy, Metric, OutputNoise, Pair, compare, float_outputs, measure
from hwflow.accuracy.metrics import signal_to_noise
from hwflow.accuracy.question import Question, Task, question

__all__ = [
    "Accuracy",
    "LayerNoise",
    "Metric",
    "OutputNoise",
    "Pair",
    "Question",
    "Task",
    "compare",
    "decibels",
    "float_outputs",
    "layer_noise",
    "measure",
    "most_harmful",
    "question",
    "signal_to_noise",
]
