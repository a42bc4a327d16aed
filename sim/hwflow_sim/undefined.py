"""Values that nothing defines, in every simulation: what they are is said here alone.

They are random, of the run's seed: a register or a word of RAM without a value when the simulation starts, and what
the Verilog gives as x.  A pin of an instance that is left open would be another one; such a design is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

#: What is an error in every design, besides Verilator's own errors: pins that are left open.
OPEN = ("PINMISSING", "PINCONNECTEMPTY", "PINNOCONNECT")
#: Options of Verilator.  Its other warnings are about the style of Verilog that programs write.
STRICT = ("--x-assign", "unique", "--x-initial", "unique", "-Wno-lint", "-Wno-style", "-Wno-fatal", "-Wno-MULTIDRIVEN",
          *(f"-W{kind}-{name}" for name in OPEN for kind in ("warn", "error")))
#: Verilator's seeds are from 1 to this; with 0 it takes one from the clock.
SEEDS = (1 << 31) - 1


def run_arguments(seed: int, numbers: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """The arguments of a compiled program: undefined values are random, and the `numbers` of models are these, by their
    plusargs."""
    return ("+verilator+rand+reset+2", f"+verilator+seed+{seed % SEEDS or SEEDS}",
            *(f"+{name}={value}" for name, value in (numbers or {}).items()))
