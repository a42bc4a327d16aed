"""Any function of a narrow integer, as a table: one ROM for each lane."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Shape, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from .stream.credit import CreditCounter
from .stream.pipeline import delay
from .stream.queue import Queue
from .stream.streams import link, stream_of
from .stream.times import StageTimes, Times, in_turn, with_room
from .vendor.base import Resources, Technology
from .vendor.fitted import fitted


class LookupStage(wiring.Component):
    """Every element x of a beat becomes table[x - lowest x].

    Parameters
    ----------
    shape_in, shape_out
        Of the elements.
    table
        int64[2**bits of shape_in], from the lowest input to the highest; entries in the range of `shape_out`.
    lanes
        Of both streams.
    technology, name
        Makes the ROMs; the prefix of their names, unique in the design.

    Latency `latency`; initiation interval 1.  `busy` says that a beat goes in.
    """

    def __init__(self, *, shape_in: Shape, shape_out: Shape, table: npt.NDArray[np.int64], lanes: int,
                 technology: Technology, name: str):
        self.shape_in = Shape.cast(shape_in)
        self.shape_out = Shape.cast(shape_out)
        self.table = np.asarray(table, dtype=np.int64)
        self.lanes = lanes
        self.technology = technology
        self.name = name
        if self.table.shape != (1 << self.shape_in.width,):
            raise ValueError(f"table of lookup '{name}' must have one entry for each of the {1 << self.shape_in.width} "
                             f"values of {self.shape_in!r}, not the shape {self.table.shape}")
        lowest = -1 << (self.shape_out.width - 1) if self.shape_out.signed else 0
        if self.table.min() < lowest or self.table.max() >= lowest + (1 << self.shape_out.width):
            raise ValueError(f"table of lookup '{name}' must have entries in the range of {self.shape_out!r}, not "
                             f"{self.table.min()} to {self.table.max()}")
        super().__init__({"i": In(stream_of(shape_in, lanes)), "o": Out(stream_of(shape_out, lanes)), "busy": Out(1)})

    @property
    def latency(self) -> int:
        """Cycles from a beat at the input to its result at the output."""
        return self.technology.timing.rom + Queue.latency_of(queue_depth(self.technology))

    @staticmethod
    def times(arrivals: Times, technology: Technology, left: Times | None = None) -> StageTimes:
        """When beats are taken and given, for those that come as `arrivals` says; `left`: see `with_room`."""
        depth = queue_depth(technology)
        taken = in_turn(with_room(arrivals, left, depth, back=1))
        return StageTimes((taken,), taken + technology.timing.rom + Queue.latency_of(depth))

    @staticmethod
    def cycles(*, elements: int, lanes: int) -> int:
        """Cycles from frame to frame."""
        return elements // lanes

    @staticmethod
    def cost(*, shape_in: Shape, shape_out: Shape, lanes: int, technology: Technology) -> Resources:
        """RAM exact, LUT and FF estimated."""
        rom = technology.rom_cost(width=Shape.cast(shape_out).width, depth=1 << Shape.cast(shape_in).width,
                                  name="table")
        roms = rom.copies(lanes)
        queue = Queue.cost(width=Shape.cast(shape_out).width * lanes, depth=queue_depth(technology))
        credit = CreditCounter.cost(words=queue_depth(technology))
        return roms + queue + credit + fitted("LookupStage") + Resources(ff=technology.timing.rom)

    def model(self, beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[beats, lanes] to [beats, lanes]."""
        return self.table[np.asarray(beats) + (len(self.table) // 2 if self.shape_in.signed else 0)]

    def contents(self) -> npt.NDArray[np.uint8]:
        """The ROM: its address is the input's bits, so that negative inputs come behind the positive ones."""
        words = np.roll(self.table, -len(self.table) // 2) if self.shape_in.signed else self.table
        octets = words.astype("<i8").view(np.uint8).reshape(len(words), 8)[:, :-(-self.shape_out.width // 8)].copy()
        if self.shape_out.width % 8:
            octets[:, -1] &= (1 << self.shape_out.width % 8) - 1
        return octets

    def elaborate(self, platform):
        m = Module()
        depth = queue_depth(self.technology)
        m.submodules.queue = queue = Queue(shape=data.ArrayLayout(self.shape_out, self.lanes), depth=depth)
        m.submodules.credit = credit = CreditCounter(words=depth, take=1)
        taken = self.i.valid & credit.credit
        m.d.comb += [
            self.i.ready.eq(credit.credit), self.busy.eq(taken), credit.taken.eq(taken),
            credit.given.eq(queue.o.valid & queue.o.ready),
            queue.i.valid.eq(delay(m, taken, self.technology.timing.rom, "valid", reset_less=False)),
        ]
        contents, words = self.contents(), []
        for lane in range(self.lanes):
            m.submodules[f"rom{lane}"] = rom = self.technology.rom(
                width=self.shape_out.width, contents=contents, name=f"{self.name}_table{lane}")
            m.d.comb += rom.addr.eq(Value.cast(self.i.payload[lane]))
            words.append(rom.data)
        m.d.comb += Value.cast(queue.i.payload).eq(Cat(*words))
        link(m, queue.o, wiring.flipped(self.o))
        return m


def queue_depth(technology: Technology) -> int:
    """Words for a beat in every cycle: the ROM, the queue, and the cycle in which the credit comes back."""
    return next(depth for depth in range(2, 64)
                if depth >= technology.timing.rom + Queue.latency_of(depth) + 1)
