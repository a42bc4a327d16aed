"""`hwflow onnx extract`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, same_file
from hwflow_base.later import later
from hwflow_base.options import Option, Section
from hwflow_base.printable import clean

from ...onnx.limits import DEFAULT_LIMITS
from ...options import LimitsOption

with later():
    from ... import onnx
    from ...onnx.inference.claims import type_text
    from ...views.console.terminal import Console
    from .convert import require_apart


@dataclass(frozen=True)
class ExtractRequest:
    """The request of `hwflow onnx extract`."""

    source: Annotated[Path, Option(metavar="MODEL", argument=True)]
    target: Annotated[Path, Option(metavar="OUT", argument=True)]
    inputs: Annotated[tuple[str, ...], Option(
        "A tensor that becomes an input (repeatable); default: the inputs of MODEL that are needed.", Section.MODEL,
        "TENSOR", "from")] = ()
    outputs: Annotated[tuple[str, ...], Option(
        "A tensor that becomes an output (repeatable); default: the outputs of MODEL.", Section.MODEL, "TENSOR",
        "to")] = ()
    limits: LimitsOption = DEFAULT_LIMITS


def extract(console: Console, request: ExtractRequest) -> Mapping[str, object]:
    """Write the part of MODEL from some tensors to some other tensors into OUT, as a model.

    Exit codes: 0 written; 2 if MODEL does not have a tensor, or the inputs do not determine the outputs.
    """
    source, target = request.source, request.target
    if same_file(source, target):
        raise HwflowError(
            "the part must not replace the model that it is cut from", "choose another name", where=str(target)
        )
    require_folder(target)
    model = onnx.load(source, limits=request.limits)
    part = onnx.extract(model, request.inputs or None, request.outputs or None, request.limits)
    if target.exists():
        require_apart(source, target, request.limits)
    onnx.save(part, target)
    if model.training:
        console.say("the training parts of the model are left out: they belong to the whole model")
    console.say(f"{target}: written, {len(part.graph.nodes)} of {len(model.graph.nodes)} nodes, "
                f"{target.stat().st_size} bytes")
    ends = {"input": part.graph.inputs, "output": part.graph.outputs}
    for what, values in ends.items():
        for value in values:
            console.say(f"  {what} {clean(value.name)}: {type_text(value.type)}")
    return {
        "exit_code": 0, "path": str(target), "bytes": target.stat().st_size, "nodes": len(part.graph.nodes),
        **{f"{what}s": [{"name": v.name, "type": type_text(v.type)} for v in values] for what, values in ends.items()},
    }
