"""Forms of operators that move, select and sort elements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx.forms.elementwise import each
from tests.onnx.forms.form import Case, case, draw, ints, number, real, words

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)

LAYOUT = [
    case("Flatten", 1, X, axis=2),
    case("Flatten", 9, X.astype(np.int32), axis=0),
    case("Flatten", 11, X, axis=-1),
    case("Reshape", 1, X, shape=[0, -1], expected=X.reshape(2, 12)),
    case("Reshape", 1, X, shape=[4, 6], consumed_inputs=[0], expected=X.reshape(4, 6)),
    case("Reshape", 5, X, ints(0, -1)),
    case("Reshape", 13, X, ints(4, 0, 2)),
    case("Reshape", 14, X[:0], ints(0, 5), allowzero=1),
    case("Transpose", 1, X),
    case("Transpose", 13, X, perm=[2, 0, 1]),
    case("Squeeze", 1, X[:1, :1], axes=[0, 1]),
    case("Squeeze", 1, X[:1, :1]),
    case("Squeeze", 11, X[:, :1], axes=[-2]),
    case("Squeeze", 13, X[:, :1], ints(1)),
    case("Squeeze", 13, X[:1, :1], ints(), expected=X[:1, :1]),
    case("Unsqueeze", 1, X, axes=[0, 4]),
    case("Unsqueeze", 11, X, axes=[-1, 0]),
    case("Unsqueeze", 13, X, ints(2, -1)),
    case("DepthToSpace", 1, draw(2, 8, 2, 3), blocksize=2),
    case("DepthToSpace", 11, draw(2, 8, 2, 3), blocksize=2, mode="CRD"),
    case("DepthToSpace", 13, draw(1, 9, 1, 2), blocksize=3, mode="DCR"),
    case("SpaceToDepth", 1, draw(2, 3, 4, 6), blocksize=2),
    case("SpaceToDepth", 13, draw(1, 1, 3, 6), blocksize=3),
    case("SpaceToDepth", 28, np.arange(16.0, dtype=np.float32).reshape(1, 1, 4, 4), blocksize=2, mode="CRD",
         expected=real(0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15).reshape(1, 4, 2, 2)),
    case("Expand", 8, X[:, :1], ints(2, 5, 1)),
    case("Expand", 13, X[:, :1], ints(3, 1)[1:]),
]  # fmt: skip

PIECES = [
    case("Concat", 1, X, X, expected=np.concatenate([X, X], 1)),
    case("Concat", 1, X, X, axis=2, expected=np.concatenate([X, X], 2)),
    case("Concat", 4, X, X[:1], axis=0),
    case("Concat", 11, X, X, axis=-1),
    case("Concat", 13, X.astype(np.int8), X.astype(np.int8), axis=1),
    case("Split", 1, X, axis=1, split=[1, 2], outputs=2, expected=(X[:, :1], X[:, 1:])),
    case("Split", 1, X, real(1, 2), axis=1, outputs=2, expected=(X[:, :1], X[:, 1:])),
    case("Split", 1, X, outputs=2, expected=(X[:1], X[1:])),
    case("Split", 2, X, axis=2, outputs=2),
    case("Split", 11, X, axis=-1, split=[1, 0, 3], outputs=3),
    case("Split", 13, X, ints(3, 1), axis=2, outputs=2),
    case("Split", 18, X, axis=1, num_outputs=2, outputs=2),
    case("Tile", 1, X, real(2), real(1), expected=np.tile(X, (1, 2, 1))),
    case("Tile", 6, X, ints(1, 2, 3)),
    case("Tile", 6, X, ints(1, 0, 3)),
    case("Tile", 13, X.astype(np.int64), ints(2, 1, 2)),
]

SLICES = [
    case("Slice", 1, X, starts=[0, -3], ends=[1, 1000], axes=[0, 2]),
    case("Slice", 1, X, starts=[1], ends=[-1], axes=[1]),
    case("Slice", 1, X, starts=[1, 1], ends=[2, 9]),
    case("Slice", 10, X, ints(1, -1), ints(2, -9), ints(0, 2), ints(1, -2)),
    case("Slice", 10, X, ints(0), ints(2)),
    case("Slice", 11, X, ints(3), ints(-100), ints(-1), ints(-1)),
    case("Slice", 13, X.astype(bool), *(np.array([v], np.int32) for v in (2, 0, 1, -1))),
    case("Pad", 1, X, paddings=[0, 1, 0, 2, 0, 1], value=3.5,
         expected=np.pad(X, [(0, 2), (1, 0), (0, 1)], constant_values=3.5)),
    case("Pad", 1, X, paddings=[0, 1, 2, 1, 0, 1], mode="reflect",
         expected=np.pad(X, [(0, 1), (1, 0), (2, 1)], mode="reflect")),
    case("Pad", 2, X, pads=[0, -1, 0, 1, 2, -1], value=1.0),
    case("Pad", 2, X, pads=[0, 2, 3, 0, 1, 1], mode="reflect"),
    case("Pad", 2, X, pads=[0, 2, 3, 1, 1, 1], mode="edge"),
    case("Pad", 11, X, ints(1, 0, 0, 0, 2, 0), real(2)),
    case("Pad", 11, X, ints(0, 0, 0, 0, 0, 3), mode="edge"),
    case("Pad", 13, X.astype(np.int64), ints(1, 0, 0, 0, 0, 1), np.array(7, np.int64)),
    case("Pad", 18, X, ints(1, 2), None, ints(-1), mode="reflect"),
    case("Pad", 19, X, ints(1, 2, 3, 1), None, ints(2, 1), mode="wrap"),
    case("Pad", 19, X, ints(-1, 3), None, ints(2), mode="wrap",
         expected=X[:, :, [1, 2, 3, 1, 2, 3]]),
    case("Pad", 21, X, ints(-1, 2), None, ints(2), mode="reflect"),
    case("Pad", 23, X, ints(9, 9), None, ints(2), mode="reflect",
         expected=np.pad(X, [(0, 0), (0, 0), (9, 9)], mode="reflect")),
    case("CenterCropPad", 18, X, ints(3, 2), axes=[0, 2]),
    case("CenterCropPad", 18, X, ints(1, 6, 1)),
    case("CenterCropPad", 18, X, np.array([1, 6, 1], np.int32),
         expected=np.pad(X[:1, :, 1:2], [(0, 0), (1, 2), (0, 0)])),
]  # fmt: skip

AT = ints(2, 0, -1).reshape(3, 1)
SELECTION = [
    case("Gather", 1, X, ints(0, 2, 1), axis=1),
    case("Gather", 11, X, ints(-1, 0), axis=-1),
    case("Gather", 13, X.astype(np.int8), np.array([[1, 0]], np.int32)),
    case("GatherElements", 11, X, ints(2, 0).reshape(1, 2, 1), axis=2),
    case("GatherElements", 13, X, ints(*range(-12, 12)).reshape(2, 3, 4) % 2, axis=0),
    case("GatherND", 11, X, ints(0, 2, 1, -1).reshape(2, 2)),
    case("GatherND", 12, X, ints(2, 0).reshape(2, 1), batch_dims=1),
    case("GatherND", 13, X, ints(1, 1, 3).reshape(1, 3)),
    case("Compress", 9, X, np.array([True, False, True]), axis=1),
    case("Compress", 9, X, np.array([False, True, True])),
    case("Compress", 11, X, np.array([False, True, True]), axis=-2),
    case("NonZero", 9, (X % 3).astype(np.float32)),
    case("NonZero", 13, X > 20),
    case("OneHot", 9, ints(1, -1, 5), ints(3), real(2, 5)),
    case("OneHot", 11, ints(1, 0, 2).reshape(3, 1), np.array(3, np.int64), real(0, 1), axis=0),
    case("OneHot", 11, real(1, 0, 2), real(4), real(0, 1), axis=1),
    case("OneHot", 28, np.array([1, 2**64 - 1], np.uint64), np.array(2, np.int8), np.array(["no", "yes"], object),
         expected=np.array([["no", "yes"], ["no", "no"]], object)),
    case("ReverseSequence", 10, X[..., 0], ints(1, 2, 0), batch_axis=1, time_axis=0),
    case("ReverseSequence", 10, X, ints(2, 3), batch_axis=0, time_axis=1),
    case("Trilu", 14, X, np.array(1, np.int64)),
    case("Trilu", 14, X, np.array(-1, np.int64), upper=0),
    case("Scatter", 9, X, ints(1, 0).reshape(1, 2, 1), real(-1, -2).reshape(1, 2, 1), axis=2),
    case("ScatterElements", 11, X[0], AT[:2].T, real(-1, -2).reshape(1, 2), axis=1),
    case("ScatterElements", 13, X[0], AT, real(-1, -2, -3).reshape(3, 1)[:3], axis=1),
    case("ScatterElements", 16, X[0], AT, real(1, 2, 3).reshape(3, 1), axis=0, reduction="add"),
    case("ScatterElements", 16, X[0], AT, real(1, 2, 3).reshape(3, 1), axis=0, reduction="mul"),
    case("ScatterElements", 18, X[0], AT, real(9, 2, 3).reshape(3, 1), axis=0, reduction="max"),
    case("ScatterElements", 18, X[0], AT, real(9, 2, 3).reshape(3, 1), axis=0, reduction="min"),
    case("ScatterND", 11, X, ints(1, 0, 0, 2).reshape(2, 2), -X[0, :2]),
    case("ScatterND", 13, X, ints(1, -1).reshape(2, 1)[:1], -X[:1]),
    case("ScatterND", 16, X, ints(1, 1).reshape(2, 1), X, reduction="add"),
    case("ScatterND", 16, X, ints(1, 1).reshape(2, 1), X, reduction="mul"),
    case("ScatterND", 18, X, ints(1, 1).reshape(2, 1), X + 9, reduction="max"),
    case("ScatterND", 18, X, ints(1, 1).reshape(2, 1), X - 9, reduction="min"),
    case("TensorScatter", 24, X, -X[:, :2], ints(1, 0)),
    case("TensorScatter", 24, X, -X[:, :2], ints(2, 1), mode="circular", axis=1),
]

TIES, ARGS = real(1, 3, 3, 3, 1, 1, 3, 3, 1).reshape(3, 3), ("ArgMax", "ArgMin")
SORTED = [
    *(case(op, opset, TIES, axis=axis, keepdims=0) for op in ARGS for opset, axis in ((1, 1), (11, -2))),
    *(case(op, 12, TIES, axis=1, select_last_index=1) for op in ARGS),
    *(case(op, 13, TIES.astype(np.int8), axis=0) for op in ARGS),
    case("TopK", 1, TIES, k=2, axis=1, outputs=2),
    case("TopK", 1, TIES, k=1, axis=0, outputs=2),
    case("TopK", 10, TIES, ints(2), axis=0, outputs=2),
    case("TopK", 11, TIES, ints(2), largest=0, outputs=2),
    case("TopK", 24, TIES.astype(np.int32), ints(3), outputs=2),
    case("Unique", 11, real(2, 1, 1, 3, 4, 3), sorted=0, outputs=4),
    case("Unique", 11, ints(1, 0, 0, 1, 0, 0, 2, 3, 4).reshape(3, 3), axis=0, outputs=4),
    case("Unique", 11, ints(1, 0, 0, 1, 0, 0, 2, 3, 4).reshape(3, 3), axis=-1, sorted=0, outputs=4),
]


def cases() -> Iterator[Case]:
    yield from (*LAYOUT, *PIECES, *SLICES, *SELECTION, *SORTED)
    yield from _layout()
    yield from _blocks()
    yield from _pieces()
    yield from _slices()
    yield from _pads()
    yield from _selection()
    yield from _sorted()
    yield from _texts(words("a", "b", "c", "b", shape=(2, 2)))
    yield from _nothing(np.empty((0, 3), np.float32))
    yield from _deep()


def _layout() -> Iterator[Case]:
    for axis in (None, 0, 1, 2, 3):
        yield from each("Flatten", [s.since for s in versions_of("", "Flatten")], X,
                        attributes={} if axis is None else {"axis": axis})  # fmt: skip
    yield from each("Flatten", (11, 13), X, axis=-1)
    for schema in versions_of("", "Transpose"):
        yield from (case("Transpose", schema.since, X, perm=perm) for perm in ([1, 2, 0], [0, 2, 1], [2, 0, 1]))
        yield case("Transpose", schema.since, draw(2, 3))
        yield case("Transpose", schema.since, np.arange(6).reshape(2, 3), expected=np.arange(6).reshape(2, 3).T)
    yield case("Reshape", 1, X, shape=[-1], expected=X.reshape(-1))
    yield case("Reshape", 1, X, shape=[0, -1], consumed_inputs=[0], expected=X.reshape(2, 12))
    yield case("Reshape", 1, X[0, 0, :1], expected=X[0, 0, 0])
    for schema in versions_of("", "Reshape")[1:]:
        for shape in ((6, 4), (-1,), (0, 12), (0, -1), (2, -1, 2), (0, 0, 2, 2)):
            yield case("Reshape", schema.since, X, ints(*shape))
        if schema.since >= 14:
            yield case("Reshape", schema.since, X, ints(4, 6), allowzero=1)
            yield case("Reshape", schema.since, X[:0], ints(3, 0), allowzero=1)
    x = draw(1, 3, 1, 2)
    for schema in versions_of("", "Squeeze"):
        since = schema.since
        for axes in ([2], [0, 2], [-2, 0], None) if since >= 11 else ([2], [0, 2], None):
            if since < 13:
                yield case("Squeeze", since, x, attributes={} if axes is None else {"axes": axes})
            else:
                answer = x.squeeze(None if axes is None else tuple(axes))
                yield case("Squeeze", since, x, *([] if axes is None else [ints(*axes)]), expected=answer)
    for schema in versions_of("", "Unsqueeze"):
        since = schema.since
        for axes in ([0], [0, 3], [2, 0], [-1], [-1, 0]) if since >= 11 else ([0], [0, 3], [2, 0]):
            if since < 13:
                yield case("Unsqueeze", since, X[0], axes=axes)
            else:
                yield case("Unsqueeze", since, X[0], ints(*axes), expected=np.expand_dims(X[0], tuple(axes)))
    for schema in versions_of("", "Shape"):
        yield case("Shape", schema.since, X, expected=np.array(X.shape))
        if schema.since >= 15:
            for how, answer in (({"start": 1}, [3, 4]), ({"start": -2, "end": -1}, [3]),
                                ({"start": -9, "end": 9}, [2, 3, 4])):  # fmt: skip
                yield case("Shape", schema.since, X, attributes=how, expected=np.array(answer))
    yield from each("Size", [s.since for s in versions_of("", "Size")], X, expected=np.array(X.size))
    for shape in ((2, 3, 4), (1,), (3, 1), (5, 1, 1, 4)):
        yield from each("Expand", (8, 13), draw(3, 1), ints(*shape),
                        expected=draw(3, 1) * np.ones(shape, np.float32))  # fmt: skip


def _blocks() -> Iterator[Case]:
    parts, whole = draw(1, 8, 2, 3), draw(1, 2, 4, 6)
    answer = parts.reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6)
    yield from each("DepthToSpace", (1, 11, 13, 28), parts, blocksize=2, expected=answer)
    answer = parts.reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6)
    yield from each("DepthToSpace", (11, 28), parts, blocksize=2, mode="CRD", expected=answer)
    answer = whole.reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3)
    yield from each("SpaceToDepth", (1, 13, 28), whole, blocksize=2, expected=answer)


def _pieces() -> Iterator[Case]:
    pair, triple = (draw(2, 3), draw(2, 1)), [draw(2, 2, seed=i) for i in range(3)]
    for schema in versions_of("", "Concat"):
        yield case("Concat", schema.since, *pair, axis=1, expected=np.concatenate(pair, 1))
        yield case("Concat", schema.since, *triple, axis=0, expected=np.concatenate(triple, 0))
        yield case("Concat", schema.since, draw(2, 2), axis=0, expected=draw(2, 2))
    image = draw(1, 2, 2, 1), draw(1, 1, 2, 1)
    yield case("Concat", 1, *image, expected=np.concatenate(image, 1))
    for since in (1, 2, 11):
        yield case("Split", since, X, axis=2, split=[3, 1], outputs=2, expected=[X[..., :3], X[..., 3:]])
        yield case("Split", since, X, axis=2, outputs=2, expected=[X[..., :2], X[..., 2:]])
        yield case("Split", since, draw(6, 4), outputs=3, expected=np.split(draw(6, 4), 3))
    for since in (13, 18):
        yield case("Split", since, X, ints(3, 1), axis=-1, outputs=2, expected=[X[..., :3], X[..., 3:]])
        yield case("Split", since, draw(6, 4), ints(2, 4), outputs=2, expected=[draw(6, 4)[:2], draw(6, 4)[2:]])
    yield from (case("Split", 13, X, axis=axis, outputs=2, expected=np.split(X, 2, axis)) for axis in (0, -1))
    yield case("Split", 18, X, num_outputs=3, axis=2, outputs=3, expected=[X[..., :2], X[..., 2:], X[..., 4:]])
    yield case("Split", 18, draw(7), num_outputs=3, outputs=3, expected=[draw(7)[:3], draw(7)[3:6], draw(7)[6:]])
    for scalars in ((real(3), real(2)), (number(3), number(2)), (number(3), number(-1))):
        yield case("Tile", 1, X, *scalars, constants=(1, 2), expected=np.tile(X, (1, 1, 3)))
    yield from each("Tile", (6, 13), X, ints(1, 2, 1), expected=np.tile(X, (1, 2, 1)))


def _slices() -> Iterator[Case]:
    x = draw(4, 5, 6)
    for starts, ends, axes, steps in (
        ([1], [3], None, None), ([0, 1], [2, -1], [0, 2], None), ([-100], [100], [1], None),
        ([-2, 0], [-1, 2], [1, 0], None),
        ([-1], [-100], [2], [-1]), ([3], [0], [1], [-2]), ([10], [-10], [1], [-1]), ([0], [2**62], [-1], [3]),
        ([4], [1], [1], [1]), ([0], [4], [2], [2]),
    ):  # fmt: skip
        rest = [None if v is None else ints(*v) for v in (axes, steps)]
        index = [slice(None)] * 3
        for k, (start, end) in enumerate(zip(starts, ends, strict=True)):
            index[k if axes is None else axes[k]] = slice(start, end, None if steps is None else steps[k])
        if axes != [-1]:
            yield from each("Slice", (10, 11, 13), x, ints(*starts), ints(*ends), *rest, expected=x[tuple(index)])
        yield case("Slice", 13, x, ints(*starts), ints(*ends), *rest)
        if steps is None:
            how = {"starts": starts, "ends": ends} | ({} if axes is None else {"axes": axes})
            yield case("Slice", 1, x, attributes=how, expected=x[tuple(index)])
    yield case("Slice", 13, draw(1, 3), ints(0), ints(-100), ints(0), ints(-1))


def _pads() -> Iterator[Case]:
    x = draw(1, 2, 3, 3)
    modes: tuple[Any, ...] = ("constant", "reflect", "edge")
    for schema in versions_of("", "Pad"):
        since, name = schema.since, "paddings" if schema.since == 1 else "pads"
        for mode in modes:
            places = [(0, 0), (0, mode == "constant"), (1, 0), (0, 2)]
            pads = [int(p[0]) for p in places] + [int(p[1]) for p in places]
            answer = np.pad(x, places, mode=mode)
            if since < 11:
                yield case("Pad", since, x, mode=mode, attributes={name: pads}, expected=answer)
            else:
                yield case("Pad", since, x, ints(*pads), mode=mode, expected=answer)
        filled = np.pad(x, [(0, 0), (0, 1), (1, 0), (0, 2)], constant_values=1.5)
        pads = [0, 0, 1, 0, 0, 1, 0, 2]
        if since < 11:
            yield case("Pad", since, x, value=1.5, attributes={name: pads}, expected=filled)
            yield case("Pad", since, x.astype(np.float64), value=1.5, attributes={name: pads},
                       expected=np.pad(x.astype(np.float64), [(0, 0), (0, 1), (1, 0), (0, 2)], constant_values=1.5))
        else:
            yield from (case("Pad", since, x, ints(*pads), number(1.5), expected=filled, constants=c)
                        for c in ((), (2,)))  # fmt: skip
        if since >= 18:
            for mode in modes:
                yield case("Pad", since, x, ints(1, 2), None, ints(-1), mode=mode,
                           expected=np.pad(x, [(0, 0)] * 3 + [(1, 2)], mode=mode))  # fmt: skip
    yield case("Pad", 13, draw(3, 4), ints(1, -1, 0, 2), number(7))
    yield case("Pad", 19, draw(3, 4), ints(0, 3, 0, 3), mode="wrap")
    yield case("Pad", 2, draw(4, 5), pads=[1, 0, 0, 2], value=9.0, mode="edge",
               expected=np.pad(draw(4, 5), ((1, 0), (0, 2)), "edge"))  # fmt: skip


def _selection() -> Iterator[Case]:
    for index in (ints(0, 2), np.array([[1, -1], [0, 1]]), np.array(1)):
        for axis in (0, 1, -1):
            yield from each("Gather", (11, 13), draw(3, 3, 3), index, axis=axis,
                            expected=np.take(draw(3, 3, 3), index, axis))  # fmt: skip
    for index in (ints(1, 0), np.array(1)):
        yield case("Gather", 1, X, index, axis=2, expected=np.take(X, index, 2))
    for since in (9, 11, 28):
        yield case("Compress", since, X, np.array([True, False, True]), axis=1, expected=X[:, [0, 2]])
        hot = np.array([[2, 5, 2], [2, 2, 5]], np.float32)
        yield case("OneHot", since, ints(1, 2), ints(3), real(2, 5), expected=hot)
    yield case("OneHot", 11, ints(-1, -2), ints(3), real(2, 5))
    yield from each("NonZero", (9, 13), np.array([[1, 0], [0, 2]]), expected=np.array([[0, 1], [0, 1]]))
    yield from each("ReverseSequence", (10, 28), X[..., 0].T, ints(1, 3), time_axis=0, batch_axis=1)
    for since in (11, 13, 16, 18):
        yield case("ScatterElements", since, X, ints(1, 0).reshape(1, 2, 1), real(-1, -2).reshape(1, 2, 1), axis=2)
        yield case("ScatterND", since, X, ints(1).reshape(1, 1), -X[:1], expected=np.stack([X[0], -X[0]]))
    yield from each("GatherElements", (11, 13), X, ints(1, 0).reshape(1, 2, 1), axis=2)
    yield from each("GatherND", (11, 12, 13), X, ints(1, 2).reshape(1, 2), expected=X[1, 2][None])


def _sorted() -> Iterator[Case]:
    for op, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for since in (1, 11, 12, 13):
            yield case(op, since, X, expected=function(X, 0)[None])
            yield case(op, since, TIES, axis=1, keepdims=0, expected=function(TIES, 1))
            for axis in (0, -1) if since >= 12 else ():
                yield from (case(op, since, TIES, axis=axis, keepdims=keep, select_last_index=1) for keep in (0, 1))
    order = np.argsort(-X, axis=2, kind="stable")
    largest = [np.take_along_axis(X, order, 2)[..., :2], order[..., :2]]
    yield case("TopK", 1, X, k=2, outputs=2, expected=largest)
    yield from each("TopK", (10, 11, 24), X, ints(2), outputs=2, expected=largest)
    for since in (11, 24):
        for x in (X, TIES):
            yield from (case("TopK", since, x, ints(2), outputs=2, axis=a, largest=k) for a in (0, 1) for k in (0, 1))
        best = [X.max(2, keepdims=True), X.argmax(2)[..., None]]
        yield case("TopK", since, X, ints(1), outputs=2, sorted=0, expected=best)
    yield from each("Unique", (11, 28), real(2, 0, 0, 1, 4, 3), sorted=0, expected=real(2, 0, 1, 4, 3))
    for dtype in (np.float32, ml_dtypes.bfloat16):  # not-a-number equals itself, is last, and the largest
        x = np.array([np.nan, 1, np.nan, -1], dtype)
        answer = [x[[3, 1, 0]], ints(3, 1, 0), ints(2, 1, 2, 0), ints(1, 1, 2)]
        yield case("Unique", 28, x, outputs=4, own=True, expected=answer)
        yield case("TopK", 24, x, ints(3), outputs=2, own=True, expected=[x[[0, 2, 1]], ints(0, 2, 1)])
        yield case("TopK", 24, x, ints(1), outputs=2, largest=0, own=True, expected=[x[[3]], ints(3)])


def _texts(texts: np.ndarray) -> Iterator[Case]:
    """Where a schema takes texts, nothing is the empty text, and order is that of code points."""
    yield case("Pad", 25, texts[0], ints(1, 0), expected=words("", "a", "b"))
    yield case("Pad", 25, texts[0], ints(0, 1), np.array("x", object), expected=words("a", "b", "x"))
    yield case("Trilu", 14, texts, expected=words("a", "b", "", "b", shape=(2, 2)))
    yield case("CenterCropPad", 18, texts, ints(2, 3), expected=words("a", "b", "", "c", "b", "", shape=(2, 3)))
    yield case("NonZero", 13, words("", "x"), expected=np.array([[1]]))
    answer = [words("a", "b", "c"), ints(0, 1, 2), ints(0, 1, 2, 1), ints(1, 2, 1)]
    yield case("Unique", 11, texts, outputs=4, expected=answer)
    yield case("Slice", 13, np.array("a", object), ints(), ints(), expected=np.array("a", object))
    yield case("Gather", 13, texts[0], np.array(1), expected=np.array("b", object))


def _nothing(none: np.ndarray) -> Iterator[Case]:
    """Tensors without elements; `none` is [0, 3]."""
    yield case("TopK", 24, none, ints(2), outputs=2, expected=[none[:, :2], np.empty((0, 2), np.int64)])
    rows = [none, ints(), ints(), ints()]
    yield case("Unique", 11, none, axis=0, outputs=4, expected=rows)
    yield case("NonZero", 13, none, expected=np.empty((2, 0), np.int64))
    yield case("NonZero", 13, np.array(3.0), expected=np.empty((0, 1), np.int64))
    index = np.empty((4, 0, 1), np.int64)
    yield case("GatherND", 13, none, index, expected=np.empty((4, 0, 3), np.float32))


def _deep() -> Iterator[Case]:
    """64 axes, as many as numpy has."""
    x = np.arange(8, dtype=np.float32).reshape(*(1,) * 61, 2, 2, 2)
    index = np.zeros(x.shape, np.int64)
    yield case("GatherElements", 13, x, index, axis=-1, expected=x[..., [0, 0]])
    scattered = x.copy()
    scattered[..., 0] = x[..., 1]
    yield case("ScatterElements", 18, x, index, x, axis=63, expected=scattered)
    yield case("GatherND", 13, x, np.array([[0] * 63 + [1]]), expected=real(1))
    yield case("ScatterND", 18, x, np.array([[0] * 64]), real(9), expected=np.where(x == 0, np.float32(9), x))
    yield case("Tile", 13, x, ints(*[1] * 63, 3), expected=np.concatenate([x] * 3, -1))
    yield case("Pad", 25, x, ints(*[0] * 127, 1), expected=np.pad(x, [(0, 0)] * 63 + [(0, 1)]))
    yield case("Slice", 13, x, ints(1), ints(2), ints(-1), expected=x[..., 1:])
    yield case("Expand", 13, x, ints(3, *x.shape[1:]), expected=np.concatenate([x] * 3, 0))
    yield case("Mul", 14, x, x, expected=x * x)
    yield case("Unsqueeze", 25, x[0], ints(0), expected=x)
