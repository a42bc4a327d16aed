"""Is a bit without effect?  Asked of ABC, about the circuit of `side_by_side`, for all inputs and all cycles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from hwflow_sim.cells import CellModels

from hwflow.synth.yosys_json import Cell, Module
from proofs.certificate import Circuit, read_aiger
from proofs.methods import abc_files
from proofs.programs import Clock, OutOfTime, Programs, find_programs

from .merged_netlists import can_merge, meaning_of, merged, without_circles
from .side_by_side import BLOCKS, NotComparable, flat, make_circuit

#: Equal registers of both copies become one (scorr), and for what is left an invariant is looked for (PDR).
SEARCH = "scorr;write_aiger left.aig;pdr -T {seconds}"
#: Bits from a word to the next in the contents of a memory, as the models of cells take them.
WORD_BITS = {"SB_RAM40_4K": 16, "DP16KD": 20, "pROM": 32, "SDPB": 32, "pROMX9": 36, "SDPX9B": 36}
INPUT = re.compile(r"input (\d+) (\d+) (\w+)")


class Word(NamedTuple):
    """Bits of a word of the contents of a memory: cell, number of the word, and a one for each bit that is turned."""

    cell: str
    word: int
    bits: int


def proofs_of(base: Module, others: Mapping[int, Module], models: CellModels, folder: Path, seconds: float
              ) -> dict[int, str]:
    """How it is proved that netlists do what `base` does, of those of which it is; each is tried for `seconds`."""
    words = {number: word for number, other in others.items() if (word := turned_word(base, other, models))}
    logic = {number: other for number, other in others.items() if number not in words and of_logic(base, other)}
    if not words and not logic:
        return {}
    programs, found = find_programs(), dict[int, str]()
    for count, chosen in enumerate([*without_circles(base, logic), *([{}] if words else [])]):
        place = folder / str(count)
        try:
            memories = make_circuit(flat(merged(base, chosen), models, place, programs), place, programs)
        except NotComparable as error:
            print(f"no proofs: {error}")
            continue
        question = Question(place, programs, memories)
        asked = {number: {"pick": 1 << at} for at, number in enumerate(chosen)} or {
            number: question.of_word(word) for number, word in words.items()}
        answers = {number: question.holds(f"netlist{number}", values, seconds) for number, values in asked.items()}
        found |= {number: how for number, how in answers.items() if how}
    return found


def changed_cells(base: Module, other: Module) -> list[str]:
    """The cells of which something is other."""
    (old, _), (new, _) = meaning_of(base), meaning_of(other)
    return [name for name in {**old, **new} if old.get(name) != new.get(name)]


def of_logic(base: Module, other: Module) -> bool:
    """Whether the netlists can be compared: their blocks are the same."""
    cells = [cell for name in changed_cells(base, other) for module in (base, other)
             if (cell := module["cells"].get(name))]
    return can_merge(base, other) and not any(BLOCKS.fullmatch(cell["type"]) for cell in cells)


def turned_word(base: Module, other: Module, models: CellModels) -> Word | None:
    """The word that is other, where nothing else is."""
    names = changed_cells(base, other)
    old, new = (module["cells"].get(names[0]) if len(names) == 1 else None for module in (base, other))
    if not old or not new or old["type"] not in models.blocks or without_contents(old, models) != without_contents(
            new, models) or meaning_of(base)[1] != meaning_of(other)[1]:
        return None
    before, after = contents(old, models), contents(new, models)
    places = [place for place, (one, two) in enumerate(zip(before, after, strict=True)) if one != two]
    width = WORD_BITS[old["type"]]
    words = {place // width for place in places}
    return Word(names[0], words.pop(), sum(1 << place % width for place in places)) if len(words) == 1 else None


def without_contents(cell: Cell, models: CellModels) -> tuple[object, ...]:
    return cell["type"], {pin: len(bits) for pin, bits in cell["connections"].items()}, {
        key: value for key, value in cell["parameters"].items() if not models.contents.fullmatch(key)}


def contents(cell: Cell, models: CellModels) -> str:
    """The bits of a memory, the lowest of the first word first."""
    names = sorted(name for name in cell["parameters"] if models.contents.fullmatch(name))
    return "".join(cell["parameters"][name][::-1] for name in names)


@dataclass(frozen=True)
class Question:
    """The circuit in `folder`, and the inputs that are constants in it."""

    folder: Path
    programs: Programs
    memories: list[str]

    def of_word(self, word: Word) -> dict[str, int]:
        """The inputs that turn it."""
        (at,) = (k for k, name in enumerate(self.memories) if name.partition(".")[0] == word.cell)
        return {"turned": 1 << at, "word": word.word, "bits": word.bits}

    def circuit(self) -> tuple[Circuit, dict[str, list[int]]]:
        """The circuit, and the number of each of its inputs by name and bit."""
        found: dict[str, dict[int, int]] = {}
        for line in (self.folder / "circuit.map").read_text().splitlines():
            if match := INPUT.fullmatch(line):
                found.setdefault(match[3], {})[int(match[2])] = int(match[1])
        return read_aiger(self.folder / "circuit.aig"), {
            name: [bits[k] for k in sorted(bits)] for name, bits in found.items()}

    def holds(self, name: str, values: Mapping[str, int], seconds: float) -> str | None:
        """How it is proved that both copies are the same with these values of inputs, None where it is not."""
        circuit, inputs = self.circuit()
        values = {"turned": 0, "pick": 0, "word": 0, "bits": 0, **values}
        constants = {inputs[port][bit]: value >> bit & 1 for port, value in values.items()
                     for bit in range(len(inputs.get(port, ())))}
        write_aiger(with_constants(circuit, constants), self.folder / f"{name}.aig")
        (self.folder / "left.aig").unlink(missing_ok=True)
        try:
            status = abc_files(self.folder, self.programs, Clock(seconds), [name], SEARCH)
        except OutOfTime:
            return None
        if read_aiger(self.folder / "left.aig").outputs == (0,):
            return "scorr"
        return "scorr, pdr" if status == "snl_UNSAT" else None


def with_constants(circuit: Circuit, constants: Mapping[int, int]) -> Circuit:
    """The circuit with constants where some of its inputs, by their numbers, are taken."""
    def of(literal: int) -> int:
        value = constants.get(literal // 2 - 1)
        return literal if value is None else value ^ literal & 1

    return replace(circuit, latches=tuple(map(of, circuit.latches)), outputs=tuple(map(of, circuit.outputs)),
                   gates={gate: (of(one), of(two)) for gate, (one, two) in circuit.gates.items()})


def write_aiger(circuit: Circuit, path: Path) -> None:
    """A binary AIGER file."""
    sources, gates = circuit.inputs + len(circuit.latches), len(circuit.gates)
    lines = [f"aig {sources + gates} {circuit.inputs} {len(circuit.latches)} {len(circuit.outputs)} {gates}"]
    lines += [str(literal) for literal in (*circuit.latches, *circuit.outputs)]
    content = bytearray("\n".join(lines).encode() + b"\n")
    for gate, operands in circuit.gates.items():
        low, high = sorted(operands)
        for delta in (gate - high, high - low):
            while delta >= 0x80:
                content.append(delta & 0x7F | 0x80)
                delta >>= 7
            content.append(delta)
    path.write_bytes(content)
