"""The board's end of the host link (docs/host-link.md): tokens of a line on one side, bytes of frames on the other."""

from __future__ import annotations

from amaranth.hdl import Module, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ...stream.queue import Queue
from ...stream.streams import BYTE, link, stream_of
from ...vendor.base import Resources, Technology
from ...vendor.fitted import fitted
from .bytes import TOKEN
from .image import DIGEST_BYTES, Beside, FilledImage, MemoryState, SealedImage
from .queues import DataQueue, FastDataQueue, FastResultQueue, ResultQueue
from .receiver import SETTINGS_BYTES, FastReceiver, PacketReceiver
from .sender import FastSender, PacketSender
from .shape import LinkShape

Parts = tuple[type[PacketReceiver], type[DataQueue], type[ResultQueue], type[PacketSender]]
#: The parts of a link on a line with many cycles for a byte, and on one with a byte in each.
SLOW: Parts = (PacketReceiver, DataQueue, ResultQueue, PacketSender)
FAST: Parts = (FastReceiver, FastDataQueue, FastResultQueue, FastSender)


class HostLink(wiring.Component):
    """Packets with a checksum, so that `data` are exactly what the host sent, and the host gets exactly `results`.

    Parameters
    ----------
    shape
        The size of packets and of the two queues.
    technology
        Makes the RAM of the queues and the ROM of the identity.
    identity
        The 8 bytes that name the design.
    bytes_in, bytes_out
        Of all inputs of a frame, and of all outputs.
    memory, image_bytes
        What stands beside the FPGA, and the bytes of the image of weights in it.

    Attributes
    ----------
    i, o : streams of TOKEN
        From the line and to it, as of a `Transport`.  A token that waits at `o` may go, and a packet be cut, at a
        restart: the next flag is `bad` then, and so is every one that opens a packet.
    data : stream of bytes
        For the core.
    results : stream of bytes
        From the core.
    restart, stopped : Out(1), In(1)
        As in `CoreCrossing`; a restart follows also the reset of this itself.
    error : Out(1)
        A pulse: something came that is no packet.

    With a memory to fill also
    filling : Out(1)
        `data` are bytes of an image; changes only while a restart stops them.
    clear, cleared : Out(1), In(1)
        As in `ImageCrossing`.
    complete : In(1)
        All of an image is in the memory.

    With a sealed one also
    digest, state : stream of bytes, In(MemoryState)
        As in `SealedImage`.

    With a line that has settings also
    settings : Out(32)
        What the host wants of the line.
    settings_taken : In(32)
        What the line can have of `settings`, in the same cycle, which is what the host hears.
    settings_changed : Out(1)
        A pulse: the host's answer has been taken at `o`, and the line is to have `settings_taken` of this cycle when
        it is through.  `settings` mean nothing at other times.

    `i` takes a byte in 12 cycles, with a fast shape in each; it must not bring them faster for long.  All of it is in
    one clock domain, which may be another than the core's.
    """

    def __init__(self, *, shape: LinkShape, technology: Technology, identity: bytes, bytes_in: int, bytes_out: int,
                 memory: Beside = Beside.NOTHING, image_bytes: int = 0):
        self.shape = shape
        self.technology = technology
        self.memory = memory
        receiver, data_queue, result_queue, sender = FAST if shape.fast else SLOW
        results = result_queue(shape=shape, frame=bytes_out, technology=technology)
        self.data_queue, self.result_queue = data_queue(shape=shape, technology=technology), results
        self.receiver = receiver(shape=shape, memory=memory)
        self.sender = sender(results=results, identity=identity, bytes_in=bytes_in, technology=technology,
                                   image_bytes=image_bytes)
        super().__init__({
            "i": In(stream.Signature(TOKEN)), "o": Out(stream.Signature(TOKEN)), "data": Out(stream_of(BYTE, 1)),
            "results": In(stream_of(BYTE, 1)), "restart": Out(1, init=1), "stopped": In(1),
            "error": Out(1),
            **({"filling": Out(1), "clear": Out(1), "cleared": In(1), "complete": In(1)}
               if memory is Beside.FILLED else {}),
            **({"digest": In(stream_of(BYTE, 1)), "state": In(MemoryState)} if memory is Beside.SEALED else {}),
            **({"settings": Out(8 * SETTINGS_BYTES), "settings_taken": In(8 * SETTINGS_BYTES),
                "settings_changed": Out(1)} if shape.settings else {})})

    @staticmethod
    def cost(shape: LinkShape, technology: Technology) -> Resources:
        """LUT and FF as synthesized, RAM exact; without a memory beside the FPGA."""
        queue = technology.ram_cost(width=8, depth=shape.room)
        if shape.fast:
            words = technology.timing.ram + 7
            queues = Queue.cost(width=8, depth=words, technology=technology) + Queue.cost(
                width=10, depth=words, technology=technology)
            return fitted("HostLink on a fast line", bits=ceil_log2(shape.room)) + queue + queue + queues
        settings = HostLink.settings_cost() if shape.settings else Resources()
        return fitted("HostLink", bits=ceil_log2(shape.room)) + settings + queue + queue

    @staticmethod
    def settings_cost() -> Resources:
        """Count what it takes more where the host can change settings of the line."""
        return fitted("HostLink with settings")

    @staticmethod
    def memory_cost(technology: Technology, memory: Beside) -> Resources:
        """Count what it takes more with a memory: LUT and FF as synthesized, RAM exact."""
        if memory is Beside.NOTHING:
            return Resources()
        if memory is Beside.FILLED:
            return fitted("HostLink with an image")
        return fitted("HostLink with a sealed image") + technology.ram_cost(width=8, depth=DIGEST_BYTES)

    def elaborate(self, platform):
        m = Module()
        data, results, sender = self.data_queue, self.result_queue, self.sender
        m.submodules.receiver = receiver = self.receiver
        restarting = Signal()
        m.d.comb += restarting.eq(self.restart | self.stopped)
        restarted = ResetInserter(restarting)
        m.submodules.data = restarted(data)
        m.submodules.results = restarted(results)
        m.submodules.sender = restarted(sender)
        link(m, wiring.flipped(self.i), receiver.i)
        link(m, data.o, wiring.flipped(self.data))
        link(m, wiring.flipped(self.results), results.i)
        link(m, sender.o, wiring.flipped(self.o))
        m.d.comb += [
            receiver.room.eq(data.room), data.write.eq(receiver.write),
            data.byte.eq(receiver.byte), data.commit.eq(receiver.commit),
            data.rollback.eq(receiver.rollback), sender.room.eq(data.room),
            receiver.identity_sent.eq(sender.identity_sent), self.restart.eq(receiver.restart),
            receiver.stopped.eq(self.stopped), self.error.eq(receiver.error),
        ]
        for name in ("expected", "wants_status", "repeat", "wants_identity", "sequence", "acknowledged", "acknowledge"):
            m.d.comb += getattr(sender, name).eq(getattr(receiver, name))
        for name in ("free", "slot", "place"):
            m.d.comb += getattr(results, name).eq(getattr(sender, name))
        for name in ("filled", "byte", "length", "last"):
            m.d.comb += getattr(sender, name).eq(getattr(results, name))
        if self.memory is not Beside.NOTHING:
            self.connect_memory(m, receiver)
        if self.shape.settings:
            m.d.comb += [
                self.settings.eq(receiver.settings), sender.settings.eq(self.settings_taken),
                sender.wants_settings.eq(receiver.wants_settings), receiver.settings_sent.eq(sender.settings_sent),
                self.settings_changed.eq(sender.settings_sent)]
        return m

    def connect_memory(self, m: Module, receiver: PacketReceiver) -> None:
        """Connect what packets say of the memory, and what is known of it."""
        sender = self.sender
        image: FilledImage | SealedImage
        if self.memory is Beside.FILLED:
            m.submodules.image = image = FilledImage()
            m.d.comb += [
                self.filling.eq(receiver.image.filling), image.complete.eq(self.complete),
                self.clear.eq(receiver.clear), receiver.cleared.eq(self.cleared)]
        else:
            m.submodules.image = image = SealedImage(technology=self.technology, fast=self.shape.fast)
            wiring.connect(m, wiring.flipped(self.digest), image.digest)
            m.d.comb += image.state.eq(self.state)
        wiring.connect(m, receiver.image, image.packets)
        wiring.connect(m, image.contents, sender.image)
        m.d.comb += [sender.wants_memory.eq(receiver.wants_memory), receiver.memory_sent.eq(sender.memory_sent)]
