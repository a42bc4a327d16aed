"""Evaluation of a model in numpy, node by node, in the element types that the model states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwflow.onnx.about import names_file
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits
from hwflow.onnx.model import Model
from hwflow.onnx.run.per_model import PerModel
from hwflow.onnx.run.program import Program

_PROGRAMS = PerModel[Limits, Program]()


@names_file
def evaluate(
    model: Model,
    feeds: Mapping[str, Any],
    fetch: Sequence[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    notes: list[str] | None = None,
) -> dict[str, Any]:
    """The values of `fetch`, which may name any tensor of the graph; by default the graph's outputs.

    `feeds` holds one value per input, of the element type and shape that the model states (any size where it states
    none): arrays, lists for sequences, dicts for maps, None for an optional without content.  An input that has an
    initializer may be left out.  Only nodes that `fetch` depends on are computed, and only their inputs need to be fed.
    Results may be views of each other, of the feeds or of the model: treat them as read-only.  The same feeds give the
    same results, bit for bit; operators that draw random numbers start from a fixed seed.

    `notes` receives a sentence for each output that is not what the model states of it.
    Raises EvaluationError for wrong feeds and unknown names, Unsupported for operators that hwflow lacks (all of them
    in one message), LimitError where the model asks for more than `limits`.
    Each begins with the file of the model, where it was read from one.
    """
    return program_of(model, limits).run(feeds, fetch, notes)


def program_of(model: Model, limits: Limits = DEFAULT_LIMITS) -> Program:
    """The model's program, made at the first call and kept as long as the model is."""
    programs = _PROGRAMS.of(model)
    if limits not in programs:
        programs[limits] = Program(model, limits)
    return programs[limits]
