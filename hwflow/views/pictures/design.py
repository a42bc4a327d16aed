"""The picture of a planned design: a box for each layer with the stage that computes it, an arrow for each stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hwflow_base.printable import clean, number, percent, shortened

from hwflow.hls.plan.plan import Plan, StagePlan, own_layer
from hwflow.hls.schedule.links import LinkPlan
from hwflow.layers.base import kind_of, state_name
from hwflow.stages.names import name_of

from ...facts.plan import bottleneck, busy
from ...layers.base import Layer, LayerGraph
from ...layers.conv import Conv
from ...layers.dense import Dense
from ...layers.formats import IntFormat
from ...layers.recurrent import Recurrent
from ...layers.window import Window
from .scene import NARROW, WIDE, Arrow, Box, Scene, arrange

# A layer in a few words: what it does, and the weights that it holds.


#: Kinds whose windows are worth a word.
_WINDOWS = ("conv", "transposed conv", "average pool", "max pool", "lp pool")
_TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True)
class Weights:
    """The constants that a layer multiplies by: their shape, and the format of each."""

    shape: tuple[int, ...]
    format: IntFormat

    @property
    def count(self) -> int:
        product = 1
        for size in self.shape:
            product *= size
        return product

    def __str__(self) -> str:
        return f"{_TIMES.join(map(str, self.shape))} {self.format}"


def weights_of(layer: Layer) -> Weights | None:
    """None for a layer that does not multiply by constants."""
    if isinstance(layer, Conv | Dense):
        return Weights(layer.weights.shape, layer.weight_format)
    if isinstance(layer, Recurrent):
        return Weights(layer.hidden_weights.shape, layer.weight_format)
    return None


def kind_text(graph: LayerGraph, layer: Layer) -> str:
    """"conv 3x3 /2", "depthwise 3x3", "dense", "gru": the kind with what a picture of a network usually says of it."""
    kind, window = kind_of(graph, layer), getattr(layer, "window", None)
    if not isinstance(window, Window) or kind not in _WINDOWS:
        return kind
    if isinstance(layer, Conv) and layer.groups > 1:
        kind = "depthwise" if layer.weights.shape[3] == 1 else f"{layer.groups} groups"
    return f"{kind} {window_text(window)}"


def window_text(window: Window) -> str:
    """"3x3", with "/2" for strides and "dilated 2" where there are such."""
    text = _TIMES.join(map(str, window.kernel))
    if max(window.strides) > 1:
        text += f" /{_one_or_both(window.strides)}"
    if max(window.dilations) > 1:
        text += f" dilated {_one_or_both(window.dilations)}"
    return text


def _one_or_both(sizes: tuple[int, int]) -> str:
    return str(sizes[0]) if sizes[0] == sizes[1] else _TIMES.join(map(str, sizes))


def tensor_text(graph: LayerGraph, name: str) -> str:
    """"32x32x16 int8"."""
    tensor = graph.tensors[name]
    return f"{str(tensor.frame).replace('x', _TIMES)} {tensor.format}"


#: Fill and border of boxes where no style sheet says others: by class.
COLOURS = {
    "multiplies": ("#d7e6f7", "#1f5f9e"), "passes": ("#eef1f4", "#5d6b7a"), "shared": ("#fdebc8", "#9a6200"),
    "value": ("#ffffff", "#5d6b7a"), "host": ("#fff8e1", "#8a6d1b"),
}  # fmt: skip
_LONGEST, _NAME = 40, 26
#: Pixels: a picture for a wide page is not wider, and gets no more columns when it is no higher; most columns.
_WIDEST, _HIGH_ENOUGH, _MOST = 1300.0, 760.0, 8


@dataclass(frozen=True)
class DesignGraph:
    """Boxes and arrows; `layers` has for each layer its box, `stages` for each layer its stage."""

    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    stages: tuple[StagePlan, ...]


@dataclass
class _Sketch:
    """The picture while it grows: `maker` has the box that makes a tensor."""

    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    maker: dict[str, int] = field(default_factory=dict)

    def add(self, box: Box) -> int:
        self.boxes.append(box)
        return len(self.boxes) - 1


def design_graph(
    plan: Plan, before: Sequence[str] = (), after: Sequence[str] = (),
    href: Callable[[int, StagePlan], str] = lambda layer, stage: "",
) -> DesignGraph:  # fmt: skip
    """The picture of `plan`.  `before` and `after` are the operators that the host computes before and after the
    layers; `href` says where the box of a layer leads, for its position and stage."""
    graph, sketch = plan.graph, _Sketch()
    by_layer = {name: number for number, stage in enumerate(plan.stages) for name in stage.layers}
    by_tensor = {layer.output: by_layer[layer.name] for layer in graph.layers}
    links = {(link.sink.number, link.tensor): link for link in plan.links if link.sink.of_stage}
    host = sketch.add(_host("before", before)) if before else None
    for index, name in enumerate(graph.inputs):
        sketch.maker[name] = sketch.add(_value("input", index, name, tensor_text(graph, name)))
        if host is not None:
            sketch.arrows.append(Arrow(host, sketch.maker[name], css="edge host"))
    for index, state in enumerate(graph.states):
        text = tensor_text(graph, state.read)
        sketch.maker[state.read] = sketch.add(_value("state", index, state_name(graph, state), text))
    stages = tuple(plan.stages[by_tensor[layer.output]] for layer in graph.layers)
    for index, (layer, stage) in enumerate(zip(graph.layers, stages, strict=True)):
        box = sketch.add(_layer_box(plan, index, layer, stage, href(index, stage)))
        for name in layer.inputs:
            inside = by_tensor.get(name) == by_tensor[layer.output]
            link = None if inside else links.get((by_tensor[layer.output], name))
            sketch.arrows.append(_arrow(plan, sketch.maker[name], box, name, link))
        sketch.maker[layer.output] = box
    _ends(sketch, plan, after)
    return DesignGraph(tuple(sketch.boxes), tuple(sketch.arrows), stages)


def _ends(sketch: _Sketch, plan: Plan, after: Sequence[str]) -> None:
    """The outputs of the graph, and what the host does with them; and what states are in the next frame."""
    links = {link.sink.number: link for link in plan.links if link.sink.of_core}
    ends = []
    for index, name in enumerate(plan.graph.outputs):
        ends.append(sketch.add(_value("output", index, name, tensor_text(plan.graph, name))))
        sketch.arrows.append(_arrow(plan, sketch.maker[name], ends[-1], name, links.get(index)))
    handed = {link.tensor: link for link in plan.links if link.sink.of_state}
    for index, state in enumerate(plan.graph.states):
        name = state_name(plan.graph, state)
        box = sketch.add(_value("next", index, name, tensor_text(plan.graph, state.write)))
        sketch.arrows.append(_arrow(plan, sketch.maker[state.write], box, state.write, handed.get(state.write)))
    if after:
        host = sketch.add(_host("after", after))
        sketch.arrows += [Arrow(box, host, css="edge host") for box in ends]


def _host(when: str, operators: Sequence[str]) -> Box:
    fill, border = COLOURS["host"]
    lines = (("on the host", WIDE), (shortened(", ".join(operators), _LONGEST), NARROW))
    hint = f"the host computes {when} the layers: {', '.join(operators)}"
    return Box("host", f"host-{when}", lines, hint=hint, fill=fill, border=border)


def _value(what: str, index: int, name: str, text: str) -> Box:
    fill, border = COLOURS["value"]
    lines = ((f"{what} {shortened(name, _NAME)}", NARROW), (text, NARROW))
    return Box(f"value {what}", f"{what}-{index}", lines, hint=f"{what} '{clean(name)}': {text}", fill=fill,
               border=border)  # fmt: skip


def _layer_box(plan: Plan, index: int, layer: Layer, stage: StagePlan, href: str) -> Box:
    shared, slowest = bool(stage.steps), stage is bottleneck(plan)
    weights = weights_of(layer)
    computes = stage.schedule.multipliers and layer.kind == stage.kind
    look = "shared" if shared else "multiplies" if computes else "passes"
    fill, border = COLOURS[look]
    output = tensor_text(plan.graph, layer.output)
    lines = ((kind_text(plan.graph, layer), WIDE), (name_of(index, layer), NARROW),
             (f"{output}{f', weights {weights.format}' if weights else ''}", NARROW))  # fmt: skip
    share = _share(plan, layer, stage)
    hint = (f"{kind_text(plan.graph, layer)} '{shortened(layer.name, 120)}' gives {output}; stage {stage.name}, "
            f"{number(stage.schedule.interval)} cycles a frame; works {percent(share)} of the interval")  # fmt: skip
    css = f"layer {look}{' slowest' if slowest and not shared else ''}"
    tag = stage.name if shared else "slowest" if slowest and len(plan.stages) > 1 else ""
    return Box(css, f"layer-{index}", lines, (), hint, fill, border, href, stage.name, tag, share)


def _share(plan: Plan, layer: Layer, stage: StagePlan) -> float:
    """The share of the interval in which hardware computes the layer."""
    if not stage.steps:
        return busy(stage, plan) if layer is own_layer(plan.graph, stage) else 0.0
    return sum(step.cycles for step in stage.steps if step.tensor == layer.output) / plan.interval


def _arrow(plan: Plan, source: int, sink: int, tensor: str, link: LinkPlan | None) -> Arrow:
    """A stream between stages, or a tensor that stays in the memory of a stage: of a shared one, or of a window."""
    if link is None:
        return Arrow(source, sink, hint=f"'{clean(tensor)}' stays in the memory of its stage", css="edge inside")
    return Arrow(source, sink, f"queue {link.beats}" if link.beats else "", link_text(plan, link))


def link_text(plan: Plan, link: LinkPlan) -> str:
    """The text of a stream: what it carries, how wide, and how much its queue holds."""
    lanes = f"{link.lanes_out} lane{'s' if link.lanes_out > 1 else ''}"
    gearbox = "" if link.lanes_in == link.lanes_out else f", a gearbox to {link.lanes_in}"
    queue = (f"a queue of {number(link.beats)} beats ({number(link.buffer_bytes)} bytes)" if link.beats
             else "no queue")  # fmt: skip
    return f"'{clean(link.tensor)}', {link.bits} bits an element, {lanes}{gearbox}, {queue}"


def wide_scene(design: DesignGraph) -> Scene:
    """The scene for a wide page: as few columns as make it low enough, and as many as there is room for."""
    best = arrange(design.boxes, design.arrows)
    for columns in range(2, _MOST + 1):
        if best.height <= _HIGH_ENOUGH:
            break
        scene = arrange(design.boxes, design.arrows, columns)
        if scene.width > _WIDEST:
            break
        if scene.height < best.height:
            best = scene
    return best
