"""Is a bit without effect?  Asked of ABC, about the circuit of `side_by_side`, for all inputs and all cycles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from hwflow_sim.cells import CellModels

from hwflow.synth.yosys_json import Cell, Module
from proofs.certificate import Circuit, read_aiger
from proofs.methods import abc_files
from proofs.programs import Clock, OutOfTime, Programs, find_programs

from .merged_netlists import can_merge, meaning_of, merged, without_circles
from .side_by_side import BLOCKS, Memory, NotComparable, flat, make_circuit

#: What is always the same in both copies becomes one: found by simulation, proved by induction over all of it at once.
SEARCH = "scorr;write_aiger left.aig"
#: Bits from a word to the next in the contents of a memory, as the models of cells take them.
WORD_BITS = {"SB_RAM40_4K": 16, "DP16KD": 20, "pROM": 32, "SDPB": 32, "pROMX9": 36, "SDPX9B": 36}
INPUT = re.compile(r"input (\d+) (\d+) (\w+)")


class Word(NamedTuple):
    """Bits of a word of the contents of a memory: cell, number of the word, and a one for each bit that is turned."""

    cell: str
    word: int
    bits: int


def proofs_of(base: Module, others: Mapping[int, Module], models: CellModels, folder: Path, seconds: float
              ) -> Iterator[int]:
    """The numbers of the netlists of which it is proved that they do what `base` does; each search takes at most
    `seconds`."""
    words = {number: word for number, other in others.items() if (word := turned_word(base, other, models))}
    logic = {number: other for number, other in others.items() if number not in words and of_logic(base, other)}
    by_cell: dict[str, list[int]] = {}
    for number, word in words.items():
        by_cell.setdefault(word.cell, []).append(number)
    groups = without_circles(base, logic) or ([{}] if words else [])
    most = max(map(len, by_cell.values()), default=1)
    programs = find_programs()
    for count, group in enumerate(groups):
        place = folder / str(count)
        try:
            memories = make_circuit(flat(merged(base, group), models, place, programs), most, place, programs)
        except NotComparable as error:
            print(f"no proofs: {error}")
            continue
        question = Question(place, programs)
        for at, number in enumerate(group):
            if question.holds(f"netlist{number}", {"pick": 1 << at}, seconds):
                yield number
        if not count:
            for cell, numbers in by_cell.items():
                if any(memory.cell == cell for memory in memories):
                    yield from proved_words(question, memories, {number: words[number] for number in numbers}, most,
                                            seconds)


def proved_words(question: Question, memories: Sequence[Memory], words: Mapping[int, Word], most: int, seconds: float
                 ) -> Iterator[int]:
    """The numbers of `words`, all of one cell, any bits of which are without effect: all of them, else of each half."""
    if question.holds("words", of_words(memories, list(words.values()), most), seconds):
        yield from words
    elif len(words) > 1:
        numbers = sorted(words, key=lambda number: words[number])
        for half in (numbers[:len(numbers) // 2], numbers[len(numbers) // 2:]):
            yield from proved_words(question, memories, {number: words[number] for number in half}, most, seconds)


def of_words(memories: Sequence[Memory], words: Sequence[Word], count: int) -> dict[str, int | None]:
    """The inputs that turn any bits of `words`, all of one cell, in a circuit for `count` of them."""
    at, memory = next((at, memory) for at, memory in enumerate(memories) if memory.cell == words[0].cell)
    places = sum(words[min(k, len(words) - 1)].word << k * memory.abits for k in range(count))
    return {"turned": 1 << at, "words": places, "bits": None}


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
    if len(names) != 1 or meaning_of(base)[1] != meaning_of(other)[1]:
        return None
    (name,) = names
    if not all(name in module["cells"] for module in (base, other)):
        return None
    old, new = base["cells"][name], other["cells"][name]
    if old["type"] not in models.blocks or without_contents(base, name, models) != without_contents(
            other, name, models):
        return None
    width, bits = WORD_BITS[old["type"]], zip(contents(old, models), contents(new, models), strict=True)
    places = [place for place, (one, two) in enumerate(bits) if one != two]
    words = {place // width for place in places}
    return Word(name, words.pop(), sum(1 << place % width for place in places)) if len(words) == 1 else None


def without_contents(module: Module, name: str, models: CellModels) -> object:
    """The meaning of a memory but for its contents."""
    cell = module["cells"][name]
    kept = {key: value for key, value in cell["parameters"].items() if not models.contents.fullmatch(key)}
    return meaning_of({**module, "cells": {**module["cells"], name: {**cell, "parameters": kept}}})[0][name]


def contents(cell: Cell, models: CellModels) -> str:
    """The bits of a memory, the lowest of the first word first."""
    names = sorted(name for name in cell["parameters"] if models.contents.fullmatch(name))
    return "".join(cell["parameters"][name][::-1] for name in names)


@dataclass(frozen=True)
class Question:
    """The circuit in `folder`, and the inputs that are constants in it."""

    folder: Path
    programs: Programs

    def circuit(self) -> tuple[Circuit, dict[str, list[int]]]:
        """The circuit, and the number of each of its inputs by name and bit."""
        found: dict[str, dict[int, int]] = {}
        for line in (self.folder / "circuit.map").read_text().splitlines():
            if match := INPUT.fullmatch(line):
                found.setdefault(match[3], {})[int(match[2])] = int(match[1])
        return read_aiger(self.folder / "circuit.aig"), {
            name: [bits[k] for k in sorted(bits)] for name, bits in found.items()}

    def holds(self, name: str, values: Mapping[str, int | None], seconds: float) -> bool:
        """Whether it is proved that both copies are the same with these values of inputs, None for any."""
        circuit, inputs = self.circuit()
        values = {"turned": 0, "pick": 0, "words": 0, "bits": 0, **values}
        constants = {inputs[port][bit]: value >> bit & 1 for port, value in values.items() if value is not None
                     for bit in range(len(inputs.get(port, ())))}
        write_aiger(with_constants(circuit, constants), self.folder / f"{name}.aig")
        (self.folder / "left.aig").unlink(missing_ok=True)
        try:
            abc_files(self.folder, self.programs, Clock(seconds), [name], SEARCH)
        except OutOfTime:
            return False
        return read_aiger(self.folder / "left.aig").outputs == (0,)


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
