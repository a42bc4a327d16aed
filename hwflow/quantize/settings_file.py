"""Quantization settings as a YAML file: what `hwflow quantize --settings` reads, and what reproduces a run.

    default: {weights: {bits: 4}, output: {bits: 8, method: mse}}
    equalize: auto
    inputs: {image: {range: [0, 255]}}
    layers: {conv1: {weights: {bits: 8}, output_stage: multiply}}

`settings.schema.json` beside this file says what may stand where.  What an input or layer leaves out is as in
`default`.
"""

from __future__ import annotations

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
import yaml
from hwflow_base.errors import HwflowError
from hwflow_base.files.plain_yaml import NotPlainYaml, plain_yaml

from hwflow.onnx.model import Model
from hwflow.quantize.passes.normalise import name_nodes
from hwflow.quantize.settings import (
    JOINT_STEPS,
    ActivationSettings,
    LayerSettings,
    OutputStage,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
)

#: No model that becomes hardware has so many layers that its settings are longer.
MAX_CHARACTERS = 1 << 20

_HEADER = """\
# Every choice of a quantization.  The same model with this file gives the same integers; where weights are rounded
# adaptively or jointly or biases corrected, it takes the same calibration data too.
"""


class UnknownName(HwflowError):
    """A layer or an input that the model has not."""


def settings_from_yaml(text: str, source: str, model: Model) -> QuantizationSettings:
    """Read `text`, which stands in the file `source` (for messages), as settings for `model`.

    HwflowError: no YAML, a key, value, input or node that there is not; names file, place and rule.
    """
    document = _document(text, source)
    if document is None:
        return QuantizationSettings()
    _check_schema(document, source)
    _check_numbers(document, source, ())
    names = {
        "inputs": [value.name for value in model.graph.inputs],
        "layers": [node.name for node in name_nodes(model).graph.nodes],
    }
    for section, there in names.items():
        for name in document.get(section, {}):
            if name not in there and not any(name.startswith(f"{known}.") for known in there):  # a pass made it of that
                kind = "an input" if section == "inputs" else "a node"
                near = nearest_name(name, there)
                raise UnknownName(f"settings {source}: {section}/{_short(name)} must name {kind} of the model{near}")
    default = _layer(document.get("default", {}), LayerSettings())
    equalize = document.get("equalize", "auto")
    return QuantizationSettings(
        default=default,
        layers={name: _layer(body, default) for name, body in document.get("layers", {}).items()},
        inputs={name: _activation(body, default.output) for name, body in document.get("inputs", {}).items()},
        equalize=None if equalize == "auto" else equalize,
        hardware_argmax=document.get("hardware_argmax", False),
        joint_steps=int(document.get("joint_steps", JOINT_STEPS)),
        chosen=True,
    )


def settings_to_yaml(settings: QuantizationSettings) -> str:
    """`settings` as a file that `settings_from_yaml` reads back to equal ones."""
    document: dict[str, Any] = {
        "default": _layer_body(settings.default),
        "equalize": _optional(settings.equalize),
        "inputs": {name: _activation_body(chosen) for name, chosen in settings.inputs.items()},
        "layers": {name: _layer_body(chosen) for name, chosen in settings.layers.items()},
    }
    if settings.hardware_argmax:
        document["hardware_argmax"] = True
    if settings.joint_steps != JOINT_STEPS:
        document["joint_steps"] = settings.joint_steps
    body = yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True)
    return _HEADER + str(body)


def nearest_name(name: str, there: Iterable[str]) -> str:
    """The end of a message about a name that is not among `there`: the one that may be meant, or some of them."""
    known = list(there)
    near = difflib.get_close_matches(name, known, 1, 0.5)
    if near:
        return f"; did you mean '{near[0]}'?"
    return f"; there are {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else "; it has none"


class _Dumper(yaml.SafeDumper):
    """Writes no references: the same object in two places is written twice."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _document(text: str, source: str) -> Any:
    if len(text) > MAX_CHARACTERS:
        raise HwflowError(f"settings {source} must be at most {MAX_CHARACTERS} characters, not {len(text)}")
    try:
        return plain_yaml(text)
    except NotPlainYaml as error:
        where = f", line {error.line}" if error.line else ""
        raise HwflowError(f"settings {source}{where}: must be plain YAML: {error.problem}") from None


@cache
def _validator() -> jsonschema.Draft202012Validator:
    text = files("hwflow.quantize").joinpath("settings.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def _check_schema(document: Any, source: str) -> None:
    errors = sorted(_validator().iter_errors(document), key=lambda error: list(map(str, error.absolute_path)))
    if not errors:
        return
    error = errors[0]
    place = "/".join(map(_short, error.absolute_path)) or "the file"
    if error.validator == "additionalProperties":
        keys = list(error.schema["properties"])
        unknown = _short(next(key for key in error.instance if key not in keys))
        near = difflib.get_close_matches(unknown, keys, 1)
        guess = f"; did you mean '{near[0]}'?" if near else ""
        raise HwflowError(f"settings {source}: {place} must have no key '{unknown}', only {', '.join(keys)}{guess}")
    rule = error.schema.get("description", error.message)
    raise HwflowError(f"settings {source}: {place} must be {rule}, not {_value(error.instance)}")


def _value(value: Any) -> str:
    """The text of a value as it stands in the file: a text of digits is no number."""
    return f"'{_short(value)}'" if isinstance(value, str) else _short(value)


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _check_numbers(value: Any, source: str, path: tuple[str, ...]) -> None:
    """Check what a schema cannot say: no NaN, and a range has its smaller end first."""
    place = f"settings {source}: {'/'.join(map(_short, path))}"
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_numbers(inner, source, (*path, str(key)))
    elif isinstance(value, float) and not math.isfinite(value):
        raise HwflowError(f"{place} must be a finite number, not {value}")
    elif isinstance(value, list):
        for inner in value:
            _check_numbers(inner, source, path)
        if value[0] > value[1]:
            raise HwflowError(f"{place} must be two numbers, the smaller first, not {value}", "swap them")


def _layer(body: Mapping[str, Any], default: LayerSettings) -> LayerSettings:
    return LayerSettings(
        weights=_weights(body.get("weights", {}), default.weights),
        output=_activation(body.get("output", {}), default.output),
        output_stage=OutputStage(body.get("output_stage", default.output_stage)),
        rescale_bits=_bits_or_auto(body["rescale_bits"]) if "rescale_bits" in body else default.rescale_bits,
    )


def _weights(body: Mapping[str, Any], default: WeightSettings) -> WeightSettings:
    correction = body.get("bias_correction", _optional(default.bias_correction))
    return WeightSettings(
        bits=int(body.get("bits", default.bits)),
        per_channel=body.get("per_channel", default.per_channel),
        method=RangeMethod(body.get("method", default.method)),
        rounding=WeightRounding(body.get("rounding", default.rounding)),
        bias_correction=None if correction == "auto" else correction,
    )


def _activation(body: Mapping[str, Any], default: ActivationSettings) -> ActivationSettings:
    chosen = replace(
        default,
        bits=int(body.get("bits", default.bits)),
        symmetric=body.get("symmetric", default.symmetric),
        method=RangeMethod(body.get("method", default.method)),
        percentile=float(body.get("percentile", default.percentile)),
    )
    if "range" in body:
        low, high = body["range"]
        return replace(chosen, range=(float(low), float(high)))
    return chosen


def _bits_or_auto(value: int | float | str) -> int | None:
    return None if value == "auto" else int(value)


def _optional(value: bool | None) -> bool | str:
    return "auto" if value is None else value


def _layer_body(layer: LayerSettings) -> dict[str, Any]:
    weights = layer.weights
    return {
        "weights": {
            "bits": weights.bits,
            "per_channel": weights.per_channel,
            "method": weights.method.value,
            "rounding": weights.rounding.value,
            "bias_correction": _optional(weights.bias_correction),
        },
        "output": _activation_body(layer.output),
        "output_stage": layer.output_stage.value,
        "rescale_bits": "auto" if layer.rescale_bits is None else layer.rescale_bits,
    }


def _activation_body(chosen: ActivationSettings) -> dict[str, Any]:
    body: dict[str, Any] = {"bits": chosen.bits, "symmetric": chosen.symmetric, "method": chosen.method.value}
    body["percentile"] = chosen.percentile
    if chosen.range is not None:
        body["range"] = [float(end) for end in chosen.range]
    return body
