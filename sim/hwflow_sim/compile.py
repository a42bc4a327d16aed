"""From an Amaranth core to an executable simulation, cached by content.

The key is everything that goes in: the bench and the core as RTLIL text, this package's SystemVerilog and C++, the
versions of the tools, the flags.  ROM contents are not part of it: they are files that the simulation reads when it
starts, so a retrained model uses the compiled simulation again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from hwflow_base.files.cache import digest
from hwflow_base.files.target import create_folder
from hwflow_base.work import Audience

from .builder import CONTROL, VERILOG, Build, Compilation, cached_folder, compile_runtime, fingerprint, runtime_key
from .packing import write_roms
from .results import Boundary
from .streams import Streams, streams_of
from .tools import find_tools

#: Cycles without a beat after which a run counts as dead: far more than a stage of one layer works for one beat.
IDLE_LIMIT = 200_000


@dataclass(frozen=True)
class Simulation:
    """A compiled bench.  `folder` holds the ROM contents and is where runs take place.

    `compiled` tells whether the compiler ran or the cache had it; `seconds` is the time `compile()` took.  A run is
    dead after `idle_limit` cycles without a beat.
    """

    executable: Path
    folder: Path
    streams: Streams
    waves: bool
    compiled: bool
    seconds: float
    idle_limit: int = IDLE_LIMIT

    @property
    def boundaries(self) -> tuple[Boundary, ...]:
        return self.streams.boundaries


def elaborate(core, streams: Streams) -> str:
    """The bench around `core` as RTLIL text without source paths: all that the executable is made of."""
    from amaranth.back import rtlil
    from amaranth.hdl import Fragment
    from hwflow_rtl.emit import without_collector

    from .bench import Bench

    bench = Bench(core, streams)
    ports = [bench.clk, bench.go, bench.done]
    with without_collector():
        design = Fragment.get(bench, None).prepare(ports=ports, hierarchy=("bench",))
        text: str
        text, _ = rtlil.convert_fragment(design, name="bench", emit_src=False)
    return text


def warn(text: str) -> None:
    print(text, file=sys.stderr)


def compile(core, *, boundaries: Sequence[Boundary], roms: Mapping[str, npt.NDArray[np.uint8]], folder: Path,
            cache: Path, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None, waves: bool = False,
            sources: Sequence[Path] = (), jobs: int | None = None, idle_limit: int = IDLE_LIMIT,
            audience: Audience = Audience(warn)) -> Simulation:
    """Make the executable simulation of `core`, or find it in `cache`, which has those of all designs.

    `core` is a `hwflow_rtl.core.Core`, or a component with its ports and its `links`, `input_names`, `output_names` and
    `capacity`, and `probes`, the number of the stage of each probe.  `boundaries` are in the order of the probes, their
    tensors differ.  `inputs` and `outputs` name the tensors that enter and leave the core; messages say them where
    there are several.

    `roms` has the contents of each `hwflow_rom` by the name of its file without `.hex`: uint8[depth, bytes], little
    endian words.  It is read after the core was elaborated, so it may be a `Generic.roms` that still fills.  `folder`,
    that of the runs, receives the ROM files and the logs.

    `waves` compiles in the tracing of all signals (slower; see `run()`).  `sources` are more Verilog files, for a core
    that instantiates them.  `idle_limit` is for a core whose stages may give no beat for longer.  `jobs` compilers run
    at once; as many as processors if None.  `audience` is told that another run compiles the same thing and this one
    waits, and shows the compilation where there is one.

    Raises MissingTool, and ToolFailed with the path of the log.
    """
    began = time.monotonic()
    folder, cache = folder.resolve(), cache.resolve()
    create_folder(folder)
    create_folder(cache)
    streams = streams_of(core, boundaries, inputs, outputs)
    text = elaborate(core, streams)
    tools = find_tools()
    write_roms(roms, folder)  # not before: a unit may ask for its ROM when it is elaborated
    how = Compilation(tools, waves, folder / "compile.log", jobs)
    built, compiled = executable(text, sources, how, cache, audience)
    return Simulation(executable=built, folder=folder, streams=streams, waves=waves, compiled=compiled,
                      seconds=time.monotonic() - began, idle_limit=idle_limit)


def executable(text: str, sources: Sequence[Path], how: Compilation, cache: Path, audience: Audience
               ) -> tuple[Path, bool]:
    """The executable of the bench `text` (RTLIL) in `cache`, and whether it was made now."""
    from hwflow_rtl.emit import to_verilog

    def make(target: Path) -> None:
        how.log.unlink(missing_ok=True)
        with audience.watch("Verilator and the C++ compiler", "compile", len(text)) as work:
            (target / "bench.v").write_text(to_verilog(text))
            runtime, first = cached_folder(cache, runtime_key(how), lambda place: compile_runtime(how, place),
                                           audience.progress)
            if first:
                work.unlike_others()
            build = Build(how, target)
            build.verilate([target / "bench.v", *VERILOG, *sources, CONTROL])
            build.compile()
            build.link(runtime / "runtime.a")

    key = digest(text, *VERILOG, CONTROL, *sources, *fingerprint(how))
    built, compiled = cached_folder(cache, key, make, audience.progress)
    return built / "bench", compiled
