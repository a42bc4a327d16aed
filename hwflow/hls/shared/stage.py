"""A stage of several layers: one array, one rescaler and a frame memory compute them one after another.

`hls.shared` makes the program of it, `hwflow_rtl.shared` is its hardware.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import gcd

import numpy as np
from amaranth.hdl import unsigned
from amaranth.lib.wiring import Component
from hwflow_base.errors import HwflowError
from hwflow_rtl.memory import WeightStream
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.shared.shape import SharedShape
from hwflow_rtl.shared.stage import SharedUnitShape
from hwflow_rtl.shared.steps import ELEMENT_BITS, Compute, Fill, Load
from hwflow_rtl.shared.times import SharedTimes
from hwflow_rtl.stream.times import StageTimes, Times
from hwflow_rtl.vendor import Resources, Technology

from hwflow.hls.shared.compile import SharedProgram, compile_shared, leaving_of
from hwflow.hls.shared.constants import held_less
from hwflow.hls.shared.framing import ProgramSizes
from hwflow.hls.shared.views import views_of
from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, Schedule, divisors
from hwflow.stages.names import layer_names
from hwflow.stages.partition import SharedLayers, kept_states
from hwflow.stages.stage import Place, Stage, StepPlan, StepTimes, WrittenTensor

#: Kind of a shared stage in tables.
KIND = "shared"
#: Rows and columns that its array can have.
COLUMNS = (2, 4, 8, 16)
#: Cycles from sum to sum at a rescaler.
INTERVALS = (1, 2, 4)
#: Words of weights that a stage can have room for: more than the largest device has.
MOST_BUFFER = 1 << 16
#: Frames after which each takes as many cycles as the one before it: the weights of the next are fetched ahead.
FRAMES = 3
#: Programs that were made last, with what their steps depend on: one plan asks for the same one many times.
MADE: deque[tuple[LayerGraph, tuple[Layer, ...], tuple[int, ...], SharedProgram]] = deque(maxlen=16)
#: Bytes of weights that these may have together, but for a few programs that a search asks for in turn.
MADE_BYTES, MADE_LEAST = 64 << 20, 6


@dataclass(frozen=True, eq=False)
class SharedStage(Stage):
    """A stage whose `layers` share its array.

    A folding's `rows` and `cols` are those of the array; a word of `cols` elements meets `rows` rows of weights in a
    cycle, and all of them in cols / rows.  `lanes` are the sums that are rescaled side by side.
    """

    sizes: SharedLayers
    #: What was played last.
    _played: dict[tuple[Folding, Technology], SharedTimes] = field(init=False, repr=False, default_factory=dict)

    @classmethod
    def of(cls, graph: LayerGraph, sizes: SharedLayers, layers: tuple[Layer, ...],
           inputs: tuple[str, ...]) -> SharedStage:
        """`inputs` enter the stage."""
        leaving = leaving_of(graph, layers)
        views = views_of(graph, layers, inputs, leaving, kept_states(graph, layers)).views
        inner = tuple(layer.output for layer in layers if layer.output not in leaving and layer.output not in views)
        return cls(graph, sizes.name, KIND, layers, inputs, leaving, (*inner, *leaving), sizes)

    @property
    def multiplications(self) -> int:
        return sum(layer.multiplications(self.graph) for layer in self.layers)

    @property
    def likeness(self) -> Hashable:
        """No other stage is like it."""
        return KIND, self.name

    @property
    def takes_frames_at_once(self) -> bool:
        return True

    def lets_in(self, folding: Folding) -> bool:
        return self.made_for(folding.cols).program.opens is not None

    def lanes_out(self, folding: Folding) -> tuple[int, ...]:
        return tuple(widest(self.graph.tensors[name].frame.channels, folding.cols) for name in self.outputs)

    def foldings(self) -> Iterator[Folding]:
        return (Folding(columns, columns, lanes) for columns in COLUMNS for lanes in divisors(columns))

    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        return (MultiplierStyle.BLOCKS,)

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        return (MultiplierStyle.LOGIC,)

    def folding_problem(self, folding: Folding, technology: Technology) -> str | None:
        if folding.cols not in COLUMNS or folding.cols % folding.rows:
            sizes = ", ".join(map(str, COLUMNS))
            return (f"cols of a shared stage must be one of {sizes}, and rows divide them, not {folding.rows} x "
                    f"{folding.cols}")
        if folding.rows < folding.cols and (self.sizes.single_port or self.multiplies_words(folding.cols)):
            return (f"rows of a shared stage must be its cols, {folding.cols}, for frames in spram and where two "
                    f"tensors are multiplied, not {folding.rows}")
        if folding.lanes not in divisors(folding.cols):
            return f"lanes must be one of {', '.join(map(str, divisors(folding.cols)))}, not {folding.lanes}"
        if folding.style is not MultiplierStyle.BLOCKS:
            return f"style must be blocks for a shared stage, not {folding.style.value}"
        rows = (0, *self.weight_rows(folding))
        if folding.weight_rows not in rows:
            return f"weight_rows must be one of {', '.join(map(str, rows))}, not {folding.weight_rows}"
        if self.sizes.rom_rows not in rows[1:]:
            return f"rom_rows must be one of {', '.join(map(str, rows[1:]))}, not {self.sizes.rom_rows}"
        if self.sizes.buffer & (self.sizes.buffer - 1) or self.sizes.buffer > MOST_BUFFER:
            return f"weight_buffer must be a power of two up to {MOST_BUFFER}, not {self.sizes.buffer}"
        if self.sizes.interval not in INTERVALS:
            return f"rescale_interval must be one of {', '.join(map(str, INTERVALS))}, not {self.sizes.interval}"
        if self.sizes.single_port and not technology.single_port_rams:
            return f"frames must be in blocks on {technology.name}, which has no spram"
        if problem := self.ahead_problem(folding, technology):
            return problem
        if self.sizes.bands and self.sizes.single_port:
            return "frame_bands must be 0 for frames in spram: a word cannot be read and written in one cycle"
        if self.sizes.banks > 1 and not self.sizes.single_port:
            return "frame_banks must be 1 for frames in blocks, which have two ports"
        try:
            self.made(folding)
        except HwflowError as error:
            return str(error)
        return None

    def ahead_problem(self, folding: Folding, technology: Technology) -> str | None:
        """Why beats of weights cannot come ahead as `sizes` says."""
        ahead = self.sizes.ahead
        if not ahead:
            return None
        if not folding.weight_rows or not technology.single_port_rams:
            return f"weights_ahead must be 0 for weights in ROMs and on a device without spram, not {ahead}"
        least = self.sizes.buffer * folding.cols // folding.weight_rows
        if ahead < least or ahead & (ahead - 1):
            return f"weights_ahead must be 0, or a power of two from {least} on, not {ahead}"
        return None

    def weight_rows(self, folding: Folding) -> tuple[int, ...]:
        """A beat has a header of two elements at least."""
        return tuple(rows for rows in divisors(folding.rows) if rows * folding.cols >= 2)

    def multiplies_words(self, columns: int) -> bool:
        """Whether the array multiplies words of two tensors by each other."""
        return self.made_for(columns).program.shape.products

    def made(self, folding: Folding) -> SharedProgram:
        """The program with `folding`.  HwflowError for layers that the stage cannot compute."""
        return self.made_for(folding.cols).of_shape(self.shape(folding))

    def shape(self, folding: Folding) -> SharedShape:
        """The sizes of the hardware.  HwflowError as of `made`."""
        return replace(self.made_for(folding.cols).program.shape, lanes=folding.lanes, interval=self.sizes.interval,
                       single_port=self.sizes.single_port, stream_rows=folding.weight_rows or self.sizes.rom_rows,
                       ahead=self.sizes.ahead, turns=folding.cols // folding.rows)

    def made_for(self, columns: int) -> SharedProgram:
        """A program for an array of this size; nothing else changes its steps."""
        sizes = (columns, self.sizes.buffer, self.sizes.banks, self.sizes.sliding, self.sizes.bands,
                 self.sizes.words_ahead, self.sizes.single_port)
        for graph, layers, known, program in MADE:
            if graph is self.graph and len(layers) == len(self.layers) and known == sizes and all(
                    one is other for one, other in zip(layers, self.layers, strict=True)):
                return program
        program = self.compiled(columns, None)
        if self.sizes.banks > 1:  # large enough that each bank has room for all
            program = self.compiled(columns, 2 << (program.frames.words - 1).bit_length())
        MADE.append((self.graph, self.layers, sizes, program))
        while len(MADE) > MADE_LEAST and sum(kept_program.weight_bytes for *_, kept_program in MADE) > MADE_BYTES:
            MADE.popleft()
        return program

    def compiled(self, columns: int, words: int | None) -> SharedProgram:
        banks = 1 if words is None else self.sizes.banks
        return compile_shared(self.graph, self.layers, ProgramSizes(
            columns=columns, lanes=columns, interval=1, words=words, single_port=self.sizes.single_port,
            buffer=self.sizes.buffer, stream_rows=columns, banks=banks, sliding=self.sizes.sliding,
            bands=self.sizes.bands, words_ahead=self.sizes.words_ahead))

    def weight_stream(self, folding: Folding) -> WeightStream | None:
        if not folding.weight_rows:
            return None
        shape = self.shape(folding)
        beats = sum(shape.beats_of(step) for step, _ in self.made_for(folding.cols).program.computed())
        return WeightStream(unsigned(ELEMENT_BITS), shape.stream_lanes, beats)

    def weight_beats(self, folding: Folding) -> IntArray:
        return self.made(folding).program.beats()

    def beats_by_layer(self, folding: Folding) -> dict[str, int]:
        """The beats of weights that the steps of each layer take for a frame."""
        program = self.made(folding)
        beats = {layer.name: 0 for layer in self.layers}
        for making in program.makings:
            step = program.program.steps[making.step]
            assert isinstance(step, Compute), "no other step makes a tensor"
            beats[making.layer] += program.program.shape.beats_of(step)
        return beats

    def written(self, folding: Folding) -> tuple[WrittenTensor, ...]:
        program = self.made(folding)
        return tuple(written(program, tensor) for tensor in self.boundaries if tensor not in self.outputs)

    def schedule(self, folding: Folding, technology: Technology) -> Schedule:
        turns = folding.cols // folding.rows
        work = sum(step.loops.blocks * step.loops.beats * turns for step, _ in self.made(folding).program.computed())
        return Schedule(work=work, interval=self.played(folding, technology).interval,
                        multipliers=folding.rows * folding.cols, lanes_in=self.lanes_in(folding))

    def frames(self, folding: Folding) -> tuple[Place, ...]:
        return self.made(folding).frames.places

    def steps(self, folding: Folding, technology: Technology) -> tuple[StepPlan, ...]:
        played, names = self.played(folding, technology), self.names()
        useful = {names[layer.name]: layer.multiplications(self.graph) for layer in self.layers}
        plans: list[StepPlan] = []
        first = self.made(folding).program.first  # what is filled once, is not
        for (name, tensor), begin, end, waits in list(zip(
                self.titles(folding), played.begins[-1].tolist(), played.ends[-1].tolist(), played.waits[-1].tolist(),
                strict=True))[first:]:
            if plans and plans[-1].name == name and name in useful:
                last = plans.pop()
                plans.append(replace(last, tensor=tensor, cycles=last.cycles + end - begin, waits=last.waits + waits))
            else:
                plans.append(StepPlan(name, tensor, end - begin, waits, useful.get(name, 0)))
        return tuple(plans)

    def names(self) -> dict[str, str]:
        """The name that a stage of each layer alone would be called."""
        return {layer.name: name for layer, name in zip(self.graph.layers, layer_names(self.graph), strict=True)}

    def titles(self, folding: Folding) -> list[tuple[str, str]]:
        """For each step of the program, the name and the tensor that `steps` has."""
        program, names = self.made(folding), self.names()
        of_step = {making.step: (names[making.layer], making.tensor) for making in program.makings}
        of_step |= {step: ("state", state) for step, state in program.handing.items()}
        titles = []
        for k, step in enumerate(program.program.steps):
            if isinstance(step, Compute):
                titles.append(of_step[k])
            elif isinstance(step, Load):
                titles.append(("load", program.inputs[step.port]))
            elif isinstance(step, Fill):
                titles.append(("fill", ""))
            else:
                titles.append(("store", program.outputs[step.port]))
        return titles

    def step_times(self, folding: Folding, technology: Technology, *arrivals: Times,
                   left: Sequence[Times] | None = None) -> tuple[StepTimes, ...]:
        played = self.play(folding, technology, *arrivals, left=left)
        return tuple(StepTimes(name, played.begins[:, k], played.ends[:, k], played.waits[:, k])
                     for k, (name, _) in enumerate(self.titles(folding)))

    def lanes_in(self, folding: Folding) -> tuple[int, ...]:
        """For each input the elements of a beat."""
        lanes = {step.port: widest(step.channels, folding.cols) for step in self.made_for(folding.cols).program.steps
                 if isinstance(step, Load)}
        return tuple(lanes[port] for port in range(len(self.inputs)))

    def played(self, folding: Folding, technology: Technology) -> SharedTimes:
        """Frames whose beats are always there; the last one shows the steady state."""
        key = folding, technology
        if key not in self._played:
            self._played.clear()
            self._played[key] = self.play_at_once(folding, technology)
        return self._played[key]

    def play_at_once(self, folding: Folding, technology: Technology) -> SharedTimes:
        arrivals = [np.zeros(FRAMES * self.graph.tensors[name].frame.elements // lanes, np.int64)
                    for name, lanes in zip(self.inputs, self.lanes_in(folding), strict=True)]
        return self.play(folding, technology, *arrivals)

    def play(self, folding: Folding, technology: Technology, *arrivals: Times,
             left: Sequence[Times] | None = None) -> SharedTimes:
        return self.unit_shape(folding, technology).play(technology, *arrivals, left=left)

    def times(self, folding: Folding, technology: Technology, *arrivals: Times,
              left: Sequence[Times] | None = None) -> StageTimes:
        return self.unit_shape(folding, technology).times(technology, *arrivals, left=left)

    def cost(self, folding: Folding, technology: Technology) -> Resources:
        return self.unit_shape(folding, technology).cost(technology)

    def unit(self, folding: Folding, technology: Technology) -> Component:
        return self.unit_shape(folding, technology).build(technology, f"stage{self.name}")

    def unit_shape(self, folding: Folding, technology: Technology) -> SharedUnitShape:
        """The unit, before it is built."""
        elements, outputs = (tuple(shape_of(self.graph.tensors[name].format) for name in names)
                             for names in (self.inputs, self.outputs))
        return SharedUnitShape(
            program=self.made(folding).program, elements=elements, outputs=outputs, lanes_in=self.lanes_in(folding),
            lanes_out=self.lanes_out(folding), streamed=folding.weight_rows > 0,
            style=rescaler_style(folding, technology),
            interval=folding.weight_interval if folding.weight_rows else None)


def widest(channels: int, columns: int) -> int:
    """Elements of the widest beat of pixels of so many channels: a divisor of them and of the columns, or all."""
    return channels if channels <= columns else gcd(channels, columns)


def rescaler_style(folding: Folding, technology: Technology) -> RequantizerStyle:
    """The style of what multiplies where sums are rescaled."""
    in_logic = folding.rescale is MultiplierStyle.LOGIC or technology.prefers_fabric_requantizer
    return RequantizerStyle.FABRIC if in_logic else RequantizerStyle.DSP


def written(program: SharedProgram, tensor: str) -> WrittenTensor:
    """How the frame memory gets `tensor`."""
    steps = tuple(making.step for making in program.makings if making.tensor == tensor)
    frame, format = program.tensors[tensor].frame, program.tensors[tensor].format
    elements = np.arange(frame.elements, dtype=np.int64).reshape(-1, frame.channels)
    words = program.operands[tensor].layout.spread(elements, -1).reshape(-1, program.program.shape.columns)
    places = np.concatenate([program.places(tensor, step) for step in (program.program.steps[k] for k in steps)
                             if isinstance(step, Compute)])
    return WrittenTensor(tensor, steps, words[places].reshape(-1), held_less(format))
