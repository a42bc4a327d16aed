"""The steps from Verilog to an executable: Verilator, the C++ compiler, the linker; and what was compiled, kept."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import ToolFailed
from hwflow_base.files.cache import digest, is_intact, locked, replace_folder, write_manifest

from .tools import Tools, run_tool, run_tools

HERE = Path(__file__).parent
VERILOG = tuple(sorted((HERE / "verilog").glob("*.sv")))
CONTROL = HERE / "verilog" / "bench.vlt"
CPP = HERE / "cpp"
#: lz4.h and zlib.h, which Verilator's FST writer includes: small ones of our own, so that no library is needed.
FST = CPP / "fst"

# Values that nothing defines, in every simulation: what they are is said here alone.  They are random, of the run's
# seed: a register or a word of RAM without a value when the simulation starts, and what the Verilog gives as x.  A pin
# of an instance that is left open would be another one; such a design is refused.


#: What is an error in every design, besides Verilator's own errors: pins that are left open.
OPEN = ("PINMISSING", "PINCONNECTEMPTY", "PINNOCONNECT")
#: Options of Verilator.  Its other warnings are about the style of Verilog that programs write.
STRICT = ("--x-assign", "unique", "--x-initial", "unique", "-Wno-lint", "-Wno-style", "-Wno-fatal", "-Wno-MULTIDRIVEN",
          *(f"-W{kind}-{name}" for name in OPEN for kind in ("warn", "error")))
#: Verilator's seeds are from 1 to this; with 0 it takes one from the clock.
SEEDS = (1 << 31) - 1


def run_arguments(seed: int, numbers: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """The arguments of a compiled program: undefined values are random, and the `numbers` of models are these, by their
    plusargs."""
    return ("+verilator+rand+reset+2", f"+verilator+seed+{seed % SEEDS or SEEDS}",
            *(f"+{name}={value}" for name, value in (numbers or {}).items()))


VERILATOR_FLAGS = ("--cc", "--vpi", "--no-timing", *STRICT, "--prefix", "Vbench", "--top-module", "bench",
                   "--output-split", "20000")
#: -O1 simulates within a tenth of -O3 and compiles in half the time; what runs once needs no optimization.
FAST, SLOW = "-O1", "-O0"
CXX_FLAGS = ("-std=c++17", "-DVERILATOR=1", "-DVL_TIME_CONTEXT", "-DVM_COVERAGE=0", "-DVM_SC=0", "-DVM_TIMING=0",
             "-DVM_TRACE_VCD=0", "-DVM_TRACE_SAIF=0", "-faligned-new", "-w")
#: Verilator's run-time library.  VPI, DPI's tables and threads do nothing in a burst of the clock.
RUNTIME = (("verilated.cpp", FAST), ("verilated_vpi.cpp", SLOW), ("verilated_dpi.cpp", SLOW),
           ("verilated_threads.cpp", SLOW))
RUNTIME_WAVES = (("verilated_fst_c.cpp", FAST),)
#: Generated files are compiled together up to this size: Verilator's headers alone cost a second.
UNIT_BYTES = 300_000


def compiler_flags(tools: Tools, *, waves: bool) -> list[str]:
    trace = int(waves)
    include = tools.verilator_root / "include"
    flags = [*CXX_FLAGS, f"-DVM_TRACE={trace}", f"-DVM_TRACE_FST={trace}", "-I.", f"-I{CPP}"]
    flags += [f"-I{FST}"] if waves else []
    return [*flags, "-isystem", str(include), "-isystem", str(include / "vltstd")]


@dataclass(frozen=True)
class Compilation:
    """How designs are compiled: with which tools, with the tracing of `waves` or without, at most `jobs` compilers at
    once; as many as processors if None.  `log` has what the tools say."""

    tools: Tools
    waves: bool
    log: Path
    jobs: int | None


def fingerprint(how: Compilation) -> list[str]:
    """The texts that the executable depends on besides the Verilog, as text."""
    tools = how.tools
    ours = [path.read_text() for path in sorted(CPP.rglob("*")) if path.is_file()]
    flags = [*VERILATOR_FLAGS, FAST, SLOW, *compiler_flags(tools, waves=how.waves)]
    return [tools.verilator_version, tools.compiler, tools.compiler_version, tools.cocotb_version,
            str(tools.cocotb_libs), *flags, *ours]


def runtime_key(how: Compilation) -> str:
    return digest("runtime", str(RUNTIME), *fingerprint(how))


def compile_runtime(how: Compilation, folder: Path) -> None:
    """Verilator's run-time library and our main program's recorder as `runtime.a`: the same for every design."""
    tools, parts = how.tools, RUNTIME + (RUNTIME_WAVES if how.waves else ())
    units = [(tools.verilator_root / "include" / name, level) for name, level in parts]
    compile_units(tools, [*units, (CPP / "recorder.cpp", FAST)], folder,
                  flags=compiler_flags(tools, waves=how.waves), log=how.log, jobs=how.jobs)
    archive(tools, folder, how.log)


def archive(tools: Tools, folder: Path, log: Path) -> None:
    objects = sorted(folder.glob("*.o"))
    run_tool([tools.archiver, "rcs", "runtime.a", *[path.name for path in objects]], what="the archiver", cwd=folder,
             log=log)
    for path in objects:
        path.unlink()


def compile_units(tools: Tools, units: Sequence[tuple[Path, str]], folder: Path, *, flags: Sequence[str], log: Path,
                  jobs: int | None) -> None:
    """Compile each source with its optimization flag to an object in `folder`."""
    front = [tools.ccache] if tools.ccache else []
    # ccache goes by PWD: were it the caller's, a compiler that outlives a killed run would leave its object there.
    env = {**os.environ, "CCACHE_BASEDIR": str(folder), "PWD": str(folder)}
    commands: list[list[str | Path]] = [[*front, tools.compiler, level, *flags, "-c", source, "-o", f"{source.stem}.o"]
                for source, level in units]
    run_tools(commands, what="the C++ compiler", cwd=folder, log=log, jobs=jobs or os.cpu_count() or 1, env=env)


def design_units(folder: Path, prefix: str, *drivers: Path) -> list[tuple[Path, str]]:
    """The units of a design, each with its optimization flag: few that include many files, `drivers` among them.

    Verilator generated the design's classes V`prefix`... into `folder`.
    """
    generated = sorted(folder.glob(f"V{prefix}*.cpp"))
    slow = [path for path in generated if path.stem.endswith("Slow") or "__Syms" in path.stem]
    fast = [path for path in generated if path not in slow]
    return [*((unit, FAST) for unit in joined(folder, "fast", [*fast, *drivers])),
            *((unit, SLOW) for unit in joined(folder, "slow", slow))]


def joined(folder: Path, name: str, files: Sequence[Path]) -> list[Path]:
    """Units in `folder` that include `files`, each of them about UNIT_BYTES in all."""
    groups: list[list[Path]] = []
    room = 0
    for path in files:
        size = path.stat().st_size
        if not groups or size > room:
            groups.append([])
            room = UNIT_BYTES
        groups[-1].append(path)
        room -= size
    units = [folder / f"{name}{n}.cpp" for n in range(len(groups))]
    for unit, group in zip(units, groups, strict=True):
        unit.write_text("".join(f'#include "{path if path.parent != folder else path.name}"\n' for path in group))
    return units


@dataclass(frozen=True)
class Build:
    """One design: `folder` is filled with the executable `bench`, everything else in it is removed at the end."""

    how: Compilation
    folder: Path

    def verilate(self, sources: Sequence[Path]) -> None:
        tools, trace = self.how.tools, ["--trace-fst"] if self.how.waves else []
        run_tool([tools.verilator, *VERILATOR_FLAGS, *trace, "--Mdir", ".", *sources], what="Verilator",
                 cwd=self.folder, log=self.how.log, env={**os.environ, "VERILATOR_ROOT": str(tools.verilator_root)})

    def compile(self) -> None:
        # In a unit of its own: it declares DPI's functions with other names of the same types.
        units, how = [*design_units(self.folder, "bench"), (CPP / "main.cpp", FAST)], self.how
        compile_units(how.tools, units, self.folder, flags=compiler_flags(how.tools, waves=how.waves), log=how.log,
                      jobs=how.jobs)

    def link(self, runtime: Path) -> None:
        tools, log = self.how.tools, self.how.log
        objects = sorted(path.name for path in self.folder.glob("*.o"))
        libs = tools.cocotb_libs
        run_tool([tools.compiler, "-o", "bench", *objects, runtime, "-rdynamic", f"-L{libs}", f"-Wl,-rpath,{libs}",
                  "-lcocotbvpi_verilator", "-lpthread"], what="the linker", cwd=self.folder, log=log)
        for path in self.folder.iterdir():
            if path.name not in ("bench", "bench.v"):
                path.unlink()
        if not os.access(self.folder / "bench", os.X_OK):
            raise ToolFailed("the linker left no executable", f"its output is in '{log}'")


# Compiled things, kept by content: a folder for each key, complete or not there at all.


def cached_folder(cache: Path, key: str, make: Callable[[Path], None], say: Callable[[str], None]) -> tuple[Path, bool]:
    """The folder that `make` fills for `key`, and whether it was made now.

    Unlike `hwflow_base.files.cache.cached_step` the key is the whole truth: what is compiled depends on the
    emitted Verilog, not on the code that emitted it.  A lock for each key lets a second run wait for the first one's
    result.  What a killed run leaves is removed, and a damaged folder is made again.
    """
    place = cache / key
    with locked(place, say):
        folder = place / "built"
        if is_intact(folder, key):
            return folder, False
        working = Path(tempfile.mkdtemp(prefix=".built-", dir=place))
        try:
            make(working)
            write_manifest(working, key)
            replace_folder(working, folder)
        finally:
            shutil.rmtree(working, ignore_errors=True)
    return folder, True
