"""What can be proved to be without effect is, and nothing else: small netlists whose answer is plain."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
from hwflow_base.errors import MissingTool
from hwflow_sim.cells import MODELS

from bench.flip_proofs import Word, proofs_of, turned_word
from bench.merged_netlists import without_circles
from hwflow.synth.yosys_json import Bit, Cell, Module
from proofs.programs import find_programs

ICE40 = MODELS["ice40"]


def cell(kind: str, parameters: dict[str, str], outputs: tuple[str, ...], **pins: Bit | list[Bit]) -> Cell:
    return {"type": kind, "parameters": parameters, "attributes": {},
            "port_directions": {pin: "output" if pin in outputs else "input" for pin in pins},
            "connections": {pin: bits if isinstance(bits, list) else [bits] for pin, bits in pins.items()}}


def table(init: str, out: Bit, *inputs: Bit) -> Cell:
    return cell("SB_LUT4", {"LUT_INIT": init}, ("O",), O=out, **{f"I{k}": bit for k, bit in enumerate(inputs)})


def register(data: Bit, out: Bit) -> Cell:
    return cell("SB_DFF", {}, ("Q",), C=2, D=data, Q=out)


def memory(address: list[Bit], writes: Bit) -> Cell:
    """Word 0 is written with zeros where `writes`; the lowest bit of a word is read at net 30."""
    return cell("SB_RAM40_4K", {f"INIT_{k:X}": "0" * 256 for k in range(16)} | {"READ_MODE": "00", "WRITE_MODE": "00"},
                ("RDATA",), RCLK=2, RCLKE="1", RE="1", WCLK=2, WCLKE="1", WE=writes, RADDR=address, WADDR=["0"] * 11,
                MASK=["0"] * 16, WDATA=["0"] * 16, RDATA=list(range(30, 46)))


def base(address: list[Bit], writes: Bit = "0") -> Module:
    """Two registers with the same input, and whether they differ; a bit of a memory, from the third cycle on."""
    cells = {"one": register(3, 10), "two": register(3, 11), "differ": table("0110", 12, 10, 11),
             "first": register("1", 13), "second": register(13, 14), "third": register(14, 15),
             "memory": memory(address, writes), "late": table("1000", 16, 15, 30)}
    return {"ports": {"clk": {"direction": "input", "bits": [2]}, "a": {"direction": "input", "bits": [3]},
                      "b": {"direction": "output", "bits": [12, 16]}}, "cells": cells, "netnames": {}}


def with_parameter(module: Module, name: str, parameter: str, value: str) -> Module:
    other = copy.deepcopy(module)
    other["cells"][name]["parameters"][parameter] = value
    return other


@pytest.fixture(autouse=True)
def programs() -> None:
    try:
        find_programs()
    except MissingTool as error:
        pytest.skip(str(error))


def test_entries_of_tables(tmp_path: Path) -> None:
    """The two registers are always the same, so two of four entries are never asked for."""
    netlist = base(["0"] * 11)
    others = {number: with_parameter(netlist, "differ", "LUT_INIT", init) for number, init in enumerate((
        "0111", "0100", "0010", "1110"), 1)}
    assert set(proofs_of(netlist, others, ICE40, tmp_path, 60)) == {2, 3}


ZEROS: list[Bit] = ["0"] * 11
LINE = "0" * 255 + "1"


@pytest.mark.parametrize(("address", "writes", "line", "proved"), [
    pytest.param(ZEROS, "0", 0, False, id="read"),
    pytest.param(ZEROS, "0", 1, True, id="another address"),
    pytest.param([*ZEROS[:4], 3, *ZEROS[5:]], "0", 1, False, id="any address"),
    pytest.param(ZEROS, "1", 0, True, id="written before it is read"),
    pytest.param(ZEROS, 3, 0, False, id="perhaps written before it is read")])
def test_words_of_memories(address: list[Bit], writes: Bit, line: int, proved: bool, tmp_path: Path) -> None:
    """Bit 0 of word 0 or 16."""
    netlist = base(address, writes)
    other = with_parameter(netlist, "memory", f"INIT_{line:X}", LINE)
    assert turned_word(netlist, other, ICE40) == Word("memory", 16 * line, 1)
    assert list(proofs_of(netlist, {7: other}, ICE40, tmp_path, 60)) == [7] * proved


def test_words_of_one_memory(tmp_path: Path) -> None:
    """Of three words one is read."""
    netlist = base(ZEROS)
    others = {number: with_parameter(netlist, "memory", name, LINE)
              for number, name in enumerate(("INIT_1", "INIT_0", "INIT_2"))}
    assert set(proofs_of(netlist, others, ICE40, tmp_path, 60)) == {0, 2}


def test_circles_are_kept_apart() -> None:
    """One takes b where the base takes a, the other a where it takes b: each is a chain, both are a circle."""
    netlist = base(ZEROS)
    netlist["cells"] |= {"up": table("10", 20, 10), "down": table("10", 21, 11)}
    first, second, third = (copy.deepcopy(netlist) for _ in range(3))
    first["cells"]["up"]["connections"]["I0"] = [21]
    second["cells"]["down"]["connections"]["I0"] = [20]
    third["cells"]["up"]["connections"]["I0"] = [20]
    assert without_circles(netlist, {1: first, 2: second, 3: third}) == [{1: first}, {2: second}]
