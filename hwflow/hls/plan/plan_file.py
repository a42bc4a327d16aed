"""A plan as a YAML file: to read, to edit, and to give back.

Only the foldings, and which layers share a stage, are read back from a file.  The cycles and resources in it are for
the reader; they are recomputed, and `computed_anew` says which the file has otherwise.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import jsonschema
import yaml
from hwflow_base.errors import HwflowError
from hwflow_base.files.plain_yaml import NotPlainYaml, plain_yaml, short
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.memory import Place

from hwflow.hls.plan.graph_stages import stage_names, stages_of
from hwflow.hls.plan.memories import MemoryPlan
from hwflow.hls.plan.outside_memory import OutsideMemory
from hwflow.hls.plan.plan import Plan, StagePlan, make_plan, no_such_stage, stage_kind
from hwflow.hls.shared.stage import KIND
from hwflow.layers.base import LayerGraph
from hwflow.stages.folding import Folding
from hwflow.stages.names import layer_names
from hwflow.stages.partition import SHARED, Partition, SharedLayers


def plan_to_yaml(plan: Plan) -> str:
    """The plan as a file to read and to edit."""
    own, shared = layer_names(plan.graph), [stage.name for stage in plan.partition.shared]
    stages = [{
        "stage": stage.name, "layers": list(stage.layers), "kind": stage_kind(plan.graph, stage),
        "rows": stage.folding.rows, "cols": stage.folding.cols, "lanes": stage.folding.lanes,
        **({"style": stage.folding.style.value} if stage.schedule.multipliers else {}),
        "cycles": stage.schedule.interval, "multipliers": stage.schedule.multipliers,
        **({"rescale": stage.folding.rescale.value} if stage.folding.rescale else {}),
        **({"weight_rows": stage.folding.weight_rows} if stage.folding.weight_rows else {}),
        **({"places": {name: place.value for name, place in stage.places.items()}} if stage.places else {}),
        **(shared_row(plan, stage, own) if stage.name in shared else {}),
        "resources": resources_dict(stage.resources),
    } for stage in plan.stages]
    names = [stage.name for stage in plan.stages]
    links = [{
        **dict(zip(("from", "to"), link.between(names), strict=True)), "tensor": link.tensor,
        "lanes": [link.lanes_out, link.lanes_in], "queue": link.beats, "bytes": link.buffer_bytes,
        **({"memory": "spram"} if link.spram else {}),
    } for link in plan.links]
    body = {"model": plan.model, "technology": plan.technology, "execution": plan.execution, "why": plan.why,
            "interval": plan.interval,
            "latency": list(plan.latency), "resources": resources_dict(plan.resources), "stages": stages,
            "links": links, "memories": [memory_facts(memory) for memory in plan.memories],
            **({"weights_outside": outside_facts(plan)} if plan.streams else {})}
    return header_of(plan) + str(yaml.safe_dump(body, sort_keys=False))


def header_of(plan: Plan) -> str:
    """The comment at the top of the file."""
    return (
        "# rows x cols multiplications are made in one cycle; lanes results leave a stage at once.\n"
        "# queue: depth in beats of the queue between two stages; latency: cycles to the first beat of each output.\n"
        + ("# memory: spram, where a queue has it; the other queues are in tables or block RAMs, which is cheaper.\n"
           if any(link.spram for link in plan.links) else "") +
        "# style: what multiplies: blocks, macs (blocks that add up two products, for even cols), pairs (two narrow\n"
        "# products in a block) or logic.  rescale: logic, where results are multiplied in logic to save blocks.\n"
        "# memories: what each holds and where it is.  places, of a stage, has those that are not where they would\n"
        "# be by themselves: {requantizer0: tables} or {ring: blocks}, with the name that follows the / below.\n"
        "# weight_rows: the rows whose weights arrive together from the memory outside of the FPGA; without it they\n"
        "# are in the FPGA.  weights_outside: bytes of a frame, and cycles from beat to beat that memory keeps up.\n"
        + ("# kind: shared: a program computes the layers in turn on one array; cycles of each in steps, the words\n"
           "# of each tensor in frames.  Take layers out of the list, each with an entry of its own, or put more in.\n"
           if plan.partition.shared else "") +
        "# Edit rows, cols, lanes, style, places and weight_rows and pass the file back with --plan; all else is\n"
        "# computed anew.\n")


def memory_facts(memory: MemoryPlan) -> dict[str, object]:
    """A memory for YAML and JSON: width in bits, depth in words."""
    stored = memory.memory
    return {"memory": memory.name, "holds": stored.holds.value, "kind": stored.kind.value, "width": stored.width,
            "depth": stored.depth, "ports": stored.ports, "bits": stored.bits, "place": memory.place.value,
            "blocks": memory.resources.ram, "wasted_bits": memory.wasted_bits}


def outside_facts(plan: Plan) -> dict[str, object]:
    """The weights outside for YAML and JSON; `core_mhz` is the clock of the core that the cycles are for."""
    assert plan.outside is not None, "a plan has no streams without a memory for them"
    return {"memory": plan.outside.part.name, "memory_mhz": plan.outside.part.clock_mhz,
            "core_mhz": plan.outside.core_mhz, "bytes": sum(weights.bytes for weights in plan.streams),
            "bandwidth_used": round(plan.bandwidth_used, 3),
            "streams": [{"stage": weights.stage, "bytes": weights.bytes, "lanes": weights.stream.lanes,
                         "beats": weights.stream.beats, "cycles_per_beat": round(float(weights.interval), 3)}
                        for weights in plan.streams]}


def resources_dict(resources: Resources) -> dict[str, int]:
    return {name: count for name, count in resources.counts().items() if count or name != "spram"}


#: Names of shared stages.
NAME = re.compile(f"{SHARED}[0-9]{{1,4}}")
BLOCKS, SPRAM = "blocks", "spram"
COUNT: Mapping[str, Any] = {"type": "integer", "minimum": 1}
#: Keys of a shared stage in a plan file, for its schema; `steps` and `frames` are for the reader.
SHARED_KEYS: Mapping[str, Any] = {
    "frame_memory": {"enum": [BLOCKS, SPRAM]}, "frame_banks": {"enum": [1, 2]}, "weight_buffer": COUNT,
    "rescale_interval": COUNT, "rom_rows": COUNT, "sliding_windows": {"type": "boolean"},
    "weights_ahead": {"type": "integer", "minimum": 0}, "frame_bands": {"type": "integer", "minimum": 0},
    "words_ahead": {"type": "integer", "minimum": 0}, "steps": {}, "frames": {}}
#: Those that must be there, and the field of `SharedLayers` that each one is.
SIZES = {"frame_banks": "banks", "weight_buffer": "buffer", "rescale_interval": "interval", "rom_rows": "rom_rows"}
#: Those that may be missing, which are 0 then.
MORE_SIZES = {"weights_ahead": "ahead", "frame_bands": "bands", "words_ahead": "words_ahead"}
PLACES: Mapping[str, Any] = {"type": "object", "additionalProperties": {"enum": [place.value for place in Place]}}
#: Keys of a stage that are read; `layer` is one of older versions, which did without.
READ_BACK = {"stage", "rows", "cols", "lanes", "style", "places", "rescale", "weight_rows", "layer",
             *(SHARED_KEYS.keys() - {"steps", "frames"})}
#: So many computed numbers are named in a message.
MOST_NAMED = 4
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "required": ["stages"],
    "properties": {"stages": {"type": "array", "minItems": 1, "items": {
        "type": "object",
        "required": ["stage", "rows", "cols", "lanes"],
        "properties": {"stage": {"type": "string"}, "rows": COUNT, "cols": COUNT, "lanes": COUNT,
                       "style": {"enum": [style.value for style in MultiplierStyle]}, "layers": {}, "kind": {},
                       "cycles": {}, "multipliers": {}, "resources": {}, "places": PLACES,
                       "rescale": {"const": "logic"}, "weight_rows": {"type": "integer", "minimum": 0},
                       **SHARED_KEYS,
                       "layer": {}},  # of plans of older versions
        "additionalProperties": False,
    }}, "model": {}, "technology": {}, "execution": {}, "why": {}, "interval": {}, "latency": {}, "resources": {},
       "links": {}, "memories": {}, "weights_outside": {}},
    "additionalProperties": False,
}


def plan_from_yaml(text: str, graph: LayerGraph, technology: Technology, *, source: str,
                   outside: OutsideMemory | None = None) -> Plan:
    """Read the foldings of `text` (from the file `source`, for messages) and compute the plan for `graph`.

    `outside` is the board's memory for weights.
    """
    document = read_document(text, source)
    rows = {row["stage"]: row for row in document["stages"]}
    for name, count in Counter(row["stage"] for row in document["stages"]).items():
        if count > 1:
            raise HwflowError(f"plan {source}: stage '{name}' must be named once, not {count} times")
    partition = shared_from_rows(document["stages"], layer_names(graph), source)
    try:
        names = stage_names(graph, partition)
    except HwflowError as error:
        raise error.at(f"plan {source}") from None
    for name in rows:
        if name not in names:
            raise HwflowError(f"plan {source}: {no_such_stage(name, names)}")
    missing = [name for name in names if name not in rows]
    if missing:
        raise HwflowError(
            f"plan {source}: stage '{missing[0]}' is missing", f"the plan must name every stage: {', '.join(names)}"
        )
    foldings = [folding_of(rows[name]) for name in names]
    for stage, folding in zip(stages_of(graph, partition), foldings, strict=True):
        problem = stage.folding_problem(folding, technology)
        if problem:
            raise HwflowError(f"plan {source}, stage '{stage.name}': {problem}")
    places = {name: {memory: Place(place) for memory, place in row.get("places", {}).items()}
              for name, row in rows.items()}
    try:
        plan = make_plan(graph, foldings, technology, places, outside, partition)
        return replace(plan, why="the plan file has it so")
    except HwflowError as error:
        raise error.at(f"plan {source}") from None


def computed_anew(text: str, plan: Plan, source: str) -> str | None:
    """A sentence with the numbers that are not those of `text`, from which `plan` was read; None where all are.

    Those of a file that was edited differ, too, which is right: they follow from what was edited."""
    file, anew = read_document(text, source), read_document(plan_to_yaml(plan), source)
    other = list(others(file, anew, {"stages", "why"}, ""))
    rows = {row["stage"]: row for row in anew["stages"]}
    for row in file["stages"]:
        other += others(row, rows[row["stage"]], READ_BACK, f"{row['stage']} ")
    if not other:
        return None
    more = f" and {len(other) - MOST_NAMED} more" if len(other) > MOST_NAMED else ""
    return (f"plan {source}: computed anew, not read from the file: {', '.join(other[:MOST_NAMED])}{more}; to change a "
            "design, edit what the file's first lines name")


def others(file: Mapping[str, Any], anew: Mapping[str, Any], left_out: Set[str], where: str) -> Iterator[str]:
    """The keys with another value, and both values where these are short."""
    for key in (name for name in file if name not in left_out):
        if key not in anew or file[key] != anew[key]:
            new, old = (short(str(document.get(key, "nothing")), 30) for document in (anew, file))
            plain = not isinstance(file[key], (dict, list)) and not isinstance(anew.get(key), (dict, list))
            yield f"{where}{key}" + (f" ({new}, in the file {old})" if plain else "")


def folding_of(row: Mapping[str, Any]) -> Folding:
    rows, cols, lanes = (int(row[key]) for key in ("rows", "cols", "lanes"))  # 4.0 is 4
    rescale = MultiplierStyle(row["rescale"]) if "rescale" in row else None
    return Folding(rows, cols, lanes, MultiplierStyle(row.get("style", "blocks")), rescale,
                   int(row.get("weight_rows", 0)))


def read_document(text: str, source: str) -> dict[str, Any]:
    """The content of the file.  HwflowError if it is not YAML or does not follow SCHEMA."""
    try:
        document = plain_yaml(text)
    except NotPlainYaml as error:
        where = f", line {error.line}" if error.line else ""
        raise HwflowError(f"plan {source}{where}: not valid YAML: {error.problem}") from None
    errors = sorted(jsonschema.Draft202012Validator(SCHEMA).iter_errors(document), key=lambda e: list(map(str, e.path)))
    if errors:
        path = "/".join(short(str(part)) for part in errors[0].absolute_path) or "the top level"
        raise HwflowError(
            f"plan {source}, {path}: {short(errors[0].message, 200)}",
            "start from the plan.yaml that `hwflow build` writes",
        )
    assert isinstance(document, dict)  # SCHEMA
    return document


def shared_row(plan: Plan, stage: StagePlan, names: Sequence[str]) -> dict[str, Any]:
    """The row with what a plan file says of a shared stage beside what it says of every one; `names` are those of the
    layers."""
    sizes = next(shared for shared in plan.partition.shared if shared.name == stage.name)
    return {
        "layers": [names[k] for k in sizes.layers], "frame_memory": SPRAM if sizes.single_port else BLOCKS,
        **{key: getattr(sizes, name) for key, name in SIZES.items()}, "sliding_windows": sizes.sliding,
        **{key: size for key, name in MORE_SIZES.items() if (size := getattr(sizes, name))},
        "steps": [{"step": step.name, "tensor": step.tensor, "cycles": step.cycles, "waits": step.waits,
                   "multiplier_use": round(step.multiplications / (stage.schedule.multipliers * step.cycles), 3)}
                  for step in stage.steps],
        "frames": [{"tensor": place.tensor, "words": [place.base, place.base + place.words - 1],
                    "steps": [place.first, place.last]} for place in stage.frames]}


def shared_from_rows(rows: Sequence[Mapping[str, Any]], names: Sequence[str], source: str) -> Partition:
    """The partition that the rows of a plan file give; `names` are those of the layers.

    HwflowError where a row names a layer that there is not, or has not all sizes.
    """
    shared = []
    for row in rows:
        if row.get("kind") != KIND:
            continue
        where = f"plan {source}, stage '{row['stage']}'"
        if not NAME.fullmatch(row["stage"]):
            raise HwflowError(f"{where}: the name of a shared stage must be {SHARED}0, {SHARED}1, ...")
        missing = [key for key in ("layers", "frame_memory", *SIZES) if key not in row]
        if missing:
            raise HwflowError(f"{where}: a shared stage must have {', '.join(missing)}",
                              "start from the plan.yaml that `hwflow build --execution shared` writes")
        layers = row["layers"]
        if not isinstance(layers, list) or not layers or not all(isinstance(name, str) for name in layers):
            raise HwflowError(f"{where}: layers must be a list of names, of {', '.join(names)}")
        for layer in layers:
            if layer not in names:
                near = difflib.get_close_matches(layer, names, 1)
                guess = f"; did you mean '{near[0]}'?" if near else ""
                raise HwflowError(f"{where}: layer '{short(layer)}' is not in the model; its layers are "
                                  f"{', '.join(names)}{guess}")
        twice = next((layer for layer in layers if layers.count(layer) > 1), None)
        if twice is not None:
            raise HwflowError(f"{where}: layer '{twice}' must be named once, not {layers.count(twice)} times")
        own = next((layer for layer in layers if any(other["stage"] == layer for other in rows)), None)
        if own is not None:
            raise HwflowError(f"{where}: layer '{own}' must be in one stage, and has a stage of its own in the file",
                              "take it out of layers, or remove that stage")
        shared.append(SharedLayers(
            row["stage"], tuple(sorted({names.index(layer) for layer in layers})), row["frame_memory"] == SPRAM,
            **{name: int(row[key]) for key, name in SIZES.items()}, sliding=row.get("sliding_windows", False),
            **{name: int(row.get(key, 0)) for key, name in MORE_SIZES.items()}))
    return Partition(tuple(shared))
