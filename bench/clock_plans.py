"""The plans of the designs in `hwflow/synth/clocks.json`, made again from their models and options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import hwflow
from bench.routes import Row, subject_of
from bench.sections import Bench
from bench.stages import stages
from hwflow.hls import Plan, make_plan
from hwflow.quantize.settings_file import settings_from_yaml
from hwflow.synth import Board, load_board
from hwflow.synth.expected_clock import features_of

Entry = Mapping[str, Any]
#: What `model` is of a stage alone.
STAGE = "stage"


def features_again(entry: Entry, bench: Bench, folder: Path) -> dict[str, float] | None:
    """The features of a design by its plan of today; None where its model is not there.

    One that is alone, between registers, has no host link around it.
    """
    board = load_board(entry["board"]).with_transport(entry.get("options", {}).get("transport"))
    plan = plan_again(entry, board, bench, folder)
    if plan is None:
        return None
    if entry.get("alone"):
        return features_of(plan, board, linked=False) | {"alone": 1.0}
    return features_of(plan, board)


def plan_again(entry: Entry, board: Board, bench: Bench, folder: Path) -> Plan | None:
    if entry["model"] == STAGE:
        graph, folding = stages()[entry["name"]]
        return make_plan(graph, [folding], board.technology())
    subject = subject_of(bench, Row(entry["name"], entry["model"]), folder)
    if subject is None:
        return None
    options = entry.get("options", {})
    model = hwflow.load(subject.model, data=subject.data)
    settings = None
    if "output_bits" in options:
        settings = settings_from_yaml(f"default: {{output: {{bits: {options['output_bits']}}}}}", entry["name"], model)
    quantized = hwflow.quantize_model(model, hwflow.read_data(subject.data, model), bits=options.get("bits"),
                                      settings=settings)
    plan = hwflow.make_plan(quantized, board, options.get("interval"),
                            logic_multipliers=options.get("logic_multipliers", False))
    return changed(plan, options)


def changed(plan: Plan, options: Entry) -> Plan:
    """`plan` with other sizes of its shared stages, or another folding of its only stage."""
    shared, folding = options.get("shared", {}), options.get("folding", {})
    if not shared and not folding:
        return plan
    partition = replace(plan.partition, shared=tuple(replace(each, **shared) for each in plan.partition.shared))
    foldings = [replace(stage.folding, **folding) for stage in plan.stages]
    return make_plan(plan.graph, foldings, plan.device, outside=plan.outside, partition=partition)
