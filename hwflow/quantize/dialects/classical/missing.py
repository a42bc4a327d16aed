"""Missing values that an exporter has sent elsewhere than the library does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from hwflow.onnx.model import Array, Model
from hwflow.quantize.graphs import ancestors, as_ints, label_of

#: The exporter that leaves out where trees send missing values, but for HistGradientBoosting.
EXPORTER = "skl2onnx"


def lost_ways(model: Model, rows: Mapping[str, Array] | None) -> Iterator[str]:
    """A sentence where `rows` lack values, and trees of `EXPORTER` read them and say nowhere that one takes the true
    side: the exporter writes that of files of DecisionTree and RandomForest, whatever they have learned.
    """
    missing = [name for name, array in (rows or {}).items() if array.dtype.kind == "f" and np.isnan(array).any()]
    if model.producer_name != EXPORTER or not missing:
        return
    for node in model.graph.nodes:
        before = ancestors(model.graph, node.inputs[:1])
        filled = any(other.op_type in ("Imputer", "IsNaN") for other in before)
        given = as_ints(node.attributes.get("nodes_missing_value_tracks_true", ()))
        if node.op_type.startswith("TreeEnsemble") and not filled and not any(given):
            yield (
                f"trees of '{label_of(node)}' send missing values, which the calibration data have, to the false side "
                "of every node, as the file says; scikit-learn's exporter writes that for DecisionTree, RandomForest "
                "and ExtraTrees, whatever they have learned: compare the classes with scikit-learn's, or put a "
                "SimpleImputer in front")
            return
