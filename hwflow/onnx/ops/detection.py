"""NonMaxSuppression: of boxes that overlap too much, the one with the highest score."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr, Call, Operator, Table
from hwflow.onnx.ops.shapes import by_running

_Floats = npt.NDArray[np.float32]


def _non_max_suppression(
    call: Call,
    boxes: Arr,
    scores: Arr,
    largest_count: Arr | None = None,
    iou_threshold: Arr | None = None,
    score_threshold: Arr | None = None,
) -> Arr:
    """[n, 3]: image, class and number of each box that is kept; of a class the highest score comes first."""
    fits = boxes.ndim == scores.ndim == 3 and boxes.shape[2] == 4
    if not fits or (boxes.shape[0], boxes.shape[1]) != (scores.shape[0], scores.shape[2]):
        raise call.error(
            f"the boxes must be [N, n, 4] and the scores [N, classes, n], "
            f"not {list(boxes.shape)} and {list(scores.shape)}"
        )
    count = int(_number(call, largest_count, "max_output_boxes_per_class", 0))
    overlap = _number(call, iou_threshold, "iou_threshold", 0.0)
    if not 0 <= overlap <= 1:
        raise call.error(f"'iou_threshold' must be 0 to 1, not {overlap}")
    lowest = None
    if score_threshold is not None and score_threshold.size:
        lowest = _number(call, score_threshold, "score_threshold", 0.0)
    call.work(scores.size)
    kept = []
    for image, corners in enumerate(_corners(call, boxes)):
        for number, values in enumerate(scores[image]):
            order = np.argsort(-values, kind="stable")
            candidates = order if lowest is None else order[values[order] > lowest]
            kept += [(image, number, box) for box in _apart(call, corners, candidates, count, np.float32(overlap))]
    return np.array(kept, np.int64).reshape(-1, 3)


def _number(call: Call, given: Arr | None, what: str, default: float) -> float:
    if given is None or not given.size:
        return default
    if given.size != 1:
        raise call.error(f"'{what}' must be one number, not a tensor of the shape {list(given.shape)}")
    return given.reshape(-1)[0].item()  # type: ignore[no-any-return]


def _corners(call: Call, boxes: Arr) -> _Floats:
    """[N, n, 4]: two coordinates of the lower corner, then those of the higher one."""
    if call.integer("center_point_box"):
        half = boxes[:, :, 2:] / np.float32(2)
        first, second = boxes[:, :, :2] - half, boxes[:, :, :2] + half
    else:
        first, second = boxes[:, :, :2], boxes[:, :, 2:]
    return np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=2)


def _apart(
    call: Call, corners: _Floats, candidates: npt.NDArray[np.intp], count: int, overlap: np.float32
) -> list[int]:
    """The first boxes of `candidates`, each without those behind it that overlap it too much."""
    kept: list[int] = []
    while len(candidates) and len(kept) < count:
        call.work(max(len(candidates), 1000))
        best, candidates = candidates[0], candidates[1:]
        kept.append(int(best))
        candidates = candidates[~_overlaps(corners[best], corners[candidates], overlap)]
    return kept


def _overlaps(box: _Floats, others: _Floats, overlap: np.float32) -> npt.NDArray[np.bool_]:
    """Where the common area divided by that of both together is above the limit; boxes without area overlap nothing."""
    sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.where((sides > 0).all(axis=1), sides.prod(axis=1), np.float32(0))
    area, areas = (box[2:] - box[:2]).prod(), (others[:, 2:] - others[:, :2]).prod(axis=1)
    union = area + areas - common
    usable = (common > 0) & (area > 0) & (areas > 0) & (union > 0)
    too_much: npt.NDArray[np.bool_] = usable & (common / np.where(usable, union, np.float32(1)) > overlap)
    return too_much


OPERATORS: Table = {
    ("", "NonMaxSuppression"): (
        Operator(10, _non_max_suppression, by_running(_non_max_suppression), constant=(0, 1, 2, 3, 4)),
    ),
}
