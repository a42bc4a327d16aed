"""The pass that finds dilated convolutions among those of a batch: exporters of TensorFlow write them that way.

SpaceToBatchND makes a batch of every d-th row and column, and BatchToSpaceND puts the results together again.  Any
batch of images is one image whose pixels stand between each other, and a convolution of the batch is one of that image
with a dilation.  Numbers of elements say in which order this image is a tensor of the model, whatever nodes move them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hwflow.layers.formats import IntArray
from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import AFFINE, LAYOUT, PADS, QUANTIZERS, UNARY
from hwflow.onnx.window import extent_of, same_pads
from hwflow.quantize.graphs import (
    Additions,
    Names,
    as_ints,
    attribute,
    constants,
    dynamic_inputs,
    label_of,
    leading_to,
    moved_indices,
    moves,
    producers,
    shape_of,
)
from hwflow.quantize.passes.functions import per_channel

#: Elements, nodes and images of a batch beyond which nothing is traced.
_ELEMENTS, _NODES, _IMAGES = 1 << 21, 48, 1 << 12


@dataclass(frozen=True)
class _Grid:
    """How the images of a batch stand between each other: `sizes` for each axis of pixels.

    `order` are these axes as they count in the number of an image, the slowest first.
    """

    sizes: tuple[int, ...]
    order: tuple[int, ...]

    def mixed(self, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape of a batch [N, C, ...] in parts, and the order of the parts in the image [1, C, ...]."""
        rank = len(self.sizes)
        pairs = ((rank + 1 + k, self.order.index(k)) for k in range(rank))
        return (*(self.sizes[k] for k in self.order), *shape[1:]), (rank, *itertools.chain(*pairs))

    def whole(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the image."""
        return (1, shape[1], *(n * size for n, size in zip(shape[2:], self.sizes, strict=True)))

    def together(self, batch: IntArray) -> IntArray:
        """The image of a batch."""
        parts, order = self.mixed(batch.shape)
        return batch.reshape(parts).transpose(order).reshape(self.whole(batch.shape))

    def apart(self, image: IntArray, shape: tuple[int, ...]) -> IntArray:
        """The batch of this shape."""
        parts, order = self.mixed(shape)
        return image.reshape([parts[k] for k in order]).transpose(np.argsort(order)).reshape(shape)


def _grids(batch: int, axes: int) -> Iterator[_Grid]:
    """Every grid of a batch, over one or two axes of pixels."""
    if axes == 1:
        yield _Grid((batch,), (0,))
    elif axes == 2:
        for rows in (n for n in range(1, batch + 1) if batch % n == 0):
            for order in ((0, 1), (1, 0)):
                yield _Grid((rows, batch // rows), order)


@dataclass(frozen=True)
class _View:
    """A part of a tensor, from `starts` to before `ends`, whose axes are in another order.

    The result, in its shape `sizes`, has its axes in `order` where they follow each other in the part.
    """

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    sizes: tuple[int, ...]
    order: tuple[int, ...]

    @staticmethod
    def of(numbers: IntArray, shape: tuple[int, ...]) -> _View | None:
        """The one that has the elements `numbers` of a tensor of that shape; None where it is none."""
        places = np.unravel_index([numbers.min(), numbers.max()], shape)
        starts, ends = (tuple(int(at[k]) + k for at in places) for k in (0, 1))
        part = np.arange(int(np.prod(shape))).reshape(shape)[tuple(map(slice, starts, ends))]
        steps = [-int(numbers.take(1, k).flat[0] - numbers.flat[0]) if n > 1 else -numbers.size * part.size
                 for k, n in enumerate(numbers.shape)]  # fmt: skip
        order = tuple(int(k) for k in np.argsort(steps, kind="stable"))
        if not np.array_equal(numbers.transpose(order).ravel(), part.ravel()):
            return None
        return _View(starts, ends, numbers.shape, order)

    def is_all(self, shape: tuple[int, ...]) -> bool:
        """Whether it has every element of the tensor."""
        return (self.starts, self.ends) == ((0,) * len(shape), shape)

    def is_turned(self) -> bool:
        """Whether axes are in another order at most, and none is split or joined."""
        part = (b - a for a, b in zip(self.starts, self.ends, strict=True))
        return [n for n in part if n > 1] == [self.sizes[k] for k in self.order if self.sizes[k] > 1]

    def write(self, source: str, shape: tuple[int, ...], base: str, added: Additions, output: str = "") -> str:
        """The nodes that make it of a tensor of that shape, and the result."""
        if not self.is_all(shape):
            ends = added.int64(f"{base}.starts", self.starts), added.int64(f"{base}.ends", self.ends)
            source = added.emit("Slice", source, *ends, wish=f"{base}.part")
        sizes = [self.sizes[k] for k in self.order]
        if [b - a for a, b in zip(self.starts, self.ends, strict=True)] != sizes:
            source = added.reshaped(source, sizes, f"{base}.reshaped")
        if list(self.order) != sorted(self.order):
            perm = tuple(int(k) for k in np.argsort(self.order))
            source = added.emit("Transpose", source, wish=f"{base}.turned", perm=perm)
        return added.emit("Identity", source, output=output) if output else source


@dataclass(frozen=True)
class _Padded:
    """A view with zeros `around` its pixels, before and after."""

    view: _View
    around: tuple[int, ...]

    @staticmethod
    def of(image: IntArray, shape: tuple[int, ...]) -> _Padded | None:
        """The one that has the elements `image`, -1 for zeros, of a tensor of that shape; None where it is none."""
        inside = tuple(slice(int(np.min(at)), int(np.max(at)) + 1) for at in np.nonzero(image >= 0) if at.size)
        numbers = image[inside]
        if not inside or numbers.min() < 0 or numbers.shape[:2] != image.shape[:2]:
            return None
        before = [box.start for box in inside[2:]]
        after = [n - box.stop for box, n in zip(inside[2:], image.shape[2:], strict=True)]
        view = _View.of(numbers, shape)
        return None if view is None else _Padded(view, (*before, *after))


@dataclass(frozen=True)
class _Moved:
    """A tensor with the elements `numbers`, -1 for zeros, of the tensor `image`, which has the shape `shape`.

    `written`: it is made of the image as a view, and no other way.
    """

    image: str
    shape: tuple[int, ...]
    numbers: IntArray
    written: bool = False


def batches_to_dilations(model: Model) -> Model:
    """A Conv of a batch that is made of one image becomes a Conv with dilations of that image.

    So do those behind it, and functions of elements between them; what moves elements back becomes a Slice at most.
    """
    if not any(_is_of_batch(node, model.graph) for node in model.graph.nodes):
        return model
    walk = _Walk(model)
    for node in model.graph.nodes:
        walk.node(node)
    if not walk.convolutions:
        return model
    nodes = leading_to(walk.added.nodes, [value.name for value in model.graph.outputs])
    made = walk.added.into(model)
    made = simplify(infer(replace(made, graph=replace(made.graph, nodes=tuple(nodes)))))
    return simplify(infer(replace(made, graph=_without_crops(made.graph, walk.convolutions, walk.functions))))


def _is_of_batch(node: Node, graph: Graph) -> bool:
    """Whether a node is a Conv of several images, of every row and column."""
    if node.domain or node.op_type != "Conv" or node.inputs[0] in graph.initializers:
        return False
    shape = shape_of(graph, node.inputs[0])
    if shape is None or not 3 <= len(shape) <= 4 or not 1 < shape[0] <= _IMAGES or 0 in shape:
        return False
    return set(as_ints(node.attributes.get("strides", (1,)))) == {1} and shape_of(graph, node.inputs[1]) is not None


class _Walk:
    """One walk over the nodes of a model."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.added, self.made = Additions(model.graph), producers(model.graph)
        #: Tensors with elements of an image that this walk made.
        self.moved: dict[str, _Moved] = {}
        #: By the names of batches: images of them, their grids, and the zeros around.
        self.sources: dict[str, tuple[str, _Grid, tuple[int, ...]]] = {}
        #: Results of the convolutions that were written, and of functions of elements of these.
        self.convolutions, self.functions = set[str](), set[str]()

    def node(self, node: Node) -> None:
        """Write a node."""
        if _is_of_batch(node, self.graph) and (found := self._source(node.inputs[0], label_of(node))) is not None:
            self._convolve(node, *found)
        elif node.inputs and node.inputs[0] in self.moved and self._moves(node):
            self._move(node)
        else:
            self.added.nodes.append(node)
            self._compute(node)

    def _source(self, name: str, base: str) -> tuple[str, _Grid, tuple[int, ...]] | None:
        """The image of a batch, its grid, and zeros before and after; None where it is no tensor of the model."""
        if name not in self.sources:
            found = self._found(name)
            if found is None:
                return None
            begin, functions, grid, part = found
            image = part.view.write(begin.image, begin.shape, f"{base}.image", self.added)
            for node in functions:
                image = self.added.emit_like(node, image, wish=f"{base}.image", name=f"{base}.{label_of(node)}")
            self.sources[name] = image, grid, part.around
        return self.sources[name]

    def _found(self, name: str) -> tuple[_Moved, list[Node], _Grid, _Padded] | None:
        """The tensor whose view is the image of a batch, the first one of the model that is so as a whole.

        Else the last one of which a part is.  Then the quantizers behind it, the image's grid, and the view.
        """
        chain, best, batch = list[Node](), None, shape_of(self.graph, name) or ()
        while True:
            begin = self._begin(name)
            if begin is None:
                return best
            numbers = begin.numbers
            for node in chain:
                if node.op_type not in QUANTIZERS:
                    numbers = moved_indices(node, numbers, self.graph, self.model.opsets)[node.outputs[0]]
            for grid in _grids(batch[0], len(batch) - 2) if begin.shape[0] == 1 else ():
                part = _Padded.of(grid.together(numbers), begin.shape)
                if part is not None and (best is None or part.view.is_all(begin.shape)):
                    best = begin, [node for node in chain if node.op_type in QUANTIZERS], grid, part
                    break
            before = self.made.get(name)
            if name in self.moved or before is None or len(chain) >= _NODES:
                return best
            if not (self._moves(before) or self._quantizes(before)):
                return best
            chain.insert(0, before)
            name = before.inputs[0]

    def _begin(self, name: str) -> _Moved | None:
        """A tensor as elements of an image, else of itself; None where there are too many."""
        shape = shape_of(self.graph, name)
        if not shape or np.prod(shape) > _ELEMENTS:
            return None
        known = self.moved.get(name)
        return known or _Moved(name, shape, np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape))

    def _moves(self, node: Node) -> bool:
        """Whether a node moves elements of one tensor, and pads with zeros at most."""
        if len(node.outputs) > 1 or not (node.op_type in LAYOUT or moves(node, self.graph)) or node.domain:
            return False
        if node.op_type not in PADS:
            return True
        fill, kind = self.graph.initializers.get(node.input(2)), self.graph.tensor_type(node.inputs[0])
        return (fill is None or not fill.any()) and kind is not None and kind.dtype.kind == "f"

    def _quantizes(self, node: Node) -> bool:
        """Whether a node quantizes or dequantizes all elements alike: zero stays zero."""
        arrays = constants(node, self.graph)
        return node.op_type in QUANTIZERS and not node.domain and len(dynamic_inputs(node, self.graph)) == 1 and all(
            array.size == 1 for array in arrays)  # fmt: skip

    def _convolve(self, node: Node, image: str, grid: _Grid, around: tuple[int, ...]) -> None:
        """A Conv of the image with zeros around it, and the batch of its result for whatever reads it as it is."""
        batch, kernel = shape_of(self.graph, node.inputs[0]), shape_of(self.graph, node.inputs[1])
        shape = shape_of(self.graph, node.outputs[0])
        assert batch is not None and kernel is not None and shape is not None, "shapes are known"  # noqa: PT018
        own, sizes, added = as_ints(node.attributes.get("dilations", (1,) * (len(batch) - 2))), grid.sizes, self.added
        pads = _pads(node, batch[2:], [extent_of(n, d) for n, d in zip(kernel[2:], own, strict=True)])
        attributes = {key: value for key, value in node.attributes.items() if key not in ("auto_pad", "strides")}
        attributes["dilations"] = tuple(d * size for d, size in zip(own, sizes, strict=True))
        attributes["pads"] = tuple(a * d + b for a, d, b in zip(pads, sizes * 2, around, strict=True))
        name, inputs = node.outputs[0], (image, *node.inputs[1:])
        result = added.emit("Conv", *inputs, wish=f"{name}.image", name=node.name, attributes=attributes)
        self.convolutions.add(result)
        whole = grid.whole(shape)
        if np.prod(whole) <= _ELEMENTS:
            numbers = np.arange(int(np.prod(whole)), dtype=np.int64).reshape(whole)
            self.moved[name] = _Moved(result, whole, grid.apart(numbers, shape))
        parts, order = grid.mixed(shape)
        split = added.reshaped(result, [parts[k] for k in order], f"{name}.parts")
        perm = tuple(int(k) for k in np.argsort(order))
        added.reshaped(added.emit("Transpose", split, wish=f"{name}.turned", perm=perm), shape, f"{name}.batch", name)

    def _compute(self, node: Node) -> None:
        """A function of elements of an image is one of the image, too, where it is the same for all of a channel."""
        known = [self.moved.get(name) for name in dynamic_inputs(node, self.graph)]
        first = known[0] if known else None
        if first is None or first.written or node.domain or node.op_type not in AFFINE | UNARY | QUANTIZERS:
            return
        if first.numbers.min() < 0 or len(node.outputs) > 1 or any(
            one is None or not np.array_equal(one.numbers, first.numbers) for one in known
        ):  # fmt: skip
            return
        names = self._constants(node, first)
        if names is not None:
            names |= {name: self.moved[name].image for name in dynamic_inputs(node, self.graph)}
            inputs = (names.get(name, name) for name in node.inputs)
            result = self.added.emit_like(node, *inputs, wish=f"{node.outputs[0]}.image", name=node.name)
            self.functions.add(result)
            self.moved[node.outputs[0]] = replace(first, image=result)

    def _constants(self, node: Node, moved: _Moved) -> dict[str, str] | None:
        """New names for the constants of a function of the image; None where they differ inside a channel."""
        names, channels = dict[str, str](), moved.numbers // int(np.prod(moved.shape[2:])) % moved.shape[1]
        for name in node.inputs:
            value = self.graph.initializers.get(name)
            if value is None or (value.size == 1 and value.ndim <= min(len(moved.shape), moved.numbers.ndim)):
                continue
            if value.ndim > moved.numbers.ndim or node.op_type in QUANTIZERS:
                return None
            found = per_channel(node, value, channels, moved.shape)
            if found is None:
                return None
            names[name] = self.added.constant(f"{label_of(node)}.{name}.image", found)
        return names

    def _move(self, node: Node) -> None:
        """What moves elements of an image; a part of the image is written as that."""
        known = self.moved[node.inputs[0]]
        numbers = moved_indices(node, known.numbers, self.graph, self.model.opsets)[node.outputs[0]]
        view = _View.of(numbers, known.shape) if numbers.size and numbers.min() >= 0 else None
        written = view is not None and view.is_turned()
        self.moved[node.outputs[0]] = replace(known, numbers=numbers, written=written or known.written)
        if view is None or not written:
            self.added.nodes.append(node)
        else:
            view.write(known.image, known.shape, node.outputs[0], self.added, node.outputs[0])


def _pads(node: Node, sizes: tuple[int, ...], extents: list[int]) -> tuple[int, ...]:
    """The zeros that a Conv of strides 1 puts around, before and after."""
    mode, none = attribute(node, "auto_pad", "NOTSET"), (0,) * (2 * len(sizes))
    if mode in ("NOTSET", "VALID"):
        return as_ints(node.attributes.get("pads", none)) if mode == "NOTSET" else none
    pairs = [same_pads(size, extent, 1, mode) for size, extent in zip(sizes, extents, strict=True)]
    return (*(before for before, _ in pairs), *(after for _, after in pairs))


def _without_crops(graph: Graph, convolutions: set[str], functions: set[str]) -> Graph:
    """Pixels of these `convolutions` that every reader cuts off are not computed, where they are there for padding.

    `functions` are the results of functions of their elements, which may stand between.
    """
    outputs, names, nodes = {value.name for value in graph.outputs}, Names(graph), list(graph.nodes)
    for k, node in enumerate(graph.nodes):
        if node.outputs[0] not in convolutions:
            continue
        inside, parts = {node.outputs[0]: k}, list[int]()
        for at, reader in enumerate(graph.nodes):
            dynamic = set(dynamic_inputs(reader, graph))
            if dynamic & inside.keys():
                if dynamic <= inside.keys() and reader.outputs[0] in functions:
                    inside[reader.outputs[0]] = at
                else:
                    parts.append(at)
        cuts, pads = {_cut(graph.nodes[at], graph) for at in parts}, as_ints(node.attributes["pads"])
        cut = cuts.pop() if len(cuts) == 1 else None
        if cut is None or outputs & inside.keys() or any(a > b for a, b in zip(cut, pads, strict=True)):
            continue
        small = {name: names.new(f"{name}.kept") for name in inside}
        for at in (*inside.values(), *parts):
            part = nodes[at] if at not in parts else Node("Identity", nodes[at].inputs[:1], nodes[at].outputs)
            nodes[at] = _renamed(part, small)
        less = tuple(b - a for a, b in zip(cut, pads, strict=True))
        nodes[k] = replace(nodes[k], attributes={**node.attributes, "pads": less})
    return replace(graph, nodes=tuple(nodes))


def _renamed(node: Node, names: Mapping[str, str]) -> Node:
    """`node` with other names of these tensors."""
    inputs, outputs = (tuple(names.get(name, name) for name in given) for given in (node.inputs, node.outputs))
    return replace(node, inputs=inputs, outputs=outputs)


def _cut(node: Node, graph: Graph) -> tuple[int, ...] | None:
    """What a Slice cuts off before and after the pixels; None for one that chooses channels, and for other nodes."""
    shape = shape_of(graph, node.inputs[0])
    if node.op_type != "Slice" or shape is None or len(node.inputs) != 3:
        return None
    starts, ends = (as_ints(graph.initializers[name]) for name in node.inputs[1:])
    after = [n - end for n, end in zip(shape, ends, strict=True)]
    return None if any((*starts[:2], *after[:2])) else (*starts[2:], *after[2:])
