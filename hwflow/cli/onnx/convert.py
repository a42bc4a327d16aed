"""`hwflow onnx convert`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, same_file
from hwflow_base.later import later
from hwflow_base.options import Option

from ...onnx.limits import DEFAULT_LIMITS, Limits
from ...onnx.schemas import canonical_domain
from ...options import LimitsOption

with later():
    from ... import onnx
    from ...onnx.container.files import read
    from ...onnx.conversion import imported_sets
    from ...onnx.model import Model
    from ...onnx.rewrite.sorted_nodes import sorted_nodes
    from ...onnx.rules.walk import tensors
    from ...views.console.terminal import Console

Result = Mapping[str, object]


def operator_set(text: str) -> tuple[str, int]:
    """`21` or `ai.onnx.ml=3` as the domain and the version."""
    domain, _, version = text.rpartition("=")
    if not version.isdecimal():
        raise ValueError(f"{text!r} must be a version, or a domain and its version like ai.onnx.ml=3")
    return canonical_domain(domain), int(version)


def one_version(sets: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """The sets, unchanged.  Refuses two versions for one domain, because only one of them could have an effect."""
    domains = [domain for domain, _ in sets]
    twice = next((domain for domain in domains if domains.count(domain) > 1), None)
    if twice is not None:
        raise ValueError(f"{twice or 'ai.onnx'} must have one version, not {domains.count(twice)}")
    return sets


@dataclass(frozen=True)
class ConvertRequest:
    """The request of `hwflow onnx convert`; `opsets` are pairs of a domain and its version."""

    source: Annotated[Path, Option(argument=True)]
    target: Annotated[Path, Option(argument=True)]
    opsets: Annotated[tuple[tuple[str, int], ...], Option(
        "Write it for another operator set, with the same meaning: 21, or ai.onnx.ml=3.", metavar="[DOMAIN=]VERSION",
        name="opset", parse=operator_set, whole=one_version)] = ()
    external_data: Annotated[bool, Option("Write large weights into a separate file next to the model.")] = False
    limits: LimitsOption = DEFAULT_LIMITS


def convert(console: Console, request: ConvertRequest) -> Result:
    """Write the model SOURCE to TARGET: as text if its name ends in .textproto, else as binary.

    Nodes that stand before those that write their inputs are sorted.
    """
    source, target, limits, opsets = request.source, request.target, request.limits, dict(request.opsets)
    require_folder(target)
    loaded = onnx.load(source, limits=limits)
    model = sorted_nodes(loaded)
    if model is not loaded:
        console.say("nodes: sorted, each after those that write its inputs")
    if opsets:
        model = _in_sets(console, source, model, opsets, limits)
    apart = request.external_data
    if target.exists() or apart:
        require_apart(source, target, limits)
    onnx.save(model, target, external=True if apart else None)
    console.say(f"{target}: written, {target.stat().st_size} bytes" + (" and its data beside it" * apart))
    sets = {domain or "ai.onnx": version for domain, version in model.opsets.items()}
    return {"exit_code": 0, "path": str(target), "bytes": target.stat().st_size, "opsets": sets}


def _in_sets(console: Console, source: Path, model: Model, opsets: Mapping[str, int], limits: Limits) -> Model:
    """The model in other operator sets; says what became of its nodes."""
    imported = imported_sets(model)
    missing = [domain or "ai.onnx" for domain in opsets if domain not in imported]
    if missing:
        raise HwflowError(f"{source} must import the operator set {missing[0]} to convert it; it does not use it")
    converted = onnx.convert_opset(model, opsets, limits)
    for domain, version in opsets.items():
        name, before = domain or "ai.onnx", imported[domain]
        console.say(f"{name}: version {version}" + (f", before {before}" if before != version else " already"))
    nodes = {id(node) for node in model.graph.nodes}
    new = sum(id(node) not in nodes for node in converted.graph.nodes)
    console.say(f"nodes: {len(converted.graph.nodes)}, {new} of them new; the source has {len(model.graph.nodes)}")
    return converted


def require_apart(source: Path, target: Path, limits: Limits) -> None:
    """Refuse to write over the weights of the source, unless the source itself is replaced as well."""
    if same_file(source, target):
        return
    document = read(source, limits=limits)
    locations = {e.value for place in tensors(document) for e in place.proto.external_data if e.key == "location"}
    for path in (target, target.parent / f"{target.name}.data"):
        if any(same_file(path, source.parent / location) for location in locations):
            raise HwflowError(
                f"must not be the file that has the weights of {source}", "choose another name", where=str(path)
            )
