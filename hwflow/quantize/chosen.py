"""What quantization chose by itself, and what each choice gained."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gain:
    """A choice, and the signal to noise that it gained on the rows held back, in decibels."""

    choice: str
    decibels: float


@dataclass(frozen=True)
class Chosen:
    """Choices in the order in which they were made, judged on so many `rows` that were held back.

    `decibels` is the signal to noise of what leaves the layers, with all of them.  `omitted` is what was not tried, or
    not for all tensors, because it takes long.
    """

    rows: int
    decibels: float
    gains: tuple[Gain, ...] = ()
    omitted: tuple[str, ...] = ()

    def __str__(self) -> str:
        gains = "; ".join(f"{gain.choice} ({gain.decibels:+.1f} dB)" for gain in self.gains)
        left = f"; not all was tried, because it takes long: {', '.join(self.omitted)}" if self.omitted else ""
        return (f"chosen on {self.rows} rows held back: {gains or 'nothing but the defaults'}; {self.decibels:.1f} dB "
                f"at the outputs{left}")
