"""Requests of a user on a model's way to hardware: the options that several commands share.

Each part is a frozen dataclass whose fields are options (`hwflow_base.options`); the request of a command
(`hwflow.cli`) consists of such parts and of options of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from hwflow_base.errors import HwflowError
from hwflow_base.options import Option, Range, Section

from hwflow.stages.partition import Execution

from .layers.formats import MOST_UNIFORM_BITS
from .layers.rescale import BLOCK_BITS, MULTIPLIER_BITS
from .onnx.limits import DEFAULT_LIMITS, Limits, parse_limits
from .quantize.settings import Effort

#: The board where none is named, and where every intermediate result is written.
BOARD, BUILD = "ulx3s_85f", Path("build")
#: The --rescale-bits that is no number.
AUTO: Literal["auto"] = "auto"


#: What is given to an input, or to an output.
_Value = TypeVar("_Value")


def model_file(path: Path) -> Path:
    """The path of the model's file.  Refuses a folder first, before any other error is found."""
    if path.is_dir():
        raise HwflowError("must be an ONNX file, not a folder", "name the .onnx file in it", where=str(path))
    return path


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """`name=1,3,32,32` as the name and the sizes."""
    name, _, shape = text.rpartition("=")
    try:
        sizes = tuple(int(size) for size in shape.split(","))
    except ValueError:
        sizes = ()
    if not name or not sizes or min(sizes) < 1:
        raise ValueError(f"{text!r} must be an input's name and its sizes, like image=1,3,32,32")
    return name, sizes


def once(values: tuple[tuple[str, _Value], ...]) -> tuple[tuple[str, _Value], ...]:
    """The values, unchanged.  Refuses two of them for one input, because only one of them could have an effect."""
    names = [name for name, _ in values]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"the input '{twice}' must be named once, not {names.count(twice)} times")
    return values


def state(text: str) -> tuple[str, str]:
    """`h0=hn` as the names of an input and an output."""
    name, equal, output = text.partition("=")
    if not name or not equal or not output:
        raise ValueError(f"{text!r} must be an input's name and an output's, like h0=hn")
    return name, output


def each_once(pairs: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The pairs, unchanged.  Refuses an input, or an output, of two of them."""
    for names in zip(*pairs, strict=True):
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"'{twice}' must be named once, not {names.count(twice)} times")
    return pairs


def constant(text: str) -> tuple[str, tuple[bool | int | float, ...]]:
    """`sr=16000` as the name of an input and its elements; they are numbers, or true and false."""
    name, _, elements = text.rpartition("=")
    words = elements.replace(" ", "").lower().split(",")
    if name and set(words) <= {"true", "false"}:
        return name, tuple(word == "true" for word in words)
    for kind in (int, float):
        try:
            numbers = tuple(kind(word) for word in words)
        except ValueError:
            continue
        if name:
            return name, numbers
    raise ValueError(f"{text!r} must be an input's name and its elements, like sr=16000, gains=0.5,1 or flag=true")


def constant_words(constants: tuple[tuple[str, tuple[bool | int | float, ...]], ...]) -> list[str]:
    """The constants as the option has them."""
    return [f"{name}={','.join(str(e).lower() if isinstance(e, bool) else repr(e) for e in elements)}"
            for name, elements in constants]


def widths(text: str) -> tuple[int, int]:
    """`4` or `4,8` as the widths of weights and activations; `4` alone means 8 bits for activations."""
    try:
        bits = [int(width) for width in text.split(",")]
    except ValueError:
        bits = []
    weights, activations = MOST_UNIFORM_BITS
    known = zip(bits, MOST_UNIFORM_BITS, strict=False)
    if len(bits) not in (1, 2) or not all(1 <= width <= most for width, most in known):
        raise ValueError(f"{text!r} must be the bits of weights, 1 to {weights}, or of weights and activations, 1 to "
                         f"{activations}, like 4 or 4,8")
    return bits[0], bits[-1] if len(bits) == 2 else 8


def rescale_bits(text: str) -> int | str:
    """`auto` as it is, or a whole number from 18 to 32."""
    if text == AUTO:
        return text
    if not text.isdecimal() or not BLOCK_BITS <= int(text) <= MULTIPLIER_BITS:
        raise ValueError(f"{text!r} must be {AUTO}, or a whole number from {BLOCK_BITS} to {MULTIPLIER_BITS}: the bits "
                         "of the multipliers that turn sums into elements")
    return int(text)


def changed_limits(limits: Limits) -> Iterator[str]:
    """`NAME=NUMBER` for each limit that is not as by default."""
    for field in fields(limits):
        if getattr(limits, field.name) != getattr(DEFAULT_LIMITS, field.name):
            yield f"{field.name}={getattr(limits, field.name)}"


def listed_boards() -> Sequence[str]:
    """The boards that a shell offers."""
    from .synth.boards import list_boards

    return list_boards()


ModelFile = Annotated[Path, Option(argument=True, whole=model_file)]
BuildFolder = Annotated[Path, Option("The folder for all results.", common=True)]
LimitsOption = Annotated[Limits, Option(
    "Raise a limit for a model that you trust: tensor_bytes, total_bytes, seconds, ...", Section.MODEL,
    "NAME=NUMBER", "limit", repeated=True, whole=parse_limits,
     words=lambda limits: list(changed_limits(limits)))]
RescaleBits = Annotated[int | Literal["auto"] | None, Option(
    "Bits of the multipliers that turn sums into elements, 18 to 32; auto: as few as are exact.", Section.QUANTIZATION,
    "N", parse=rescale_bits)]
HardwareArgmax = Annotated[bool, Option(
    "Compute the final ArgMax or TopK in hardware, which then gives indices, not scores.", Section.QUANTIZATION)]
EffortOption = Annotated[Effort, Option(
    "Work for what you leave open: ranges, rounding of weights, biases.  quick: nothing is tried.  normal: some "
    "seconds.  best: everything, some minutes.", Section.QUANTIZATION)]
BoardName = Annotated[str, Option(
    "A board's name (see `hwflow boards`) or a board YAML file.", Section.BOARD, complete=listed_boards, common=True)]
Reweightable = Annotated[bool, Option("Make hardware whose weights `hwflow reweight` can replace.", Section.PLAN)]
Verbose = Annotated[bool, Option("Show all details of layers, memories and clocks.", short="v")]


@dataclass(frozen=True)
class Project:
    """A model, its data, and the folder of its results."""

    model: ModelFile
    input_shapes: Annotated[tuple[tuple[str, tuple[int, ...]], ...], Option(
        "Set the shape of an input that has symbolic sizes in the model.", Section.MODEL, "NAME=D,D,...", "input-shape",
        parse=input_shape, whole=once, of_model=True,
        words=lambda shapes: [f"{name}={','.join(map(str, sizes))}" for name, sizes in shapes])] = ()
    states: Annotated[tuple[tuple[str, str], ...], Option(
        "An input that is a state, and the output that is its next value: it stays on the chip from frame to frame "
        "(docs/streaming.md); default: those that hwflow finds.", Section.MODEL, "INPUT=OUTPUT", "state", parse=state,
        whole=each_once, of_model=True, words=lambda pairs: ["=".join(pair) for pair in pairs])] = ()
    constants: Annotated[tuple[tuple[str, tuple[bool | int | float, ...]], ...], Option(
        "An input that never changes, and its elements: one for all of it, or each of them (sr=16000, gains=0.5,1, "
        "flag=true).", Section.MODEL, "NAME=V,V,...", "constant", parse=constant, whole=once, of_model=True,
        words=constant_words)] = ()
    data: Annotated[Path | None, Option(
        "NPZ file with in_<input>, optionally labels and calib_<input> (docs/data-files.md).", Section.MODEL,
        of_model=True)] = None
    build: BuildFolder = BUILD
    limits: LimitsOption = DEFAULT_LIMITS


@dataclass(frozen=True)
class QuantizationOptions:
    """How a model becomes integers."""

    bits: Annotated[tuple[int, int] | None, Option(
        "Bits of all weights, and of all activations (default 8): 4 or 8,16.", Section.QUANTIZATION, "W[,A]",
        parse=widths, words=lambda bits: [",".join(map(str, bits))], excludes=["settings"], common=True)] = None
    settings: Annotated[Path | None, Option(
        "YAML file with settings for each layer (docs/quantization-guide.md).", Section.QUANTIZATION,
        of_model=True)] = None
    rescale_bits: RescaleBits = None
    hardware_argmax: HardwareArgmax = False
    effort: EffortOption = Effort.NORMAL

    def require_one_of(self) -> None:
        """HwflowError where both `bits` and `settings` are given in Python."""
        if self.bits is not None and self.settings is not None:
            raise HwflowError("bits and settings must not be given together",
                              "write the widths into the settings")


@dataclass(frozen=True)
class GoalOptions:
    """Widths that are searched for a goal, layer by layer, in place of widths that are given."""

    noise: Annotated[float | None, Option(
        "Search widths for each layer: the cheapest design with at least DB decibels of signal to noise at every "
        "output, on the calibration rows (docs/mixed-precision.md).", Section.WIDTHS, "DB",
        excludes=["accuracy-drop"])] = None
    accuracy_drop: Annotated[float | None, Option(
        "Search widths for each layer: the cheapest design that loses at most POINTS of accuracy.", Section.WIDTHS,
        "POINTS")] = None
    search_evaluations: Annotated[int, Option(
        "How many designs the search may try.", Section.WIDTHS, parse=Range(1))] = 200


@dataclass(frozen=True)
class HardwareOptions:
    """For which board, and with which plan, integers become hardware."""

    board: BoardName = BOARD
    transport: Annotated[str | None, Option(
        "The way from the host to the board, one that its file has, as uart; default: the first.", Section.BOARD,
        "KIND", common=True)] = None
    address: Annotated[str | None, Option(
        "The board's IPv4 address in the network, for --transport udp; default: that of its file, or 192.168.1.50.",
        Section.BOARD, "IP")] = None
    plan: Annotated[Path | None, Option(
        "Use this edited plan.yaml instead of a new plan.", Section.PLAN, of_model=True)] = None
    interval: Annotated[int | None, Option(
        "Make the smallest design with at most CYCLES a frame; default: the fastest that fits.", Section.PLAN, "CYCLES",
        parse=Range(1), excludes=["plan"])] = None
    frames_per_second: Annotated[float | None, Option(
        "Make the smallest design for N frames/s, at the clock that routed designs of the board's family reach at "
        "least; it may multiply in logic.", Section.PLAN, "N", parse=Range(above=0),
        excludes=["plan", "interval"])] = None
    logic_multipliers: Annotated[bool, Option(
        "Multiply in logic when all multiplier blocks are used: a faster design, but a large one takes long to route.",
        Section.PLAN, excludes=["plan"], common=True)] = False
    stream_weights: Annotated[bool, Option(
        "Let weights be in the board's memory outside of the FPGA also if the design fits without: a faster design, "
        "but the memory must be filled after power-up.", Section.PLAN, excludes=["plan"], common=True)] = False
    execution: Annotated[Execution, Option(
        "dataflow: a stage for each layer, all at the same time, which is faster.  shared: one array that computes one "
        "layer after another, which is smaller.  auto: dataflow if it fits, else shared, or both side by side where "
        "that is faster.", Section.PLAN, excludes=["plan"], common=True)] = Execution.AUTO
    reserve: Annotated[int, Option(
        "Leave PERCENT of every resource of the FPGA to other logic.", Section.PLAN, "PERCENT", parse=Range(0, 90),
        excludes=["plan"])] = 0
    reweightable: Reweightable = False

    def require_one_of(self) -> None:
        """HwflowError where two options are given in Python that decide the same."""
        if self.interval is not None and self.frames_per_second is not None:
            raise HwflowError("interval must not be given together with frames_per_second", "give one of them")
