"""A Raspberry Pi Pico as the host of a board: SPI 0 on GP16 to GP19.

    Pico          board (transports.spi of its file)
    GP18 SCK      sck
    GP19 TX       mosi
    GP16 RX       miso
    GP17 CSn      cs_n
    GND           GND

Put this file and hwflow_link.py onto the Pico, and frames of the model's inputs into frames.bin
(docs/microcontroller.md).
"""

import time

from hwflow_link import Link
from machine import SPI, Pin

#: At most a quarter of the board's clock.
HZ = 3_000_000


class PicoPort:
    """SPI as Link wants it."""

    def __init__(self):
        self.bus = SPI(0, baudrate=HZ, polarity=0, phase=0, sck=Pin(18), mosi=Pin(19), miso=Pin(16))
        self.select = Pin(17, Pin.OUT, value=1)
        self.out, self.came = bytearray(64), bytearray(64)

    def exchange(self, out, wanted):
        """A transfer of `wanted` bytes; 0x7E stands for none."""
        for k in range(wanted):
            self.out[k] = out[k] if k < len(out) else 0x7E
        view = memoryview(self.came)[:wanted]
        self.select(0)
        self.bus.write_readinto(memoryview(self.out)[:wanted], view)
        self.select(1)
        return bytes(view)

    def milliseconds(self):
        return time.ticks_ms()


def main():
    """The results of the frames in frames.bin, one line each, and how many frames there were in a second."""
    board = Link(PicoPort())
    print("design", board.design.hex(), board.bytes_in, "bytes in,", board.bytes_out, "out")
    began, count = time.ticks_ms(), 0
    with open("frames.bin", "rb") as file:
        while frame := file.read(board.bytes_in):
            print(list(board.run(frame)))
            count += 1
    print(1000 * count / time.ticks_diff(time.ticks_ms(), began), "frames/s")


main()
