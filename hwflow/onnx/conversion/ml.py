"""Operators of ai.onnx.ml: LabelEncoder, and the ensembles of `trees`."""

from __future__ import annotations

from hwflow.onnx.conversion import trees
from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps


def _keys_and_values(site: Site) -> None:
    """LabelEncoder to 2: classes are numbered; a text becomes its number, a number its text."""
    classes = site.attribute("classes_strings") or ()
    numbers = tuple(range(len(classes)))
    kept = site.attributes("classes_strings", "default_string", "default_int64")
    if site.needs_dtype(site.input(0)).kind in "OU":
        pairs = {"keys_strings": classes, "values_int64s": numbers, "default_int64": site.attribute("default_int64")}
    else:
        pairs = {"keys_int64s": numbers, "values_strings": classes, "default_string": site.attribute("default_string")}
    site.keep(attributes={**kept, **pairs})


UP: Steps = {"LabelEncoder": {2: _keys_and_values}, **trees.UP}
