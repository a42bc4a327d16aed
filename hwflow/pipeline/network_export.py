"""From a plan and its Verilog to the `Network` that is written for other people's designs."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hwflow_sim.rom import ROM_MODULE, hex_text

from .. import golden
from ..export import Example, Network, Port, frames_file
from ..facts.plan import port_facts
from ..host.elements import to_bytes
from ..layers.formats import IntArray, Tensor
from ..synth import Board
from ..synth.design import Design
from ..synth.families import FAMILIES
from .stimuli import Frames
from .verilog import AXI_STREAM


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
