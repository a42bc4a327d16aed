"""Forms of operators that move, select, resize and make elements."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hwflow.onnx.schemas import versions_of
from tests.onnx import test_ops_history as known
from tests.onnx.neural import Case, case, draw

X = draw(2, 3, 4)
ints, real = known.ints, known.real


def cases() -> Iterator[Case]:
    for old in known.CASES:
        yield Case(old.op, old.opset, old.inputs, old.attributes, old.outputs, old.expected)
    yield from _layout()
    yield from _pieces()
    yield from _selection()
    yield from _made()
    yield from _images()


def _layout() -> Iterator[Case]:
    for schema in versions_of("", "Flatten"):
        for axis in (None, 0, 2, *((-1,) if schema.since >= 11 else ())):
            yield case("Flatten", schema.since, X, attributes={} if axis is None else {"axis": axis})
    for schema in versions_of("", "Transpose"):
        yield case("Transpose", schema.since, X, perm=[1, 2, 0])
        yield case("Transpose", schema.since, draw(2, 3))
        yield case("Transpose", schema.since, np.arange(6).reshape(2, 3), expected=np.arange(6).reshape(2, 3).T)
    for schema in versions_of("", "Reshape"):
        if schema.since < 5:
            yield case("Reshape", 1, X, shape=[-1], expected=X.reshape(-1))
            continue
        yield case("Reshape", schema.since, X, ints(0, -1))
        yield replace(case("Reshape", schema.since, X, ints(2, -1, 2), expected=X.reshape(2, -1, 2)))
        if schema.since >= 14:
            yield case("Reshape", schema.since, X, ints(4, 6), allowzero=1)
    for schema in versions_of("", "Squeeze"):
        x = draw(1, 3, 1, 2)
        if schema.since < 13:
            yield case("Squeeze", schema.since, x, axes=[2])
            yield case("Squeeze", schema.since, x)
            if schema.since == 11:
                yield case("Squeeze", 11, x, axes=[-2, 0])
        else:
            yield case("Squeeze", schema.since, x, ints(-2, 0), expected=x[0, :, 0])
            yield case("Squeeze", schema.since, x, expected=x[0, :, 0])
    for schema in versions_of("", "Unsqueeze"):
        if schema.since < 13:
            yield case("Unsqueeze", schema.since, X, axes=[1, 3])
        else:
            yield case("Unsqueeze", schema.since, X, ints(-1, 0), expected=X[None, ..., None])
    yield from _blocks()
    for op in ("Shape", "Size"):
        for schema in versions_of("", op):
            yield case(op, schema.since, X, expected=np.array(X.shape if op == "Shape" else X.size))
            if op == "Shape" and schema.since >= 15:
                yield case(op, schema.since, X, start=1, expected=np.array([3, 4]))
                yield case(op, schema.since, X, start=-2, end=-1, expected=np.array([3]))
                yield case(op, schema.since, X, start=-9, end=9, expected=np.array([2, 3, 4]))
    for since in (8, 13):
        yield case("Expand", since, draw(3, 1), ints(2, 1, 4), expected=np.broadcast_to(draw(3, 1), (2, 3, 4)))


def _blocks() -> Iterator[Case]:
    for since in (1, 11, 13, 28):
        yield case(
            "DepthToSpace",
            since,
            draw(1, 8, 2, 3),
            blocksize=2,
            expected=draw(1, 8, 2, 3).reshape(1, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(1, 2, 4, 6),
        )
    yield case(
        "DepthToSpace",
        28,
        draw(1, 8, 2, 3),
        blocksize=2,
        mode="CRD",
        expected=draw(1, 8, 2, 3).reshape(1, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(1, 2, 4, 6),
    )
    for since in (1, 13, 28):
        yield case(
            "SpaceToDepth",
            since,
            draw(1, 2, 4, 6),
            blocksize=2,
            expected=draw(1, 2, 4, 6).reshape(1, 2, 2, 2, 3, 2).transpose(0, 3, 5, 1, 2, 4).reshape(1, 8, 2, 3),
        )


def _pieces() -> Iterator[Case]:
    for schema in versions_of("", "Concat"):
        pair = (draw(2, 3), draw(2, 1))
        yield case("Concat", schema.since, *pair, axis=1, expected=np.concatenate(pair, 1))
        yield case("Concat", schema.since, draw(2, 2), axis=0, expected=draw(2, 2))
    yield case(
        "Concat",
        1,
        draw(1, 2, 2, 1),
        draw(1, 1, 2, 1),
        expected=np.concatenate((draw(1, 2, 2, 1), draw(1, 1, 2, 1)), 1),
    )
    for since in (1, 2, 11):
        yield case("Split", since, X, axis=2, split=[3, 1], outputs=2, expected=[X[..., :3], X[..., 3:]])
        yield case("Split", since, X, axis=2, outputs=2, expected=[X[..., :2], X[..., 2:]])
        yield case("Split", since, draw(4), outputs=2, expected=[draw(4)[:2], draw(4)[2:]])
    for since in (13, 18):
        yield case("Split", since, X, ints(3, 1), axis=-1, outputs=2, expected=[X[..., :3], X[..., 3:]])
    yield case("Split", 13, X, outputs=2, expected=[X[:1], X[1:]])
    yield case("Split", 18, X, num_outputs=3, axis=2, outputs=3, expected=[X[..., :2], X[..., 2:], X[..., 4:]])
    yield case("Split", 18, draw(7), num_outputs=3, outputs=3, expected=[draw(7)[:3], draw(7)[3:6], draw(7)[6:]])
    yield case("Slice", 1, X, starts=[-2, 0], ends=[-1, 2], axes=[1, 0])
    yield case("Slice", 1, X[0], starts=[1], ends=[100])
    for since in (10, 11, 13):
        yield case("Slice", since, X, ints(1, 0), ints(3, 2), ints(1, 2), expected=X[:, 1:3, :2])
        yield case("Slice", since, X, ints(0, 0), ints(2, 3), expected=X[:2, :3])
        yield case("Slice", since, X, ints(0), ints(4), ints(2), ints(2), expected=X[..., ::2])
    yield case("Slice", 13, X, ints(-1), ints(-5), ints(-1), ints(-1), expected=X[..., ::-1])
    for schema in versions_of("", "Pad"):
        since = schema.since
        x, pads = draw(1, 2, 3, 3), [0, 0, 1, 0, 0, 1, 0, 2]
        for mode in ("constant", "reflect", "edge"):
            places = [(0, 0), (0, 0), (1, 0), (0, 2)] if mode != "constant" else [(0, 0), (0, 1), (1, 0), (0, 2)]
            given = pads if mode == "constant" else [0, 0, 1, 0, 0, 0, 0, 2]
            wanted = np.pad(x, places, mode=mode)  # type: ignore[call-overload]
            if since < 11:
                yield case(
                    "Pad",
                    since,
                    x,
                    attributes={"paddings" if since == 1 else "pads": given},
                    mode=mode,
                    expected=wanted,
                )
            else:
                yield case("Pad", since, x, ints(*given), mode=mode, expected=wanted)
        filled = np.pad(x, [(0, 0), (0, 1), (1, 0), (0, 2)], constant_values=1.5)
        if since < 11:
            yield case(
                "Pad", since, x, attributes={"paddings" if since == 1 else "pads": pads}, value=1.5, expected=filled
            )
        else:
            yield replace(case("Pad", since, x, ints(*pads), real(1.5)[0], expected=filled), constants=(2,))
            yield case("Pad", since, x, ints(*pads), real(1.5)[0], expected=filled)
        if since >= 18:
            yield case("Pad", since, x, ints(1, 2), None, ints(-1), expected=np.pad(x, [(0, 0)] * 3 + [(1, 2)]))
    yield replace(case("Tile", 1, X, real(3), real(2), expected=np.tile(X, (1, 1, 3))), constants=(1, 2))
    for since in (6, 13):
        yield case("Tile", since, X, ints(1, 2, 1), expected=np.tile(X, (1, 2, 1)))


def _selection() -> Iterator[Case]:
    for since in (1, 11, 13):
        yield case("Gather", since, X, ints(1, 0), axis=2, expected=X[..., [1, 0]])
        yield case("Gather", since, X, np.array(1), expected=X[1])
    yield case("Gather", 11, X, ints(-1), expected=X[-1:])
    for op, function in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for since in (1, 11, 12, 13):
            yield case(op, since, X, expected=function(X, 0)[None])
            yield case(op, since, X, axis=2, keepdims=0, expected=function(X, 2))
        for since in (12, 13):
            yield case(op, since, X, axis=1, select_last_index=1)
    order = np.argsort(-X, axis=2, kind="stable")
    largest = [np.take_along_axis(X, order, 2)[..., :2], order[..., :2]]
    yield case("TopK", 1, X, k=2, outputs=2, expected=largest)
    for since in (10, 11, 24):
        yield case("TopK", since, X, ints(2), outputs=2, expected=largest)
    for since in (11, 24):
        yield case("TopK", since, X, ints(2), outputs=2, axis=1, largest=0)
        best = [X.max(2, keepdims=True), X.argmax(2)[..., None]]
        yield case("TopK", since, X, ints(1), outputs=2, sorted=0, expected=best)
    for since in (9, 11, 28):
        yield case("Compress", since, X, np.array([True, False, True]), axis=1, expected=X[:, [0, 2]])
        hot = np.array([[2, 5, 2], [2, 2, 5]], np.float32)
        yield case("OneHot", since, ints(1, 2), ints(3), real(2, 5), expected=hot)
    yield case("OneHot", 11, ints(-1, -2), ints(3), real(2, 5))
    for since in (9, 13):
        yield case("NonZero", since, np.array([[1, 0], [0, 2]]), expected=np.array([[0, 1], [0, 1]]))
    for since in (10, 28):
        yield case("ReverseSequence", since, X[..., 0].T, ints(1, 3), time_axis=0, batch_axis=1)
    for since in (9, 16):
        yield case("Where", since, X > 0, X, draw(4))
    wanted = np.array([2.0, 0, 1, 4, 3])
    for since in (11, 28):
        yield case("Unique", since, np.array([2.0, 0, 0, 1, 4, 3]), sorted=0, expected=[wanted])
    for since in (11, 13, 16, 18):
        yield case("ScatterElements", since, X, ints(1, 0).reshape(1, 2, 1), real(-1, -2).reshape(1, 2, 1), axis=2)
        yield case("ScatterND", since, X, ints(1).reshape(1, 1), -X[:1], expected=np.stack([X[0], -X[0]]))
    for since in (11, 13):
        yield case("GatherElements", since, X, ints(1, 0).reshape(1, 2, 1), axis=2)
    for since in (11, 12, 13):
        yield case("GatherND", since, X, ints(1, 2).reshape(1, 2), expected=X[1, 2][None])
    for since in (11, 14):
        yield case("CumSum", since, X, np.array(1), exclusive=1, reverse=1)


def _made() -> Iterator[Case]:
    """Constants, and random numbers of one possible value."""
    two = np.array([[1, -2.5]], np.float32)
    for schema in versions_of("", "Constant"):
        since = schema.since
        yield case("Constant", since, value=two, expected=two)
        if since >= 12:
            yield case("Constant", since, value_float=1.5, expected=np.float32(1.5))
            yield case("Constant", since, value_ints=[3, 4], expected=np.array([3, 4]))
            yield case("Constant", since, value_int=7, expected=np.array(7))
            yield case("Constant", since, value_floats=[0.5], expected=np.float32([0.5]))
            yield case("Constant", since, value_strings=["a"], expected=np.array(["a"], object))
    for since in (11, 27):
        ends = [np.array(v, np.float32) for v in (1, 4, 0.5)]
        yield case("Range", since, *ends, constants=(0, 1, 2), expected=np.arange(1, 4, 0.5, np.float32))
    for schema in versions_of("", "ConstantOfShape"):
        yield case("ConstantOfShape", schema.since, ints(2, 3), expected=np.zeros((2, 3), np.float32))
        yield case("ConstantOfShape", schema.since, ints(2), value=ints(7), expected=ints(7, 7))
    for since in (1, 22):
        three = np.full((2, 3), 3, np.float32)
        yield case("RandomNormal", since, shape=[2, 3], mean=3.0, scale=0.0, expected=three)
        yield case("RandomUniform", since, shape=[2, 3], low=3.0, high=3.0, expected=three)
        yield case("RandomNormalLike", since, draw(2, 3), mean=3.0, scale=0.0, expected=three)
        yield case("RandomUniformLike", since, draw(2, 3), low=3.0, high=3.0, dtype=1, expected=three)
    for since in (15, 22):
        yield case("Bernoulli", since, np.array([0.0, 1.0]), dtype=6, expected=np.array([0, 1], np.int32))
    for since in (7, 22):
        certain = np.array([[-80, 0.0, -80]], np.float32)
        yield case("Multinomial", since, certain, sample_size=3, expected=np.array([[1, 1, 1]], np.int32))


def _images() -> Iterator[Case]:
    """Resizing by numbers of every version; the axes and the default of a mode that changed."""
    image = known.IMAGE
    for since in (1, 22):
        rois = np.insert(known.ROIS, 0, 0, axis=1)
        yield case("MaxRoiPool", since, image, rois, pooled_shape=[2, 2], like=1)
    for since in (10, 16, 22):
        yield case("RoiAlign", since, image, known.ROIS, ints(0, 0, 0, 0), output_height=2, output_width=2)
    for since in (16, 20, 22):
        bilinear = "bilinear" if since < 20 else "linear"
        yield case("GridSample", since, image, known.PLACES)
        yield case("GridSample", since, image, known.PLACES, mode=bilinear, align_corners=1)
        yield case("GridSample", since, image, known.PLACES, mode="bicubic" if since < 20 else "cubic")
    yield case(
        "Upsample",
        1,
        image,
        height_scale=2.0,
        width_scale=2.0,
        mode="nearest",
        expected=image.repeat(2, 2).repeat(2, 3),
    )
    yield case("Upsample", 7, image, scales=[1.0, 1.0, 2.0, 2.0], expected=image.repeat(2, 2).repeat(2, 3))
    yield case("Upsample", 9, image, real(1, 1, 2, 2), expected=image.repeat(2, 2).repeat(2, 3))
    for since in (11, 13, 18, 19):
        empty = real() if since < 13 else None
        grown = image.repeat(2, 2).repeat(2, 3)
        yield case("Resize", since, image, empty, real(1, 1, 2, 2), expected=grown)
        yield case("Resize", since, image, empty, real(1, 1, 2, 2), mode="linear")
        yield case("Resize", since, image, empty, empty if since < 13 else None, ints(1, 2, 3, 3), mode="cubic")
    for since in (9, 11, 22):
        values, places = real(5, 6, 7, 8).reshape(1, 1, 2, 2), ints(0, 7, 13, 10).reshape(1, 1, 2, 2)
        yield case("MaxUnpool", since, values, places, kernel_shape=[2, 2], strides=[2, 2])
    for since in (10, 11):
        yield case("NonMaxSuppression", since, known.BOXES, known.SCORES, ints(2), real(0.3), real(0.2))
