"""Prove the units of the gateware, and print a table.

    python -m proofs [WORD ...] [--jobs N] [--seconds N] [--folder DIR] [--list]

Exit code 0: all is proved, each within what the table says.  1: something is not, be it that there is a counterexample,
that time was out, or that the environment of a proof is never there.  2: the question was wrong, or a program is
missing.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from hwflow_base.errors import HwflowError

from .catalogue import PROOFS
from .programs import find_programs
from .proof import SECONDS, Outcome, Provable, prove


def chosen(words: list[str]) -> tuple[Provable, ...]:
    """The proofs with a word of `words` in their names; all if there is none.  Raises HwflowError."""
    for word in words:
        if not any(word.lower() in proof.name.lower() for proof in PROOFS):
            raise HwflowError(f"a proof must have {word!r} in its name, and none does", "python -m proofs --list")
    return tuple(proof for proof in PROOFS
                 if not words or any(word.lower() in proof.name.lower() for word in words))


def row(outcome: Outcome) -> str:
    """A line of the table, and where something is not proved what is known of it."""
    answer, proof = outcome.answer, outcome.proof
    line = f"{proof.name:58} {outcome.seconds:6.1f}  {answer.verdict.value} ({answer.how})"
    if answer.broken:
        line += f"\n    {', '.join(answer.broken)}"
    if answer.trace:
        line += f"\n    waves: {answer.trace}"
    return line


def table(proofs: tuple[Provable, ...], folder: Path, jobs: int, seconds: float) -> list[Outcome]:
    """Prove them side by side; a line is printed when its turn comes."""
    programs, outcomes = find_programs(), []
    print(f"{'unit and case':58} {'s':>6}  verdict")
    with ThreadPoolExecutor(jobs) as pool:
        try:
            for outcome in pool.map(lambda proof: prove(proof, folder, programs, seconds), proofs):
                outcomes.append(outcome)
                print(row(outcome), flush=True)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return outcomes


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m proofs", description="Prove the units of the gateware.")
    parser.add_argument("words", nargs="*", metavar="WORD", help="only proofs with this word in their names")
    parser.add_argument("--jobs", type=int, default=2, help="proofs side by side (2)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"time of a proof ({SECONDS})")
    parser.add_argument("--folder", type=Path, default=Path("build/proofs"), help="for models, logs and waves")
    parser.add_argument("--list", action="store_true", help="list the proofs")
    options = parser.parse_args(arguments)
    if options.jobs < 1 or options.seconds <= 0:
        parser.error("--jobs and --seconds must be positive")
    try:
        proofs = chosen(options.words)
        if options.list:
            for proof in proofs:
                print(f"{proof.name:58} {proof.claim}")
            return 0
        outcomes = table(proofs, options.folder.resolve(), options.jobs, options.seconds)
    except HwflowError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    good = [outcome for outcome in outcomes if outcome.answer.verdict.good]
    units = {outcome.proof.unit for outcome in good}
    print(f"\n{len(good)} of {len(outcomes)} proved, of {len(units)} units")
    return 0 if len(good) == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
