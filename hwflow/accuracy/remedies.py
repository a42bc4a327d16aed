"""Remedies for a layer that hurts: the line of a settings file that changes it."""

from __future__ import annotations

from typing import Any

import yaml

from hwflow.accuracy.layers import LayerNoise
from hwflow.layers.formats import IntFormat
from hwflow.quantize import Quantized

#: The widest weights and activations that post-training quantization makes.
_BITS = 8
#: Share of elements outside of the range from which a wider range is tried before finer steps; methods that weigh
#: errors clip some tenths of a per cent on purpose, at few bits more.
_SATURATED = 0.01
#: A layer whose values fill less of its range than this gains more from a narrower range than from more bits.
_UNUSED = 1 / 20
#: Where values reach so many times as far as the range, bits are not what is missing.
_BEYOND = 10.0
_OTHER_RANGE = "its range is far too {}: calibrate with rows like those of the data, or leave out its `range`"


def of_layer(quantized: Quantized, layer: LayerNoise | None) -> str:
    """The change for `layer`, or in general where it is None or has no settings of its own."""
    if not quantized.settings:
        return "its integers are fixed in the model: train or export it with more bits, or start from the float model"
    chosen = yaml.safe_load(quantized.settings)["layers"]
    own = chosen.get(layer.layer) if layer is not None else None
    if layer is None or own is None:
        return "give it more bits (--bits 8), or calibrate with more rows like those of the data"
    if layer.reach is not None and layer.reach < _UNUSED:
        return _OTHER_RANGE.format("wide")
    narrow: dict[str, object] = {}
    if layer.weights and IntFormat.parse(layer.weights).bits < _BITS:
        narrow["weights"] = {"bits": _BITS}
    if IntFormat.parse(layer.activations).bits < _BITS:
        narrow["output"] = {"bits": _BITS}
    beyond = (layer.saturated or 0.0) > _SATURATED
    if narrow and not (beyond and layer.reach is not None and layer.reach > _BEYOND):
        line = file_text({"layers": {layer.layer: narrow}})
        return f"give it more bits, in --settings: {line}, or let --accuracy-drop choose those of all layers"
    method = own.get("output", {}).get("method")
    if beyond and method == "minmax":
        return _OTHER_RANGE.format("narrow")
    if beyond:
        wide = {"layers": {layer.layer: {"output": {"method": "minmax"}}}}
        return f"try a wider range, in --settings: {file_text(wide)}"
    if method == "minmax":
        return f"try finer steps, in --settings: {file_text({'layers': {layer.layer: {'output': {'method': 'mse'}}}})}"
    return f"try, in --settings: {file_text({'equalize': True})}"


def file_text(document: Any) -> str:
    """`document` as YAML in one line, which is a whole settings file."""
    return str(yaml.safe_dump(document, default_flow_style=True, width=float("inf"), allow_unicode=True)).strip()
