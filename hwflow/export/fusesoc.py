"""`--export fusesoc`: a core file (CAPI2) with the network, its weights, its test bench, and a self-test of a board."""

from __future__ import annotations

from collections.abc import Iterable

import yaml

from .network import TOOLS, Example, Files, Network, Port, frames_file, template, tools
from .verilog import bench, connections, joined, table

#: Frames in the ROMs of the self-test: two, so that one in the place of the other is found.
SELFTEST_FRAMES = 2
#: The file of yosys' commands for the self-test.
SCRIPT = "hwflow_selftest.tcl"


def core_name(network: Network) -> str:
    """vendor:library:name:version."""
    return f"hwflow:network:{network.identifier}:{network.version}"


def fusesoc_files(network: Network) -> Files:
    """The core file and all that it names."""
    example = network.example
    board = {} if example is None else selftest(network, example)
    files = {**network.verilog, **network.weights, **network.played, **bench(network), **board,
             **tools(example.scripts if example else {})}
    core = core_file(network, board)
    return {**files, f"{network.identifier}.core": core,
            "README.md": template("fusesoc/README.md.in", name=network.name, board=network.board, tools=TOOLS,
                                  core=core_name(network), table=table(network), frames=network.frames,
                                  example=example_text(network))}


def core_file(network: Network, board: Files) -> bytes:
    """CAPI2: https://fusesoc.readthedocs.io, reference manual, core file."""
    filesets: dict[str, object] = {
        "rtl": {"files": [*listed(network.verilog), *listed(network.weights)]},
        "tb": {"files": [*listed(bench(network)), *listed(network.played)]}}
    targets: dict[str, object] = {
        "default": {"filesets": ["rtl"], "toplevel": "hwflow_axi_stream"},
        **simulations("sim", "the test bench: frames of the golden model, random stalls", ["rtl", "tb"], "hwflow_tb",
                      parameters=["seed", "stall"])}
    example = network.example
    if example is not None:
        pins, bench_file = pins_file(network, example), "hwflow_selftest_tb.v"
        filesets["selftest"] = {"files": listed(name for name in board if name not in (pins, bench_file, SCRIPT))}
        filesets["selftest_tb"] = {"files": listed([bench_file])}
        filesets["board"] = {"files": [{pins: {"file_type": example.pins_type}}, *listed([SCRIPT])]}
        targets |= simulations("sim_selftest", "the self-test, simulated", ["rtl", "selftest", "selftest_tb"],
                               "hwflow_selftest_tb")
        targets["synth"] = {
            "description": f"the self-test for {network.board}: yosys, nextpnr, bitstream",
            "filesets": ["rtl", "selftest", "board"], "toplevel": "hwflow_selftest", "flow": example.flow,
            "flow_options": {"yosys_template": SCRIPT,
                             "nextpnr_options": [*example.device, "--freq", f"{example.mhz:g}", "--report",
                                                 "report.json"]}}
    core = {
        "name": core_name(network), "description": f"{network.name}, a neural network with AXI4-Stream ports",
        "filesets": filesets, "targets": targets, "parameters": {
            "seed": {"datatype": "int", "paramtype": "plusarg", "default": 1, "description": "of the random stalls"},
            "stall": {"datatype": "int", "paramtype": "plusarg", "default": 40,
                      "description": "percent of the cycles in which a port stalls"}}}
    return b"CAPI=2:\n" + yaml.safe_dump(core, sort_keys=False, width=120).encode()


def listed(names: Iterable[str]) -> list[dict[str, object]]:
    """Files of a fileset.  All are copied to where the tools run: there they look for the contents of ROMs, and the
    script of yosys for the Verilog."""
    types = {"v": "verilogSource", "sv": "systemVerilogSource"}
    return [{name: {"file_type": types.get(name.rpartition(".")[2], "user"), "copyto": name}} for name in names]


def simulations(name: str, description: str, filesets: list[str], toplevel: str, **more: object) -> dict[str, object]:
    """Two targets: `name` for Verilator, `name`_icarus for Icarus Verilog."""
    common = {"filesets": filesets, "toplevel": toplevel, "flow": "sim"}
    tools = {"": {"tool": "verilator", "mode": "binary", "verilator_options": ["--timing"]},
             "_icarus": {"tool": "icarus", "iverilog_options": ["-g2012"]}}
    return {f"{name}{suffix}": {"description": f"{description}, with {options['tool']}", **common,
                                "flow_options": options, **more} for suffix, options in tools.items()}


def example_text(network: Network) -> str:
    """The paragraph of the README about the self-test."""
    if network.example is None:
        return f"It has no example for `{network.board}`: that needs an LED, and a flow of edalize for its FPGA."
    return template("fusesoc/example.md.in", board=network.board, core=core_name(network), tools=TOOLS,
                    result=core_name(network).replace(":", "_"), mhz=f"{network.example.mhz:g}").decode().rstrip()


def selftest(network: Network, example: Example) -> Files:
    """The top for the board with its frames, its test bench, its pins and the script of yosys."""
    frames = min(SELFTEST_FRAMES, network.frames)
    lamps = ["passed", "failed"][:example.leds]
    lamps += [f"rounds_{network.outputs[0].prefix}[{k + 14}]" for k in range(len(lamps), example.leds)]
    return {
        "hwflow_selftest_ports.v": template("fusesoc/hwflow_selftest_ports.v"),
        "hwflow_selftest.v": template(
            "fusesoc/hwflow_selftest.v.in", board=network.board, mhz=f"{example.mhz:g}", frames=frames,
            last_led=example.leds - 1, wires="".join(map(wires, network.ports)),
            wrong="".join(f" || wrong_{port.prefix}" for port in network.outputs),
            rounds=" && ".join(f"rounds_{port.prefix} != 0" for port in network.outputs),
            led=f"{'~' if example.active_low else ''}{{{', '.join(reversed(lamps))}}}",
            ends="".join(end(port, frames) for port in network.ports),
            connections="\n".join(connections(port) for port in network.ports)),
        **{selftest_file(port): first_lines(network.played[frames_file(port)], frames * port.beats)
           for port in network.ports},
        "hwflow_selftest_tb.v": template(
            "fusesoc/hwflow_selftest_tb.v.in", frames=frames, last_led=example.leds - 1,
            first=network.outputs[0].prefix, on=f"1'b{0 if example.active_low else 1}",
            patience=20 * frames * (network.interval + max(network.latency)) + 10_000),
        pins_file(network, example): example.pins.encode(),
        SCRIPT: script(network, example)}


def pins_file(network: Network, example: Example) -> str:
    return f"{network.board}.{example.pins_type.lower()}"


def selftest_file(port: Port) -> str:
    """The name of the file with the frames of a port."""
    return f"hwflow_selftest_{port.prefix}.hex"


def first_lines(contents: bytes, count: int) -> bytes:
    return b"".join(contents.splitlines(keepends=True)[:count])


def wires(port: Port) -> str:
    ready = "" if port.prefix.startswith("s") else " = 1'b1"
    more = f"    wire wrong_{port.prefix};\n    wire [31:0] rounds_{port.prefix};\n" if ready else ""
    return (f"    wire [{port.tdata_bits - 1}:0] {port.prefix}_tdata;\n"
            f"    wire {port.prefix}_tvalid, {port.prefix}_tlast;\n    wire {port.prefix}_tready{ready};\n{more}")


def end(port: Port, frames: int) -> str:
    """The player or checker of a port."""
    player = port.prefix.startswith("s")
    beats = frames * port.beats
    parameters = {"BITS": port.tdata_bits, "BEATS": port.beats, "FRAMES": frames,
                  "ADDR": max(1, (beats - 1).bit_length()), "FILE": f'"{selftest_file(port)}"'}
    names = ("tdata", "tvalid", "tlast", *(("tready",) if player else ()))
    signals = {"clk": "clk", "reset": "reset", **{name: f"{port.prefix}_{name}" for name in names},
               **{name: f"{name}_{port.prefix}" for name in (() if player else ("wrong", "rounds"))}}
    return (f"    hwflow_selftest_{'player' if player else 'checker'} #(\n        {joined(parameters)}\n"
            f"    ) end_{port.prefix} (\n        {joined(signals)}\n    );\n\n")


def script(network: Network, example: Example) -> bytes:
    """yosys' commands, in the folder of the run, for edalize's option yosys_template."""
    sources = [*network.verilog, "hwflow_selftest_ports.v", "hwflow_selftest.v"]
    result = f"{core_name(network).replace(':', '_')}.json"
    lines = [*(f"read_verilog {'-sv ' if source.endswith('.sv') else ''}{source}" for source in sources),
             f"{example.synth} -top hwflow_selftest", f"write_json {result}"]
    return "".join(["# Tcl for yosys, and so plain that a yosys without Tcl can read it.\n",
                    *(f"yosys {line}\n" for line in lines)]).encode()
