"""What layers, their stages and what these are made of answer depends neither on what was asked before nor how often.

They keep answers that take long to find.  Here one object is asked everything twice in random order, and each answer
is compared with that of an object that nobody has asked anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_type_hints

import numpy as np
import pytest
from amaranth.back import rtlil
from hwflow_rtl.matrix.array import MatrixArray
from hwflow_rtl.vendor import ECP5, ICE40, Technology

from hwflow.layers import KINDS, Conv, Dense, LayerGraph, MatMul, Normalize, Recurrent
from hwflow.layers.base import Layer
from hwflow.layers.matrix_layer import MatrixLayer
from hwflow.layers.rescale import Requantize, Rescale, Thresholds
from hwflow.stages.codes import codes_of
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import STAGES, stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.layers.cases import CASES, integers

#: How many foldings of a layer are asked about.
FOLDINGS = 2

Question = Callable[["Asked"], Any]


class Asked:
    """A layer in its graph, the boards' technologies, and the stages that were made of it."""

    def __init__(self, kind: type, seed: int):
        self.graph: LayerGraph = CASES[kind](np.random.default_rng(seed)).graph
        (self.layer,) = self.graph.layers
        self.technologies: tuple[Technology, ...] = ECP5(), ICE40()
        self.stages: dict[tuple[Folding, int], Any] = {}

    def stage(self, folding: Folding, t: int) -> Any:
        if (folding, t) not in self.stages:
            self.stages[folding, t] = stage_of(self.graph, self.layer).unit(folding, self.technologies[t])
        return self.stages[folding, t]


def plain(value: Any) -> Any:
    """What can be compared: dataclasses by their fields, arrays by their entries."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), [plain(getattr(value, field.name)) for field in fields(value)]
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def arrivals(asked: Asked, folding: Folding) -> list[np.ndarray]:
    """A frame on each input, a beat a cycle."""
    lanes = stage_of(asked.graph, asked.layer).schedule(folding, REFERENCE).lanes_in
    frames = (asked.graph.tensors[name].frame for name in asked.layer.inputs)
    return [np.arange(frame.elements // count) for frame, count in zip(frames, lanes, strict=True)]


def of_the_layer() -> Iterator[tuple[str, Question]]:
    yield "foldings", lambda a: tuple(stage_of(a.graph, a.layer).foldings())
    yield "hardware_problem", lambda a: stage_of(a.graph, a.layer).hardware_problem()
    yield "multiplications", lambda a: a.layer.multiplications(a.graph)
    yield "check", lambda a: a.layer.check(a.graph)
    yield "evaluate", lambda a: a.layer.evaluate(a.graph, *inputs_of(a))


def of_a_folding(folding: Folding, t: int) -> Iterator[tuple[str, Question]]:
    def where(a: Asked) -> tuple[Folding, Technology]:
        return folding, a.technologies[t]

    yield "schedule", lambda a: stage_of(a.graph, a.layer).schedule(folding, REFERENCE)
    yield "folding_problem", lambda a: stage_of(a.graph, a.layer).folding_problem(*where(a))
    yield "styles", lambda a: stage_of(a.graph, a.layer).styles(a.technologies[t])
    yield "cost", lambda a: stage_of(a.graph, a.layer).cost(*where(a))
    yield "times", lambda a: stage_of(a.graph, a.layer).times(*where(a), *arrivals(a, folding))
    yield "unit's signature", lambda a: repr(a.stage(folding, t).signature)


def of_matrix_hardware(folding: Folding, t: int) -> Iterator[tuple[str, Question]]:
    """The parts of a stage: its shape and what makes elements of its sums."""
    def rescaler(a: Asked) -> Any:
        return hardware(a).rescaler(folding, a.technologies[t])

    def hardware(a: Asked) -> Any:
        return stage_of(a.graph, a.layer)

    def shape(a: Asked) -> Any:
        return hardware(a).matrix_shape(folding)

    def arguments(a: Asked) -> dict[str, Any]:
        return {"accumulator": shape(a).accumulator, "output": shape(a).output, "interval": shape(a).drain_interval,
                "technology": a.technologies[t]}

    yield "model", lambda a: a.stage(folding, t).model(stage_input(a))
    yield "shape", shape
    yield "bank_rows", lambda a: shape(a).bank_rows(a.technologies[t])
    yield "queue_depth", lambda a: shape(a).queue_depth(a.technologies[t], 7)
    yield "array_cost", lambda a: MatrixArray.cost(shape(a), a.technologies[t])
    yield "rescaler", rescaler
    yield "constants", lambda a: rescaler(a).constants() if hasattr(rescaler(a), "constants") else None
    yield "of_lane", lambda a: rescaler(a).of_lane(0, folding.lanes)
    yield "lane_units", lambda a: rescaler(a).lane_units(folding.lanes, **arguments(a))
    yield "rescaler's cost", lambda a: rescaler(a).cost(**arguments(a))
    yield "rescaler's latency", lambda a: rescaler(a).latency(**arguments(a))
    yield "rescaler's unit", lambda a: rescaler(a).unit(**arguments(a), name="unit").model(np.arange(-50, 50))


def inputs_of(asked: Asked) -> list[np.ndarray]:
    random, found = np.random.default_rng(5), []
    for name in asked.layer.inputs:
        frame, format = asked.graph.tensors[name].frame, asked.graph.tensors[name].format
        found.append(integers(random, format, (2, frame.height, frame.width, frame.channels)))
    return found


def stage_input(asked: Asked) -> np.ndarray:
    """As the stage takes it: for a dense layer all elements are channels."""
    (frames,) = inputs_of(asked)
    codes = codes_of(frames, asked.graph.tensors[asked.layer.inputs[0]].format)
    return codes.reshape(len(codes), 1, 1, -1) if asked.layer.kind == "dense" else codes


def answer(question: Question, asked: Asked) -> Any:
    """That a folding is refused is an answer, too."""
    try:
        return plain(question(asked))
    except (ValueError, NotImplementedError) as error:
        return f"{type(error).__name__}: {error}"


LONG = (Conv, Dense, MatMul, Normalize, Recurrent)


@pytest.mark.quick(5)
@pytest.mark.parametrize("kind", [
    pytest.param(kind, marks=[pytest.mark.slow] if kind in LONG else []) for kind in KINDS
    if kind in STAGES], ids=lambda k: k.kind)
def test_answers_depend_on_no_earlier_question(kind: type[Layer]) -> None:
    hint = get_type_hints(kind).get("requantize", type(None))
    rescale = {Requantize, Thresholds} if hint == Rescale else {hint}
    for seed in range(100):  # until there was a layer for each way from sums to elements
        asked, random = Asked(kind, seed), np.random.default_rng(seed)
        way = type(getattr(asked.layer, "requantize", None))
        if way not in rescale or stage_of(asked.graph, asked.layer).hardware_problem() is not None:
            continue
        rescale.remove(way)
        fresh = Asked(kind, seed)
        possible = tuple(stage_of(fresh.graph, fresh.layer).foldings())
        chosen = [possible[k] for k in random.integers(len(possible), size=FOLDINGS)]
        questions = list(of_the_layer())
        for folding in dict.fromkeys(chosen):
            for t in range(len(asked.technologies)):
                named = [*of_a_folding(folding, t), *(of_matrix_hardware(folding, t)
                                                      if issubclass(kind, MatrixLayer) else ())]
                if not t:
                    named.append(("unit", lambda a, folding=folding: rtlil.convert(a.stage(folding, 0))))
                questions += [(f"{name} of {folding} on {asked.technologies[t].name}", each) for name, each in named]
        expected = [answer(each, Asked(kind, seed)) for _, each in questions]
        assert not all(isinstance(each, str) for each in expected)
        for k in random.permutation([*range(len(questions))] * 2):
            name, question = questions[k]
            assert answer(question, asked) == expected[k], f"seed {seed}: {name}"
    assert not rescale
