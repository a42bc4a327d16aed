"""Accuracy of the integer model: against labels or expected outputs, against the float model, and layer by layer."""

from __future__ import annotations

from hwflow.accuracy.histogram import Histogram
from hwflow.accuracy.layers import LayerNoise, decibels, layer_noise, most_harmful
from hwflow.accuracy.measure import Accuracy, Metric, OutputNoise, Pair, compare, float_outputs
from hwflow.accuracy.metrics import is_index, signal_to_noise
from hwflow.accuracy.task import Question, Task, question
from hwflow.accuracy.warnings import LAYER_ROWS, data_warnings, layer_warnings, measure, measured_warnings
from hwflow.accuracy.worst import WorstRow, worst_rows

__all__ = ["LAYER_ROWS", "Accuracy", "Histogram", "LayerNoise", "Metric", "OutputNoise", "Pair", "Question", "Task",
           "WorstRow", "compare", "data_warnings", "decibels", "float_outputs", "is_index", "layer_noise",
           "layer_warnings", "measure", "measured_warnings", "most_harmful", "question", "signal_to_noise",
           "worst_rows"]
