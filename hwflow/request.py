"""What the user asked for: the options of the command line as one object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .onnx.limits import DEFAULT_LIMITS, Limits

__all__ = ["Settings"]


@dataclass(frozen=True)
class Settings:
    """What the user asked for; the command line's help says what each means."""

    model: Path = Path()
    data: Path | None = None
    board: str = "ulx3s_85f"
    plan: Path | None = None
    interval: int | None = None
    logic_multipliers: bool = False
    settings: Path | None = None
    bits: tuple[int, int] | None = None
    hardware_argmax: bool = False
    export: Path | None = None
    accuracy_drop: float | None = None
    search_evaluations: int = 200
    layer_rows: int = 100
    input_shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    build: Path = Path("build")
    frames: int = 10
    stalls: float = 0.4
    seed: int = 1
    seeds: int = 1
    clock: float | str | None = None
    flash: bool = False
    jobs: int | None = None
    reweightable: bool = False
    axi_stream: bool = False
    base: Path | None = None
    waves: bool = False
    netlist: bool = False
    strict: bool = False
    hardware: bool = False
    fits: str | None = None
    svg: Path | None = None
    limits: Limits = DEFAULT_LIMITS
