"""Operators that only move elements, and those that reduce axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwflow.onnx.errors import InvalidModel, Unsupported
from hwflow.onnx.tflite.conversion import TO_CHANNELS_FIRST, Conversion, Layout
from hwflow.onnx.tflite.elementwise import cast_to
from hwflow.onnx.tflite.file import Operator, Tensor

_AGAIN = "the file is damaged: copy or export it again"


def axis_in(axis: int, tensor: Tensor, layout: Layout = Layout.FILE) -> int:
    """Where the axis `axis` of a tensor is in a layout; negative ones count from the end."""
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise InvalidModel(f"the axis must be {-rank} to {rank - 1} of {tensor.label}, not {axis}", _AGAIN)
    axis %= rank
    return TO_CHANNELS_FIRST.index(axis) if layout is Layout.CHANNELS_FIRST else axis


def ordered(values: Sequence[int], layout: Layout) -> list[int]:
    """One value an axis of the file's order, in the order of `layout`."""
    return [values[k] for k in TO_CHANNELS_FIRST] if layout is Layout.CHANNELS_FIRST else list(values)


def concatenation(c: Conversion, operator: Operator) -> None:
    """Tensors one after the other; each is brought to the scale of the output."""
    options = operator.read("ConcatenationOptions")
    tensors, y = c.all_inputs(operator), c.output(operator)
    layout = c.common_layout(tensors)
    if all(len(tensor.shape) == 4 for tensor in tensors) and any(tensor.index in c.states for tensor in tensors):
        layout = Layout.CHANNELS_FIRST  # in whatever order a state is kept, what convolves it reads this one
    axis = axis_in(options.whole("axis"), tensors[0], layout)
    value = c.node("Concat", *(c.real(tensor, layout) for tensor in tensors), axis=axis)
    c.put(y, value, layout, options.whole("activation"))


def split(c: Conversion, operator: Operator) -> None:
    """Inputs of SPLIT are the axis and x, of SPLIT_V x, the sizes and the axis."""
    sized = operator.kind == "SPLIT_V"
    tensors = c.inputs(operator, 3 if sized else 2)
    x, axis_tensor = (tensors[0], tensors[2]) if sized else (tensors[1], tensors[0])
    axis = c.fixed_whole(axis_tensor, "the axis")
    layout = c.common_layout([x])
    outputs = c.outputs(operator, len(operator.outputs))
    place = axis_in(axis, x)
    total = x.shape[place]
    if sized:
        sizes = c.fixed_wholes(tensors[1], "the sizes")
        if sizes.count(-1) == 1:
            sizes[sizes.index(-1)] = total - sum(sizes) - 1
    else:
        sizes = [total // max(len(outputs), 1)] * len(outputs)
    if sum(sizes) != total or len(sizes) != len(outputs) or min(sizes, default=0) < 0:
        raise InvalidModel(f"the parts {sizes} must be those of {total} places, one for each output", _AGAIN)
    values = c.node_of("Split", (c.real(x, layout), c.wholes(sizes)), len(outputs), axis=axis_in(axis, x, layout))
    for tensor, value in zip(outputs, values, strict=True):
        c.put(tensor, value, layout)


def reshape(c: Conversion, operator: Operator) -> None:
    """The shape is an input, or in the options of old files."""
    x, shape = c.operands(operator, 1, 2)
    assert x is not None, "the first one is there"
    y = c.output(operator)
    stated = operator.read("ReshapeOptions").wholes("new_shape")
    if shape is not None and shape.data is None:
        wanted = c.node("Cast", c.raw(shape), to=7)
    else:
        sizes = c.fixed_wholes(shape, "the shape") if shape is not None else list(stated)
        if shape is not None and len(shape.shape) != 1:  # files of TOCO have shapes that are no lists
            sizes = list(stated or y.shape)
        wanted = c.wholes(sizes)
    c.put(y, c.node("Reshape", c.real(x), wanted, allowzero=1 if 0 in y.shape else None))


def squeeze(c: Conversion, operator: Operator) -> None:
    """Without the axes that the options name, or all of one place."""
    (x,) = c.inputs(operator, 1)
    dims = operator.read("SqueezeOptions").wholes("dims")
    axes = [axis_in(axis, x) for axis in dims] or [k for k, size in enumerate(x.shape) if size == 1]
    c.put(c.output(operator), c.node("Squeeze", c.real(x), c.wholes(axes)))


def expand_dims(c: Conversion, operator: Operator) -> None:
    """With another axis of one place."""
    x, axis = c.inputs(operator, 2)
    axes = c.fixed_wholes(axis, "the axis")
    c.put(c.output(operator), c.node("Unsqueeze", c.real(x), c.wholes(axes)))


def transpose(c: Conversion, operator: Operator) -> None:
    """The order of the axes is an input."""
    x, order = c.inputs(operator, 2)
    perm = c.fixed_wholes(order, "the order of the axes")
    rank = len(x.shape)
    if sorted(axis % max(rank, 1) for axis in perm) != list(range(rank)):
        raise InvalidModel(f"the order {perm} must have each axis of {x.label} once", _AGAIN)
    c.put(c.output(operator), c.node("Transpose", c.real(x), perm=[axis % rank for axis in perm]))


def strided_slice(c: Conversion, operator: Operator) -> None:
    """From, to and step for each axis, with masks that say otherwise for some of them."""
    options = operator.read("StridedSliceOptions")
    x, *bounds = c.inputs(operator, 4)
    begins, ends, steps = (c.fixed_wholes(t, what) for t, what in zip(bounds, ("begin", "end", "step"), strict=True))
    if not len(begins) == len(ends) == len(steps):
        raise InvalidModel(f"begin, end and step must be of one length, not {len(begins)}, {len(ends)}, {len(steps)}")
    if options.flag("offset"):
        ends = [begin + end for begin, end in zip(begins, ends, strict=True)]
    sliced, new, shrunk = _sliced_axes(operator, x, begins, ends, steps)
    layout = Layout.FILE if new or shrunk else c.common_layout([x])
    value = c.real(x, layout)
    if sliced:
        axes, starts, stops, strides = zip(*sliced, strict=True)
        places = [axis_in(axis, x, layout) for axis in axes]
        value = c.node("Slice", value, *map(c.wholes, (starts, stops, places, strides)))
    if shrunk:
        value = c.node("Squeeze", value, c.wholes(shrunk))
    if new:
        value = c.node("Unsqueeze", value, c.wholes(new))
    c.put(c.output(operator), value, layout)


#: Beyond every end, in both directions.
_FAR = (1 << 31) - 1


def _sliced_axes(operator: Operator, x: Tensor, begins: list[int], ends: list[int],
                 steps: list[int]) -> tuple[list[tuple[int, int, int, int]], list[int], list[int]]:
    """Axes of x with (axis, begin, end, step); axes of the result that are new; axes of x that go."""
    options = operator.read("StridedSliceOptions")
    masks = {name: options.whole(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    count, rank = len(begins), len(x.shape)
    flags = [{name for name, mask in masks.items() if mask >> k & 1} for k in range(count)]
    if sum("ellipsis" in each for each in flags) > 1:
        raise InvalidModel("the ellipsis mask must name one axis at most", _AGAIN)
    sliced, new, shrunk = [], [], []
    axis = place = 0
    for k in range(count):
        if "ellipsis" in flags[k]:
            later = sum("new_axis" not in each for each in flags[k + 1 :])
            skipped = max(rank - axis - later, 0)
            axis, place = axis + skipped, place + skipped
        elif "new_axis" in flags[k]:
            new.append(place)
            place += 1
        elif axis >= rank:
            raise InvalidModel(f"the bounds must be those of {rank} axes of {x.label}, not of more", _AGAIN)
        elif "shrink_axis" in flags[k]:
            begin = 0 if "begin" in flags[k] else axis_place(begins[k], x, axis)
            sliced.append((axis, begin, begin + 1, 1))
            shrunk.append(axis)
            axis += 1
        else:
            sliced += _bounds(axis, (begins[k], ends[k], steps[k]), flags[k])
            axis, place = axis + 1, place + 1
    return sliced, new, shrunk


def axis_place(place: int, x: Tensor, axis: int) -> int:
    """A place of an axis; negative ones count from the end."""
    size = x.shape[axis]
    if not -size <= place < size:
        raise InvalidModel(f"the place must be {-size} to {size - 1} of axis {axis} of {x.label}, not {place}", _AGAIN)
    return place % size


def _bounds(axis: int, bounds: tuple[int, int, int], flags: set[str]) -> list[tuple[int, int, int, int]]:
    """The slice of an axis; none where it takes all of it."""
    begin, end, step = bounds
    if step == 0:
        raise InvalidModel("the steps must not be 0", _AGAIN)
    if "begin" in flags:
        begin = 0 if step > 0 else _FAR
    if "end" in flags:
        end = _FAR if step > 0 else -_FAR
    return [] if (begin, end, step) == (0, _FAR, 1) else [(axis, begin, end, step)]


def slice_(c: Conversion, operator: Operator) -> None:
    """From a place on so many places of each axis; -1 is all that are left."""
    x, begin, size = c.inputs(operator, 3)
    if begin.data is None or size.data is None:
        _slice_of_computed(c, operator)
        return
    begins, sizes = c.fixed_wholes(begin, "the begin"), c.fixed_wholes(size, "the size")
    if not len(begins) == len(sizes) == len(x.shape):
        raise InvalidModel(f"the begin and the size must have a number for each axis of {x.label}", _AGAIN)
    ends = [_FAR if count < 0 else first + count for first, count in zip(begins, sizes, strict=True)]
    layout = c.common_layout([x])
    axes = [axis_in(axis, x, layout) for axis in range(len(begins))]
    c.put(c.output(operator), c.node("Slice", c.real(x, layout), *map(c.wholes, (begins, ends, axes))), layout)


def _slice_of_computed(c: Conversion, operator: Operator) -> None:
    """The same with a begin or a size that nodes compute: in a loop written out they are constant."""
    x, begin, size = c.inputs(operator, 3)
    first, count = (c.node("Cast", c.raw(tensor), to=7) for tensor in (begin, size))
    rest = c.node("Less", count, c.wholes([0]))
    ends = c.node("Where", rest, c.wholes([_FAR]), c.node("Add", first, count))
    c.put(c.output(operator), c.node("Slice", c.real(x), first, ends))


def pad(c: Conversion, operator: Operator) -> None:
    """PAD puts real zeros around, PADV2 a given value, MIRROR_PAD what is inside."""
    tensors = c.inputs(operator, 3 if operator.kind == "PADV2" else 2)
    x, y = tensors[0], c.output(operator)
    pairs = c.fixed(tensors[1], "the padding")
    if pairs.shape != (len(x.shape), 2):
        raise InvalidModel(f"the padding must be [{len(x.shape)}, 2], not {list(pairs.shape)}", _AGAIN)
    layout = c.common_layout([x])
    before, after = (ordered([int(v) for v in pairs[:, k]], layout) for k in (0, 1))
    inputs, mode = [c.real(x, layout), c.wholes([*before, *after])], "constant"
    if operator.kind == "PADV2":
        inputs.append(_single(c, tensors[2]))
    if operator.kind == "MIRROR_PAD":
        number = operator.read("MirrorPadOptions").whole("mode")
        if number not in (0, 1):
            raise InvalidModel(f"the mode must be REFLECT or SYMMETRIC, not number {number}", _AGAIN)
        if number == 1:
            c.put(y, _symmetric(c, x, layout, before, after), layout)
            return
        mode = "reflect"
    c.put(y, c.node("Pad", *inputs, mode=mode), layout)


def _single(c: Conversion, tensor: Tensor) -> str:
    """A tensor of one element without axes."""
    if tensor.shape not in ((), (1,)):
        raise InvalidModel(f"{tensor.label} must be one element, not of the shape {list(tensor.shape)}", _AGAIN)
    if not tensor.shape:
        return c.real(tensor)
    value = c.node("Squeeze", c.raw(tensor))
    return c.dequantized(tensor, value) if c.is_quantized(tensor) else value


def _symmetric(c: Conversion, x: Tensor, layout: Layout, before: list[int], after: list[int]) -> str:
    """Mirrored with the border itself, axis by axis; ONNX has no such Pad."""
    value, shape = c.real(x, layout), ordered(x.shape, layout)
    for axis, (first, last) in enumerate(zip(before, after, strict=True)):
        size = shape[axis]
        if not (0 <= first <= size and 0 <= last <= size):
            raise InvalidModel(f"the padding must be at most {size} of axis {axis}, not {first} and {last}", _AGAIN)
        if first or last:
            places = [*range(first - 1, -1, -1), *range(size), *range(size - 1, size - 1 - last, -1)]
            value = c.node("Gather", value, c.wholes(places), axis=axis)
    return value


#: ONNX' reductions by the operators' names.
REDUCTIONS = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin",
              "REDUCE_PROD": "ReduceProd"}


def reduction(c: Conversion, operator: Operator) -> None:
    """The axes are an input; all of one place stay where the options say so."""
    x, axes = c.inputs(operator, 2)
    keep = operator.read("ReducerOptions").flag("keep_dims")
    wanted = c.fixed_wholes(axes, "the axes")
    y = c.output(operator)
    layout = c.common_layout([x]) if keep or {axis_in(a, x) for a in wanted} == {1, 2} else Layout.FILE
    places = sorted({axis_in(axis, x, layout) for axis in wanted})
    value = c.node(REDUCTIONS[operator.kind], c.real(x, layout), c.wholes(places), keepdims=int(keep),
                   noop_with_empty_axes=None if places else 1)
    c.put(y, value, layout if keep else Layout.FILE)


def gather(c: Conversion, operator: Operator) -> None:
    """Places of an axis by their numbers."""
    options = operator.read("GatherOptions")
    x, places = c.inputs(operator, 2)
    if options.whole("batch_dims"):
        raise Unsupported("batch_dims must be 0", "export the model with another form of Gather")
    axis = axis_in(options.whole("axis"), x)
    c.put(c.output(operator), c.node("Gather", c.real(x), c.raw(places), axis=axis))


def gather_nd(c: Conversion, operator: Operator) -> None:
    """Parts by the numbers of their first axes."""
    x, places = c.inputs(operator, 2)
    c.put(c.output(operator), c.node("GatherND", c.real(x), c.node("Cast", c.raw(places), to=7)))


def pack(c: Conversion, operator: Operator) -> None:
    """Tensors of one shape along a new axis."""
    tensors, y = c.all_inputs(operator), c.output(operator)
    axis = operator.read("PackOptions").whole("axis")
    axis = axis + len(tensors[0].shape) + 1 if axis < 0 else axis
    values = [c.node("Unsqueeze", c.real(tensor), c.wholes([axis])) for tensor in tensors]
    c.put(y, c.node("Concat", *values, axis=axis))


def unpack(c: Conversion, operator: Operator) -> None:
    """The places of an axis as tensors of their own."""
    (x,) = c.inputs(operator, 1)
    axis = axis_in(operator.read("UnpackOptions").whole("axis"), x)
    outputs = c.outputs(operator, x.shape[axis])
    if len(outputs) == 1:
        c.put(outputs[0], c.node("Squeeze", c.real(x), c.wholes([axis])))
        return
    parts = c.node_of("Split", (c.real(x), c.wholes([1] * len(outputs))), len(outputs), axis=axis)
    for tensor, part in zip(outputs, parts, strict=True):
        c.put(tensor, c.node("Squeeze", part, c.wholes([axis])))


def tile(c: Conversion, operator: Operator) -> None:
    """As many copies of each axis."""
    x, counts = c.inputs(operator, 2)
    wanted = c.wholes(c.fixed_wholes(counts, "the numbers of copies"))
    c.put(c.output(operator), c.node("Tile", c.real(x), wanted))


def broadcast_to(c: Conversion, operator: Operator) -> None:
    """Copies along axes of one place."""
    x, shape = c.inputs(operator, 2)
    c.put(c.output(operator), c.node("Expand", c.real(x), c.wholes(c.fixed_wholes(shape, "the shape"))))


def shape_of(c: Conversion, operator: Operator) -> None:
    """SHAPE and RANK: sizes that are known here."""
    (x,), y = c.inputs(operator, 1), c.output(operator)
    if operator.kind == "SHAPE" and x.is_open:
        c.put_raw(y, cast_to(c, c.node("Shape", c.raw(x)), y))
        return
    value = np.array(x.shape if operator.kind == "SHAPE" else len(x.shape), y.dtype)
    c.put_raw(y, c.node("Identity", c.constant(value, c.names[y.index] + "/value")))


def arg(c: Conversion, operator: Operator) -> None:
    """Where the largest or the least element of an axis is; the first one of equal ones."""
    x, axis = c.inputs(operator, 2)
    place = c.fixed_whole(axis, "the axis")
    y = c.output(operator)
    kind = "ArgMax" if operator.kind == "ARG_MAX" else "ArgMin"
    value = c.node(kind, c.real(x), axis=axis_in(place, x), keepdims=0)
    c.put_raw(y, value if y.type_name == "INT64" else c.node("Cast", value, to=6))


def depth_and_space(c: Conversion, operator: Operator) -> None:
    """Blocks of pixels to channels and back; the channels of a pixel stay together."""
    (x,), y = c.inputs(operator, 1), c.output(operator)
    c.rank(x, 4)
    kind, table = (("SpaceToDepth", "SpaceToDepthOptions") if operator.kind == "SPACE_TO_DEPTH"
                   else ("DepthToSpace", "DepthToSpaceOptions"))
    block = operator.read(table).whole("block")
    if block < 1:
        raise InvalidModel(f"the block must be 1 or more, not {block}", _AGAIN)
    value = c.node(kind, c.real(x, Layout.CHANNELS_FIRST), blocksize=block, mode=None if kind[0] == "S" else "DCR")
    c.put(y, value, Layout.CHANNELS_FIRST)


def resize(c: Conversion, operator: Operator) -> None:
    """To a size that is an input, by the nearest pixel or a line between two."""
    x, size = c.inputs(operator, 2)
    c.rank(x, 4)
    nearest = operator.kind == "RESIZE_NEAREST_NEIGHBOR"
    options = operator.read("ResizeNearestNeighborOptions" if nearest else "ResizeBilinearOptions")
    sizes = c.fixed_wholes(size, "the size")
    if len(sizes) != 2 or min(sizes) < 1:
        raise InvalidModel(f"the size must be a height and a width, not {sizes}", _AGAIN)
    corners, half = options.flag("align_corners"), options.flag("half_pixel")
    mode = "align_corners" if corners else "half_pixel" if half else "asymmetric"
    # Of two pixels as near TensorFlow takes the later one with half pixels and aligned corners, else always the former.
    rounding = ("round_prefer_ceil" if corners or half else "floor") if nearest else None
    shape = c.wholes([x.shape[0], x.shape[3], *sizes])
    value = c.node("Resize", c.real(x, Layout.CHANNELS_FIRST), "", "", shape, mode="nearest" if nearest else "linear",
                   coordinate_transformation_mode=mode, nearest_mode=rounding)
    c.put(c.output(operator), value, Layout.CHANNELS_FIRST)


def reverse(c: Conversion, operator: Operator) -> None:
    """Axes from their ends."""
    x, axes = c.inputs(operator, 2)
    places = [axis_in(axis, x) for axis in c.fixed_wholes(axes, "the axes")]
    count = len(places)
    bounds = ([-1] * count, [-_FAR - 1] * count, places, [-1] * count)
    c.put(c.output(operator), c.node("Slice", c.real(x), *map(c.wholes, bounds)))
