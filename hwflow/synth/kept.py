"""The report that synthesis left beside a bitstream, as an object again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwflow_base.files.sources import open_plain
from hwflow_rtl.vendor import Resources

from .families import Limit
from .paths import Clock, PartDelay, Step, TimingPath
from .report import SynthesisReport, Usage
from .seeds import Attempt

#: The file in the folder of a routed design.
REPORT = "report.json"


def kept_report(folder: Path) -> SynthesisReport | None:
    """What `synthesize` wrote into `folder`; None where there is nothing, or where it is another file or a damaged one.
    """
    try:
        with open_plain(folder / REPORT) as file:
            return report_of_dict(json.load(file))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def report_of_dict(plain: Mapping[str, Any]) -> SynthesisReport:
    """The inverse of `SynthesisReport.to_dict`.  A LookupError, TypeError, ValueError or AttributeError for other
    dictionaries."""
    limit, margins, line = plain["limit"], plain["data_margins"], plain["line_clock"]
    lut, ff, dsp, ram, spram = (Usage(int(plain[name]["used"]), int(plain[name]["available"]))
                                for name in ("lut", "ff", "dsp", "ram", "spram"))
    return SynthesisReport(
        lut=lut, ff=ff, dsp=dsp, ram=ram, spram=spram, routed_mhz=number(plain["routed_mhz"]),
        usable_mhz=number(plain["usable_mhz"]), memory_mhz=number(plain["memory_mhz"]),
        board=str(plain["board"]), device=str(plain["device"]),
        board_mhz=finite(plain["board_mhz"]), clock_mhz=finite(plain["clock_mhz"]),
        limit=Limit(str(limit["what"]), finite(limit["mhz"]), str(limit["source"])),
        critical_path=str(plain["critical_path"]), bitstream=Path(plain["bitstream"]), seed=int(plain["seed"]),
        tools=texts(plain["tools"]), logs={step: Path(path) for step, path in texts(plain["logs"]).items()},
        seconds={str(step): finite(seconds) for step, seconds in plain["seconds"].items()},
        pll=None if plain["pll"] is None else dict(plain["pll"]),
        seeds=tuple(Attempt(int(each["seed"]), number(each["routed_mhz"]), finite(each["seconds"]), str(each["failed"]))
                    for each in plain["seeds"]),
        clocks=tuple(clock_of(each) for each in plain["clocks"]),
        part_delays=tuple(PartDelay(str(each["part"]), tuple(map(str, each["layers"])), finite(each["ns"]),
                                    str(each["before"]), str(each["end"])) for each in plain["part_delays"]),
        parts={str(part): Resources.of_counts({kind: int(count) for kind, count in used.items()})
               for part, used in plain["parts"].items()},
        options=texts(plain["options"]),
        data_margins=None if margins is None else (finite(margins[0]), finite(margins[1])),
        line_clock=None if line is None else (str(line[0]), finite(line[1])))


def clock_of(plain: Mapping[str, Any]) -> Clock:
    path = plain["path"]
    return Clock(str(plain["net"]), number(plain["routed_mhz"]), bool(plain["is_core"]), path and TimingPath(
        str(path["part"]), tuple(map(str, path["layers"])), str(path["start"]), str(path["end"]),
        tuple(Step(str(step["kind"]), str(step["cell"]), str(step["last"]), finite(step["logic_ns"]),
                   finite(step["wire_ns"])) for step in path["steps"])))


def number(value: float | None) -> float | None:
    return None if value is None else finite(value)


def finite(value: Any) -> float:
    """ValueError for what JSON in Python can hold beside numbers, and no picture can."""
    if not math.isfinite(made := float(value)):
        raise ValueError(f"{value!r} is no number")
    return made


def texts(plain: Mapping[str, Any]) -> dict[str, str]:
    return {str(name): str(text) for name, text in plain.items()}
