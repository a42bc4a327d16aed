"""Is an invariant inductive?  Asked of z3, about the circuit that the invariant was found for.

PDR says "proved" and gives the invariant: sets of states that no run reaches.  That is enough for a proof which does
not depend on the program that found it.  Three formulas have no solution: the first state is in one of the sets; a
step leads into one from outside of all; a state outside of all breaks a claim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Circuit:
    """AND gates and latches, as AIGER numbers them: literal 2 * variable, odd where it is inverted; 0 is false.

    `latches` have their next states, all begin with 0; `gates` maps a literal to its two operands.
    """

    inputs: int
    latches: tuple[int, ...]
    outputs: tuple[int, ...]
    gates: dict[int, tuple[int, int]]

    def latch(self, number: int) -> int:
        """The literal of a latch."""
        return 2 * (self.inputs + number + 1)


def read_aiger(path: Path) -> Circuit:
    """A binary AIGER file whose latches begin with 0 and whose bad states are its outputs."""
    content = path.read_bytes()
    header, _, rest = content.partition(b"\n")
    kind, most, inputs, latches, outputs, gates, *others = header.split()
    if kind != b"aig" or any(int(each) for each in others):
        raise ValueError(f"{path} must be a binary AIGER file with outputs alone, not {header!r}")
    lines = []
    for _ in range(int(latches) + int(outputs)):
        line, _, rest = rest.partition(b"\n")
        lines.append(line.split())
    if any(len(line) > 1 and line[1] != b"0" for line in lines[:int(latches)]):
        raise ValueError(f"{path} must have latches that begin with 0")
    numbers = [int(line[0]) for line in lines]
    found, at = {}, 0
    for number in range(int(gates)):
        literal = 2 * (int(inputs) + int(latches) + number + 1)
        first, at = delta(rest, at)
        second, at = delta(rest, at)
        found[literal] = (literal - first, literal - first - second)
    assert int(most) == int(inputs) + int(latches) + int(gates)
    return Circuit(int(inputs), tuple(numbers[:int(latches)]), tuple(numbers[int(latches):]), found)


def one_bad_state(source: Path, number: int, target: Path) -> None:
    """Copy an AIGER file with one of its bad states alone."""
    header, _, rest = source.read_bytes().partition(b"\n")
    words = header.split()
    latches, outputs, bad = int(words[3]), int(words[4]), int(words[6])
    lines = rest.split(b"\n", latches + outputs + bad)
    first = latches + outputs
    words[6] = b"1"
    target.write_bytes(b"\n".join([b" ".join(words), *lines[:first], lines[first + number], *lines[first + bad:]]))


def delta(content: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, low bits first, and where the next one begins."""
    value, shift = 0, 0
    while content[at] & 0x80:
        value |= (content[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | content[at] << shift, at + 1


def read_invariant(path: Path) -> list[dict[int, bool]]:
    """The sets of states that no run reaches, of ABC's PLA file: for each the latches that it is about."""
    latches: list[int] = []
    sets = []
    for line in path.read_text(encoding="ascii").splitlines():
        words = line.split()
        if line.startswith(".ilb"):
            latches = [int(re.sub(r"\D", "", name)) for name in words[1:]]
        elif line and line[0] in "01-" and words[1:] == ["1"]:
            sets.append({latch: bit == "1" for latch, bit in zip(latches, words[0], strict=True) if bit != "-"})
    return sets


def formulas(circuit: Circuit, invariant: list[dict[int, bool]]) -> str:
    """SMT-LIB: three questions, the answer to each of which must be "unsat"."""
    lines = ["(set-option :produce-models false)", "(set-logic QF_UF)", "(define-fun v0 () Bool false)"]
    sources = circuit.inputs + len(circuit.latches)
    lines += [f"(declare-const v{number + 1} Bool)" for number in range(sources)]
    lines += [f"(define-fun v{gate // 2} () Bool (and {of(first)} {of(second)}))"
              for gate, (first, second) in circuit.gates.items()]
    if any(not any(each.values()) for each in invariant):
        lines.append("(push)\n(check-sat)\n(pop)")  # a set with the first state: the answer is "sat"
    outside = " ".join(f"(not {among(each, circuit.latch)})" for each in invariant)
    lines.append(f"(assert (and true {outside}))")
    nexts = " ".join(among(each, lambda latch: circuit.latches[latch]) for each in invariant)
    lines += [f"(push)\n(assert (or false {nexts}))\n(check-sat)\n(pop)"]
    lines += [f"(push)\n(assert (or false {' '.join(of(output) for output in circuit.outputs)}))\n(check-sat)\n(pop)"]
    return "\n".join(lines) + "\n"


def of(literal: int) -> str:
    return f"(not v{literal // 2})" if literal % 2 else f"v{literal // 2}"


def among(states: dict[int, bool], literal) -> str:
    """A state is in a set of them."""
    return f"(and true {' '.join(of(literal(latch) ^ (not bit)) for latch, bit in states.items())})"
