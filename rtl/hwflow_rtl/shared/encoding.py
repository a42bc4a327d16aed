"""The bits of a program: for each step the fields that the sequencer and the other parts need, in a ROM.

A step is read in chunks of `CHUNK` bits through a shift register whose slices are the fields.  A field has as many bits
as its values in this program need; a field that is the same in every step has none.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Const, Shape, Value

from ..rescale.ranges import signed_width
from .program import Program
from .steps import Compute, Fill, Load, Operation, Step, jumps

#: Bits of a word of the ROM.
CHUNK = 16
#: The loops of a step, innermost first; those of its writes.
LOOPS = ("words", "inner", "outer", "width", "height", "tiles")
WRITE_LOOPS = ("width", "height", "tiles")


class Kind:
    """Values of the field `kind`."""

    COMPUTE, LOAD, STORE, FILL = range(4)


def loop_fields(**counts: int) -> dict[str, int]:
    """The reload values of the loops' counters, which count down to -1."""
    return {f"count_{name}": counts.get(name, 1) - 2 for name in LOOPS}


def compute_fields(step: Compute, pause: int) -> dict[str, int]:
    loops, place, way, output = step.loops, step.padding, step.weighting, step.output
    reads, writes = step.read_jumps, step.write_jumps
    rows = jumps({"width": (1, 0), "outer": (loops.outer, place.outer_rows), "inner": (loops.inner, place.inner_rows)})
    columns = jumps({"width": (1, place.column_stride), "outer": (loops.outer, place.outer_columns),
                     "inner": (loops.inner, place.inner_columns)})
    return {
        "kind": Kind.COMPUTE, "maximum": int(step.operation is Operation.MAXIMUM), "digits": int(way.digits),
        "repeated": int(way.repeated), "in_parts": int(way.in_parts), "part": step.part, "pause": pause,
        "read_base": step.read.base, "write_base": step.write.base,
        "slides": int(way.slides), "product": int(step.operation is Operation.PRODUCT),
        "looks_up": int(output.table is not None), "table": output.table or 0,
        "byte": 0 if output.byte is None else output.byte + 1,
        **loop_fields(**loops.counts), "count_written": loops.width - 2,
        **{f"read_{name}": reads[name] if loops.counts[name] > 1 else 0 for name in LOOPS[1:]},
        **{f"write_{name}": writes[name] if getattr(loops, name) > 1 else 0 for name in WRITE_LOOPS},
        "first_row": place.first_row, "first_column": place.first_column,
        **{f"row_{name}": jump for name, jump in rows.items()}, "row_height": place.row_stride + rows["width"],
        **{f"column_{name}": jump for name, jump in columns.items()},
        "frame_height": place.frame_height, "frame_width": place.frame_width, "pad": place.pad,
        "zero_point": output.zero_point, "low": output.low, "high": output.high,
    }


@dataclass(frozen=True, eq=False)
class Encoding:
    """The encoding of one program."""

    program: Program

    @cached_property
    def rows(self) -> list[dict[str, int]]:
        """The fields of each step.  A store has the loops of its reads.

        The words that are written in a row have a count of their own only where a row has other blocks too.
        """
        rows = [self.row(step) for step in self.program.steps]
        if not any(isinstance(step, Compute) and step.loops.lead for step in self.program.steps):
            for row in rows:
                row.pop("count_written", None)
        opens = self.program.opens
        return rows if opens is None else [{**row, "opens": int(k == opens)} for k, row in enumerate(rows)]

    def row(self, step: Step) -> dict[str, int]:
        shape = self.program.shape
        if isinstance(step, Compute):
            return compute_fields(step, shape.period(step) - shape.cycles(step))
        if isinstance(step, Load):
            return {"kind": Kind.LOAD, "port": step.port}
        if isinstance(step, Fill):
            return {"kind": Kind.FILL, "write_base": step.base, "write_width": 1, "pad": step.value or 0,
                    "image": int(step.value is None), **loop_fields(width=step.words), "count_written": step.words - 2}
        return {"kind": Kind.STORE, "port": step.port, "read_base": step.base,
                **loop_fields(words=step.words(shape.columns))}

    @cached_property
    def fields(self) -> dict[str, tuple[Shape, list[int]]]:
        """The shape and the values of each field.  Where a step does not use one, it has that of the step before."""
        names = dict.fromkeys(name for row in self.rows for name in row)
        fields = {}
        for name in names:
            used = [row[name] for row in self.rows if name in row]
            values, last = [], used[0]
            for row in self.rows:
                last = row.get(name, last)
                values.append(last)
            least, most = min(values), max(values)
            width = signed_width(least, most) if least < 0 else max(1, most.bit_length())
            fields[name] = Shape(width, signed=least < 0), values
        return fields

    @cached_property
    def stored(self) -> dict[str, Shape]:
        """The fields that are in the ROM, in order, the first in the lowest bits."""
        return {name: shape for name, (shape, values) in self.fields.items() if len(set(values)) > 1}

    @property
    def bits(self) -> int:
        return sum(shape.width for shape in self.stored.values())

    @property
    def chunks(self) -> int:
        """Words of the ROM for a step."""
        return max(1, -(-self.bits // CHUNK))

    def rom(self) -> npt.NDArray[np.uint8]:
        """uint8[steps * chunks, CHUNK / 8]."""
        rows = []
        for k in range(len(self.program.steps)):
            word, place = 0, 0
            for name, shape in self.stored.items():
                word |= (self.fields[name][1][k] & ((1 << shape.width) - 1)) << place
                place += shape.width
            rows.append(np.frombuffer(word.to_bytes(self.chunks * CHUNK // 8, "little"), np.uint8))
        return np.concatenate(rows).reshape(-1, CHUNK // 8)

    def values(self, register: Value) -> dict[str, Value]:
        """The fields of the step whose bits are in `register`."""
        parts: dict[str, Value] = {}
        place = 0
        for name, (shape, values) in self.fields.items():
            if name not in self.stored:
                parts[name] = Const(values[0], shape)
                continue
            bits = register[place:place + shape.width]
            parts[name] = bits.as_signed() if shape.signed else bits
            place += shape.width
        return parts


