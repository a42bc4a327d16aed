"""The shared stages of a plan file: which layers they have, their sizes, and for the reader what they do when."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hwflow_base.errors import HwflowError
from hwflow_base.files.plain_yaml import short

from hwflow.stages.partition import SHARED, Partition, SharedLayers

from .plan import Plan, StagePlan
from .shared_stage import KIND

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


def shared_row(plan: Plan, stage: StagePlan, names: Sequence[str]) -> dict[str, Any]:
    """What a plan file says of a shared stage beside what it says of every one; `names` are those of the layers."""
    sizes = next(each for each in plan.partition.shared if each.name == stage.name)
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
    found = []
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
        if not isinstance(layers, list) or not layers or not all(isinstance(each, str) for each in layers):
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
        found.append(SharedLayers(
            row["stage"], tuple(sorted({names.index(layer) for layer in layers})), row["frame_memory"] == SPRAM,
            **{name: int(row[key]) for key, name in SIZES.items()}, sliding=row.get("sliding_windows", False),
            **{name: int(row.get(key, 0)) for key, name in MORE_SIZES.items()}))
    return Partition(tuple(found))
