"""The hardware as files: one Verilog text for simulators and other tools, and the contents of its ROMs."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from amaranth.back.verilog import YosysError
from amaranth.lib.wiring import Component
from hwflow_base.errors import HwflowError, ToolFailed
from hwflow_base.files.cache import cached_step, digest
from hwflow_base.files.target import write_atomically
from hwflow_rtl.emit import emit, for_any_tool
from hwflow_rtl.io import AxiStreamTop
from hwflow_rtl.vendor import Generic, Technology
from hwflow_sim.packing import ROM_MODULE, hex_text, write_roms

from .. import golden, hls
from ..export import Example, Network, Port, frames_file
from ..facts.plan import port_facts
from ..host.elements import to_bytes
from ..layers.base import LayerGraph
from ..layers.formats import IntArray, Tensor
from ..synth import Board, ends_of
from ..synth.design import Design
from ..synth.families import FAMILIES
from .stimuli import Frames

#: Shows what is done meanwhile.
Step = Callable[[str], AbstractContextManager[object]]

#: The top module of every design.
TOP = "hwflow_core"
#: The same with AXI4-Stream ports, on demand.
AXI_STREAM = "hwflow_axi_stream"
#: What Verilator says of the expressions that yosys writes; in a design of somebody else it would be an error.
LINT = ("WIDTHEXPAND", "WIDTHTRUNC", "ASCRANGE")


def simulation_technology(plan: hls.Plan) -> Generic:
    """Portable hardware with the choices and latencies of the plan's device, which may lack parts of its family."""
    return Generic(timing=plan.timing, hex_roms=True, like=copied(plan.device))


def copied(device: Technology) -> Technology | None:
    """The device that portable hardware imitates in place of `device`."""
    return device.like if isinstance(device, Generic) else device


def write_rtl(graph: LayerGraph, plan: hls.Plan, folder: Path) -> None:
    """Write `hwflow_core.v`, the module of its ROMs, and a hex file for each ROM, into `folder`."""
    technology = simulation_technology(plan)
    (folder / f"{TOP}.v").write_text(verilog_of(hls.lower(graph, plan, technology), TOP))
    shutil.copyfile(ROM_MODULE, folder / ROM_MODULE.name)
    write_roms(technology.roms, folder)


def write_axi_stream(graph: LayerGraph, plan: hls.Plan, folder: Path) -> None:
    """Write `hwflow_axi_stream.v` into `folder`: the whole design with AXI4-Stream ports (docs/embedding.md).

    It wants the module of the ROMs and their files, which `write_rtl` makes of the same graph and plan, and not
    `hwflow_core.v`.  HwflowError where weights come from a memory outside, which this top does not have.
    """
    if plan.streams:
        raise HwflowError(
            f"a design with AXI4-Stream ports must have its weights inside, not those of {plan.streams[0].stage} in a "
            "memory outside", "set weight_rows to 0 in plan.yaml, or feed the streams weights0, ... of hwflow_core.v")
    top = AxiStreamTop(core=hls.lower(graph, plan, simulation_technology(plan)), ends=ends_of(plan))
    off, on = ("".join(f"/* verilator lint_{word} {warning} */\n" for warning in LINT) for word in ("off", "on"))
    (folder / f"{AXI_STREAM}.v").write_text(f"{off}{verilog_of(top, AXI_STREAM)}{on}")


def verilog_of(component: Component, name: str) -> str:
    """Its text.  ToolFailed with what yosys says."""
    try:
        return for_any_tool(emit(component, name=name))
    except YosysError as error:
        reason = str(error).strip().splitlines()[-1:]
        raise ToolFailed(f"Amaranth's own yosys could not write the Verilog: {' '.join(reason)}") from None


def generate(graph: LayerGraph, plan: hls.Plan, folder: Path, key: str, step: Step) -> Path:
    """Write what `write_rtl` makes into `folder`/rtl, unless it is there; `key` says where the graph comes from."""
    def make(place: Path) -> None:
        with step("generate Verilog"):
            write_rtl(graph, plan, place)

    cached_step(folder / "rtl", key_of(plan, key), make)
    return folder / "rtl"


def generate_axi_stream(graph: LayerGraph, plan: hls.Plan, folder: Path, key: str, step: Step) -> Path:
    """Write what `write_axi_stream` makes into `folder`/rtl; it is gone with what `generate` made."""
    name = f"{AXI_STREAM}.v"

    def make(place: Path) -> None:
        with step("generate Verilog with AXI4-Stream ports"):
            write_axi_stream(graph, plan, place)

    cached_step(folder / "axi_stream", key_of(plan, key), make)
    write_atomically(folder / "rtl" / name, (folder / "axi_stream" / name).read_text())
    return folder / "rtl" / name


def key_of(plan: hls.Plan, key: str) -> str:
    return digest(key, hls.plan_to_yaml(plan), repr(plan.timing))


# From a plan and its Verilog to the `Network` that is written for other people's designs.


def network_of(design: Design, rtl: Path, frames: Mapping[str, Frames], name: str) -> Network:
    """The network in `rtl`, which `generate_axi_stream` filled, with `frames` by input and what they become."""
    graph, plan, board = design.graph, design.plan, design.board
    ports = [port_of(fact) for fact in port_facts(graph, plan)]
    inputs, outputs = tuple(ports[:len(graph.inputs)]), tuple(ports[len(graph.inputs):])
    values = {**frames, **golden.run(graph, dict(frames), keep=False)}
    played = {frames_file(port): beats(values[port.tensor], graph.tensors[port.tensor], port) for port in ports}
    verilog = {file.name: file.read_bytes() for file in (rtl / ROM_MODULE.name, rtl / f"{AXI_STREAM}.v")}
    weights = {file.name: file.read_bytes() for file in sorted(rtl.glob("*.hex"))}
    return Network(
        name=name, version=version("hwflow"), board=board.name, device=board.device,
        example=example_of(board), inputs=inputs, outputs=outputs,
        interval=plan.interval, latency=plan.latency, frames=len(next(iter(frames.values()))), verilog=verilog,
        weights=weights, played=played)


def example_of(board: Board) -> Example | None:
    """How the network shows itself on `board`; None where the board has no LED, or its family no flow of edalize."""
    family = FAMILIES[board.family]
    if family.edalize is None or not board.leds:
        return None
    ports = {"clk": board.clock, **{f"led[{k}]": pin for k, pin in enumerate(board.leds)}}
    pins = "".join([*(family.pin_constraint(port, pin) for port, pin in ports.items()),
                    family.clock_constraint("clk", board.clock_mhz)])
    scripts = {name: program.script for name, program in family.programs.items()}
    return Example(mhz=board.clock_mhz, leds=len(board.leds), active_low=board.leds_active_low,
                   flow=family.edalize.flow, synth=family.edalize.synth, device=tuple(family.device_arguments(board)),
                   pins=pins, pins_type=family.edalize.constraints, scripts=scripts)


def port_of(fact: Mapping[str, Any]) -> Port:
    """A port from the facts that the command prints."""
    same = {name: fact[name] for name in ("tensor", "frame", "format", "scale", "zero_point", "tdata_bits")}
    return Port(prefix=fact["port"], beats=fact["beats_of_frame"], **same)


def beats(values: IntArray, tensor: Tensor, port: Port) -> bytes:
    """Frames [n, height, width, channels] for `$readmemh`, one beat a line."""
    return hex_text(to_bytes(values, tensor.format).reshape(-1, port.tdata_bits // 8)).encode()
