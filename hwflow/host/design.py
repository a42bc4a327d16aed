"""The facts that a driver must know of the design on a board: `identity.json` beside its bitstream, and the integer
model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import HwflowError

from hwflow.host.elements import bytes_in, bytes_out
from hwflow.host.identity import IDENTITY_FILE, DesignFacts, identity_of
from hwflow.quantize import Quantized, load_quantized


@dataclass(frozen=True)
class Design:
    """A design as `hwflow synth` left it in `folder`.

    `facts` is what `identity.json` says, `quantized` the integer model that was made hardware.
    """

    folder: Path
    facts: DesignFacts
    quantized: Quantized


def find_designs(build: Path, model: str | None = None, board: str | None = None
                 ) -> tuple[tuple[Path, DesignFacts], ...]:
    """The designs below `build`, or of one model there, or for one board, the newest first: <model>/<board>/synth, and
    what has got new weights since, <first model>/reweighted/<model>/<board>/synth.  What cannot be read is none.
    """
    designs = []
    places = (f"*/*/synth/{IDENTITY_FILE}", f"*/reweighted/*/*/synth/{IDENTITY_FILE}")
    for path in (path for place in places for path in build.glob(place)):
        if path.parts[-4] != (model or path.parts[-4]) or path.parts[-3] != (board or path.parts[-3]):
            continue
        try:
            designs.append((path.stat().st_mtime, path.parent, DesignFacts.read(path.parent)))
        except (HwflowError, OSError):
            continue
    designs.sort(key=lambda entry: (-entry[0], entry[1]))
    return tuple((folder, facts) for _, folder, facts in designs)


def load_design(folder: Path) -> Design:
    """The design in `folder`.  HwflowError where something is missing, damaged, or was made anew since."""
    facts = DesignFacts.read(folder)
    source = folder / facts.quantized
    quantized = load_quantized(source)
    graph = quantized.graph
    if not facts.is_of(graph) or (
            facts.weights and facts.weights.model != identity_of(graph, facts.foldings, facts.partition)):
        raise HwflowError(
            f"'{source}' must be the integer model of the bitstream in '{folder}' (design {facts.identity.hex()}), "
            "but it has changed since then",
            "run `hwflow synth` again",
        )
    if facts.weights is None and any(folding.weight_rows for folding in facts.foldings):
        raise HwflowError(f"'{folder / IDENTITY_FILE}' must say what the memory beside the FPGA holds, for the design "
                          "has weights there: key 'weights' is missing", "run `hwflow synth` again")
    if (facts.bytes_in, facts.bytes_out) != (bytes_in(graph), bytes_out(graph)):
        raise HwflowError(
            f"'{folder / IDENTITY_FILE}' must give {bytes_in(graph)} bytes in and {bytes_out(graph)} out for a frame, "
            f"not {facts.bytes_in} and {facts.bytes_out}",
            "run `hwflow synth` again",
        )
    return Design(folder, facts, quantized)
