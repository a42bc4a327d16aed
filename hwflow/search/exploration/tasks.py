"""The tasks of workers: the integers of a model, their accuracy, and the designs of a board.

Each function is one task.  It gives plain data that depends on its arguments alone, so it does not matter which worker
runs it, or how often.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from hwflow_base.errors import HwflowError
from hwflow_base.files.facts import plain
from hwflow_rtl.vendor import Technology

from hwflow.hls.foldings.budget import DoesNotFit
from hwflow.stages.partition import Execution

from ... import golden, hls
from ...accuracy import Accuracy, compare, data_warnings, float_outputs, question
from ...data.dataset import Dataset
from ...host.identity import identity
from ...host.rate import carried, cycles_for, rate_of
from ...layers.base import LayerGraph
from ...onnx.model import Array, Model
from ...options import HardwareOptions
from ...pipeline.pipeline import Pipeline
from ...quantize import Quantized, quantize
from ...quantize.settings import QuantizationSettings
from ...synth import Board
from ...synth.expected_clock import estimated_clock
from .point import Point

#: More cycles of a frame than any design takes: what is as small as possible is asked for with this interval.
LONGEST = 10**9
#: How many times a design for a rate is made again for the clock of the one before.
TRIES = 4
#: Where there is no smallest design, intervals reach so many times as far as the shortest one.
REACH = 64
#: Graphs whose stages a worker remembers, by the key of the integers and the device's technology.
REMEMBERED = 16
_known: OrderedDict[tuple[str, type[Technology], str], hls.Known] = OrderedDict()


@dataclass(frozen=True)
class Integers:
    """The integer model of some widths, or why there is none (`refused`, and what to do).

    `data` is the model as bytes: a worker makes one object of them for all its tasks, whose layers remember costs.
    """

    data: bytes | None
    refused: str = ""

    @property
    def quantized(self) -> Quantized | None:
        """The integer model; None where there is none."""
        return None if self.data is None else unpickled(self.data)


@lru_cache(maxsize=4)
def unpickled(data: bytes) -> Quantized:
    """The integer model of these bytes; the same object for several tasks of a worker."""
    quantized = pickle.loads(data)
    assert isinstance(quantized, Quantized)
    return quantized


@dataclass(frozen=True, eq=False)
class DesignTask:
    """The designs that are wanted of one board and one integer model, whose key is `integers`: a task.

    `name` is the board as the user names it, `widths` as of a point.  `intervals` is the number of designs, from the
    fastest to the smallest one, and `rate` the frames a second for which the smallest one is wanted besides.
    """

    name: str
    board: Board
    widths: str
    integers: str
    execution: Execution
    logic_multipliers: bool
    stream_weights: bool
    intervals: int
    rate: float | None

    @property
    def hardware(self) -> HardwareOptions:
        """The options of the pipelines that make these designs; their pace is not among them."""
        return HardwareOptions(execution=self.execution, logic_multipliers=self.logic_multipliers,
                               stream_weights=self.stream_weights)


def integers_of(model: Model, source: Model, rows: Mapping[str, Array] | None,
                  settings: QuantizationSettings) -> Integers:
    """The integers of `model`, which was made of `source`, calibrated on `rows`."""
    try:
        return Integers(pickle.dumps(quantize(model, rows, settings=settings, original=source)))
    except HwflowError as error:
        return Integers(None, str(error))


def reference_outputs(model: Model, dataset: Dataset) -> dict[str, Array]:
    """The outputs of the float model on all rows."""
    return float_outputs(model, dataset.inputs)


def judgement(model: Model, dataset: Dataset, integers: Integers, reference: Mapping[str, Array]) -> dict[str, object]:
    """How good the integers are on the data: `metric`, `accuracy` and `reference`, and the warnings about the data."""
    quantized = integers.quantized
    if quantized is None:
        return {"metric": "", "accuracy": None, "reference": None, "warnings": []}
    accuracy = compare(question(model, dataset), dataset, reference, golden.predict(quantized, dataset.inputs))
    metric, value, real = headline(accuracy)
    return {"metric": metric, "accuracy": value, "reference": real,
            "warnings": plain(data_warnings(quantized, dataset))}


def headline(accuracy: Accuracy) -> tuple[str, float | None, float | None]:
    """One number to compare integer models by, the more the better, and that of the float model.

    The measure of the labels, in per cent; without labels the share of rows that keep their class, in per cent; else
    the signal to noise ratio in decibels.
    """
    metric = accuracy.headline
    if metric is not None and metric.integer is not None:
        return f"{metric.name} %", 100 * metric.integer, None if metric.real is None else 100 * metric.real
    if accuracy.agreement is not None:
        return "agreement %", 100 * accuracy.agreement, 100.0
    same = [noise.agreement for noise in accuracy.outputs if noise.agreement is not None and not noise.state]
    if same and accuracy.snr_db is None:
        return "agreement %", 100 * min(same), 100.0
    return "SNR dB", accuracy.snr_db, None


def designs(integers: Integers, task: DesignTask) -> tuple[Point, ...]:
    """The designs of one board, in order; the first is the fastest one."""
    asked = Point(task.name, task.widths, task.execution.value, task.logic_multipliers, task.stream_weights,
                  None)
    quantized = integers.quantized
    if quantized is None:
        return (replace(asked, refused=integers.refused),)
    graph = quantized.graph
    board = carrying(task.board, graph, task.rate)
    if board.chosen != task.board.chosen:
        asked, task = replace(asked, transport=board.chosen), replace(task, board=board)
    known = remembered(graph, task)
    executions = Pipeline.of_integers(quantized, task.board, task.hardware).executions
    executions = replace(executions, target=replace(executions.target, technology=known.technology), earlier=known)

    def design(interval: int | None) -> Point:
        return point_of_plan(replace(asked, asked=interval), executions, task)

    fastest = design(None)
    if not fastest.fits:
        return (fastest,)
    others = [*ladder(design, fastest, task.intervals), *for_rate(design, fastest, task.rate)]
    by_interval = {point.asked or 0: point for point in others}
    return (fastest, *(point for _, point in sorted(by_interval.items())))


def carrying(board: Board, graph: LayerGraph, rate: float | None) -> Board:
    """The board with the first of its ways to the host that carries `rate` frames a second, or the fastest where none
    does; as it is where no rate is asked for."""
    lines = board.transports
    enough = [kind for kind, line in lines.items() if carried(line.bytes_per_second, graph) >= (rate or 0.0)]
    if board.chosen in enough:
        return board
    return board.with_transport(enough[0] if enough else max(lines, key=lambda kind: lines[kind].bytes_per_second))


def remembered(graph: LayerGraph, task: DesignTask) -> hls.Known:
    """The computations of this worker for the same integers and the same technology, of any board."""
    technology = task.board.technology()
    key = task.integers, type(technology), repr(sorted(vars(technology).items()))
    if key not in _known:
        _known[key] = hls.Known(graph, technology)
        while len(_known) > REMEMBERED:
            _known.popitem(last=False)
    _known.move_to_end(key)
    return _known[key]


def ladder(design: Callable[[int], Point], fastest: Point, count: int) -> Iterator[Point]:
    """`count` designs in all, at intervals in equal steps of their logarithm, up to the smallest design."""
    if count < 2:
        return
    smallest = design(LONGEST)
    yield smallest
    longest = smallest.interval if smallest.fits else REACH * fastest.interval
    steps = count - 1
    for k in range(1, steps):
        yield design(round(fastest.interval * (longest / fastest.interval) ** (k / steps)))


def for_rate(design: Callable[[int], Point], fastest: Point, rate: float | None) -> Iterator[Point]:
    """Small designs for `rate` frames a second.  The clock of each decides in how many cycles the next one must do."""
    seen: set[int] = set()
    now = fastest
    while rate is not None and now.fits and len(seen) < TRIES:
        interval = max(1, cycles_for(rate, now.mhz))
        if interval in seen:
            return
        seen.add(interval)
        now = design(interval)
        yield now


def point_of_plan(asked: Point, executions: hls.Executions, task: DesignTask) -> Point:
    """The design that is asked for, or why there is none."""
    try:
        plan = executions.plan(task.execution, asked.asked)
    except DoesNotFit as error:
        return replace(asked, refused=error.facts.strip() or error.why, lacks=error.lacking)
    except HwflowError as error:
        return replace(asked, refused=error.why)
    board, clock = task.board, estimated_clock(plan, task.board)
    used, have = plan.resources.counts(), board.resources.counts()
    rate = rate_of(plan, clock.mhz, board.transport.bytes_per_second)
    return replace(
        asked, design=identity(executions.graph, plan).hex(), made_as=plan.execution,
        interval=rate.interval, latency=max(plan.latency), mhz=clock.mhz, mhz_error=clock.error,
        memory_cycles=rate.memory_cycles, link=rate.line, lut=used["lut"], ff=used["ff"], dsp=used["dsp"],
        ram=used["ram"], spram=used["spram"],
        filled=max((need / have[kind] for kind, need in used.items() if have.get(kind)), default=0.0))
