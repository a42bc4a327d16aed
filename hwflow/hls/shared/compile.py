"""From layers to the program of the stage that computes them, and what its steps write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_rtl.shared.program import Constants, Program, Written, byte_of
from hwflow_rtl.shared.shape import SharedShape, Sliding, Sums
from hwflow_rtl.shared.steps import Compute, Load, Step, Store

from hwflow.hls.shared.constants import held_less, held_table, needs_of
from hwflow.hls.shared.frame_map import FrameMap
from hwflow.hls.shared.framing import ProgramSizes, framed_for
from hwflow.hls.shared.in_place import Lowerings
from hwflow.hls.shared.layout import LaidOut, Operand
from hwflow.hls.shared.lowering import Lowering
from hwflow.hls.shared.packed_rows import with_packed_rows
from hwflow.hls.shared.sliding import sliding_of
from hwflow.hls.shared.states import Handing, HandingSteps, fills, handings
from hwflow.hls.shared.views import Views, views_of
from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import IntArray, Tensor
from hwflow.stages.kinds import LayerProblem, has_hardware, stage_of
from hwflow.stages.partition import entering_of, kept_states
from hwflow.stages.sweep import Sweep, is_wide, tensor_problem, wide_problem


@dataclass(frozen=True)
class Making:
    """Step number `step` of the program writes words of `tensor`, for `layer`."""

    step: int
    layer: str
    tensor: str


@dataclass(frozen=True, eq=False)
class SharedProgram:
    """A program and what it means: `inputs` and `outputs` are the tensors at its ports, `makings` what each `Compute`
    writes, in order, `frames` where tensors are, `operands` where the words of their pixels are.

    `tensors` has all tensors in the frame memory by name, those that no layer of the graph makes included.  `views` are
    made by no step.  `handing` has, by the steps behind all others, the states that these hand on.
    """

    program: Program
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    makings: tuple[Making, ...]
    frames: FrameMap
    tensors: Mapping[str, Tensor]
    operands: Mapping[str, Operand]
    views: tuple[str, ...]
    handing: Mapping[int, str]
    _of_shape: dict[SharedShape, SharedProgram] = field(init=False, repr=False, default_factory=dict)

    @cached_property
    def weight_bytes(self) -> int:
        """The bytes of this machine's memory."""
        return sum(constants.weights.nbytes for constants in self.program.constants if constants is not None)

    def of_shape(self, shape: SharedShape) -> SharedProgram:
        """With another shape of the stage that does not change the steps."""
        if shape not in self._of_shape:
            self._of_shape[shape] = replace(self, program=replace(self.program, shape=shape))
        return self._of_shape[shape]

    def writings(self, golden: Mapping[str, IntArray]) -> Iterator[tuple[Making, Written]]:
        """Give what the steps that make the tensors of `golden` write for one frame, in order.

        `golden` has int64[height, width, channels] by name.  Lanes without a channel are what the constants of the step
        make there.
        """
        for making in self.makings:
            if making.tensor in golden:
                yield making, self.writing(making, golden[making.tensor])

    def writing(self, making: Making, frame: IntArray) -> Written:
        """Compute what one step writes of a frame."""
        step = self.program.steps[making.step]
        assert isinstance(step, Compute)
        output = step.output
        rest = int(self.program.looked_up(step, np.clip(output.zero_point, output.low, output.high)))
        held = frame.reshape(-1, frame.shape[-1]) - held_less(self.tensors[making.tensor].format)
        if output.byte is not None:
            held, rest = byte_of(held, output.byte), int(byte_of(np.array(output.zero_point), output.byte))
        operand = self.operands[making.tensor]
        words = operand.layout.spread(held, rest).reshape(-1, self.program.shape.columns)
        addresses = step.writes.reshape(-1)
        return Written(making.step, addresses, words[self.places(making.tensor, step)])

    def places(self, tensor: str, step: Compute) -> IntArray:
        """Which word of `tensor`, pixel by pixel, is each that a step writes."""
        operand, frame = self.operands[tensor], self.tensors[tensor].frame
        addresses = step.writes.reshape(-1)
        if step.output.byte is not None:
            addresses = operand.base + (addresses - operand.base) // 2
        own = operand.words_of(frame).reshape(-1)
        order = np.argsort(own)
        return order[np.searchsorted(own, addresses, sorter=order)]


def compile_shared(graph: LayerGraph, layers: Sequence[Layer], sizes: ProgramSizes) -> SharedProgram:
    """The program of a shared stage that computes `layers`, which are in the order of `graph`.

    HwflowError for layers that a shared stage cannot compute, and for what does not fit it.
    """
    problems = shared_problems(graph, layers)
    if problems:
        raise HwflowError("a shared stage must have a way to compute each of its layers:"
                          + "".join(f"\n  {problem}" for problem in problems))
    inputs, outputs = entering_of(graph, layers), leaving_of(graph, layers)
    if not outputs:
        raise HwflowError("a shared stage must make something that others read, and its layers only hand states on to "
                          "themselves", "leave those states out of the model")
    states = kept_states(graph, layers)
    views = views_of(graph, layers, inputs, outputs, states)
    plain = [sweep for layer in layers for sweep in sweeps_of(graph, layer, views)]
    fixed = views.fixed | {state.write for state in states}
    packed = with_packed_rows(plain, [graph.tensors[name] for name in inputs], fixed, sizes.columns)
    kept = [graph.tensors[state.read] for state in states]
    laid = LaidOut(packed.sweeps, [*packed.inputs, *kept], outputs, sizes.columns, views, states)
    handed = handings(graph, laid)
    needs = needs_of([*laid.sweeps, *(sweep for each in handed for sweep in each.sweeps)])
    windows = sliding_of(laid.sweeps, laid.layouts, sizes.columns) if sizes.sliding else Sliding()
    tables = list(dict.fromkeys(table for table in map(table_of, laid.sweeps) if table))
    early = frozenset(inputs) if any(name not in graph.inputs for name in inputs) else frozenset()
    framed = framed_for(laid, outputs, early, Lowerings(laid, needs, sizes.buffer, windows), sizes)
    frames, laid.sweeps = framed.frames, framed.sweeps
    shape = SharedShape(
        columns=sizes.columns, lanes=sizes.lanes, interval=sizes.interval, sums=needs,
        words=sizes.words or frames.words, single_port=sizes.single_port, buffer=sizes.buffer,
        stream_rows=sizes.stream_rows, banks=sizes.banks, windows=windows,
        products=any(sweep.product for sweep in laid.sweeps), tables=len(tables),
        wide=any(is_wide(graph.tensors[name]) for name in outputs))
    writer = StepWriter(graph=graph, laid=laid, frames=frames, needs=needs, shape=shape, inputs=inputs, outputs=outputs,
                        rows=packed.loaded, tables=tables, at_once=bool(early) and sizes.single_port)
    return program_of(writer, handed, framed.opens)


def program_of(writer: StepWriter, handed: Sequence[Handing], opens: int | None) -> SharedProgram:
    """The program of all steps: those that fill states, those of `writer`, and those that hand states on.  Frames are
    let in with the sweep number `opens`."""
    laid, written = writer.laid, list(writer.steps())
    operands = {name: writer.place(tensor) for name, tensor in laid.tensors.items()}
    filled, image = fills([(state, operands[state.read]) for state in laid.states], laid.tensors, laid.columns)
    steps: list[WrittenStep] = [*((fill, None, None) for fill in filled), *written, *writer.handed(handed)]
    program = Program(
        writer.shape, tuple(step for step, _, _ in steps), tuple(constants for _, constants, _ in steps),
        tuple(np.array(table, np.int64) for table in writer.tables),
        first_step(opens, len(filled), len(filled) + len(written), steps, laid.sweeps), image)
    makings = tuple(Making(number, sweep.layer, sweep.output.name)
                    for number, (_, _, sweep) in enumerate(steps) if isinstance(sweep, Sweep))
    handing = {number: name for number, (_, _, name) in enumerate(steps) if isinstance(name, str)}
    return SharedProgram(program, writer.inputs, writer.outputs, makings, writer.frames, laid.tensors, operands,
                         tuple(laid.views.views), handing)


def sweeps_of(graph: LayerGraph, layer: Layer, views: Views) -> tuple[Sweep, ...]:
    """The sweeps of a layer; what is a view has those of its parts that must be copied."""
    copies = views.copies.get(layer.output)
    return stage_of(graph, layer).sweeps() if copies is None else copies


def first_step(sweep: int | None, begin: int, end: int, steps: Sequence[WrittenStep], sweeps: Sequence[Sweep]
               ) -> int | None:
    """The number of the first step of the sweep of that number; of the first `Store` where that is the number of
    sweeps, and `end` where it is more, if there is such a step; else `begin`, as for 0."""
    if not sweep:
        return None if sweep is None else begin
    if sweep > len(sweeps):
        return end if end < len(steps) else begin
    first = None if sweep == len(sweeps) else sweeps[sweep]
    return next(number for number, (step, _, computed) in enumerate(steps)
                if number >= begin and computed is first and not isinstance(step, Load))


#: A step with its constants, and the sweep that it is a part of, or the state that it hands on.
WrittenStep = tuple[Step, Constants | None, Sweep | str | None]


@dataclass(frozen=True, kw_only=True)
class StepWriter:
    """Holds what the steps of a program are written from.

    `rows` are `Packed.loaded`, `tables` those of the sweeps, each once.  An input is loaded when it is first read, the
    one that frames begin with before all, or all inputs `at_once`.
    """

    graph: LayerGraph
    laid: LaidOut
    frames: FrameMap
    needs: Sums
    shape: SharedShape
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rows: Mapping[str, tuple[int, int]]
    tables: Sequence[tuple[int, ...]]
    at_once: bool

    def steps(self) -> Iterator[tuple[Step, Constants | None, Sweep | None]]:
        """The steps, their constants, and the sweep of each `Compute`; the outputs are stored at the end."""
        loaded = {name for name in self.inputs if self.at_once or name == self.laid.begins_with}
        yield from ((self.load(name), None, None) for name in self.inputs if name in loaded)
        for sweep in self.laid.sweeps:
            for name in (made for x in sweep.inputs for made in self.laid.views.made(x.name)):
                if name in self.inputs and name not in loaded:
                    loaded.add(name)
                    yield self.load(name), None, None
            table = table_of(sweep)
            lowering = Lowering(sweep, tuple(map(self.place, sweep.inputs)), self.place(sweep.output), self.needs,
                                self.shape.buffer, self.shape.windows,
                                self.tables.index(table) if table else None)
            for step, constants in lowering.steps():
                yield step, constants, sweep
        yield from ((self.load(name), None, None) for name in self.inputs if name not in loaded)
        for port, name in enumerate(self.outputs):
            tensor = self.graph.tensors[name]
            yield Store(port, self.place(tensor).base, *size_of(tensor), is_wide(tensor)), None, None

    def handed(self, handings: Sequence[Handing]) -> Iterator[WrittenStep]:
        """The steps that hand states on."""
        maker = HandingSteps(self.laid, lambda name: self.frames[name].base, self.needs, self.shape.buffer,
                             self.shape.windows)
        for handing in handings:
            for step, constants in maker.steps(handing):
                yield step, constants, handing.state

    def place(self, tensor: Tensor) -> Operand:
        return self.laid.operand(tensor, lambda name: self.frames[name].base)

    def load(self, name: str) -> Load:
        pixels, channels, flip = size_of(self.laid.tensors[name])
        pixels, channels = self.rows.get(name, (pixels, channels))
        return Load(self.inputs.index(name), self.frames[name].base, pixels, channels, flip)


def table_of(sweep: Sweep) -> tuple[int, ...]:
    """The table of a sweep in the program; () where it has none."""
    table = held_table(sweep)
    return () if table is None else tuple(table.tolist())


def size_of(tensor: Tensor) -> tuple[int, int, bool]:
    """Pixels, channels and flip of a `Load` or `Store`."""
    frame = tensor.frame
    return frame.height * frame.width, frame.channels, held_less(tensor.format) > 0


def leaving_of(graph: LayerGraph, layers: Sequence[Layer]) -> tuple[str, ...]:
    """The tensors that leave it: outputs of the graph in their order, then those that other layers read."""
    computed = [layer.output for layer in layers]
    kept = [state.read for state in kept_states(graph, layers)]
    others = {name for layer in graph.layers if layer.output not in computed for name in layer.inputs}
    others |= {state.write for state in graph.states if state.read not in kept}
    return tuple(dict.fromkeys([*(name for name in graph.outputs if name in computed),
                                *(name for name in computed if name in others)]))


def shared_problem(graph: LayerGraph, layer: Layer) -> str | None:
    """None if a shared stage can compute `layer`, else the reason why it cannot."""
    if not has_hardware(layer):
        return f"a shared stage has no {layer.kind}"
    stage = stage_of(graph, layer)
    problem = stage.shared_problem()
    if problem:
        return problem
    output = graph.tensors[layer.output]
    problems = [tensor_problem(graph.tensors[name]) for name in layer.inputs]
    problems.append(wide_problem(output, stage.sweeps()) if is_wide(output) else tensor_problem(output))
    return next(filter(None, problems), None)


def shared_problems(graph: LayerGraph, layers: Iterable[Layer]) -> tuple[LayerProblem, ...]:
    """List those of `layers` that a stage which they share cannot compute; it need not compute views."""
    layers = list(layers)
    found = [LayerProblem(layer.name, layer.kind, problem) for layer in layers
             if (problem := shared_problem(graph, layer))]
    if found and all(map(has_hardware, layers)):
        views = views_of(graph, layers, entering_of(graph, layers), leaving_of(graph, layers),
                         kept_states(graph, layers))
        outputs = {layer.name: layer.output for layer in layers}
        found = [problem for problem in found if outputs[problem.layer] not in views.views]
    return tuple(found)
