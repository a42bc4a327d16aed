"""Lines of simulated boards as drivers of microcontrollers see them: what goes out, and what came at the same time."""

from __future__ import annotations

from hwflow_sim.board import SimulatedBoard

#: Clock cycles of a board in a driver's millisecond: ten times as fast as at 25 MHz, so that waiting is short.
CYCLES_OF_A_MILLISECOND = 2500
FLAG = b"\x7e"


class SpiMaster:
    """Each byte out brings one in."""

    def __init__(self, board: SimulatedBoard) -> None:
        self.board = board

    def exchange(self, out: bytes, wanted: int) -> bytes:
        data = out + FLAG * (wanted - len(out))
        return self.board.exchange(data, len(data))

    def milliseconds(self) -> int:
        return self.board.facts.cycles // CYCLES_OF_A_MILLISECOND


class UartOfAMicrocontroller(SpiMaster):
    """Bytes come when they come; those that do not fit wait."""

    def __init__(self, board: SimulatedBoard) -> None:
        super().__init__(board)
        self.waiting = b""

    def exchange(self, out: bytes, wanted: int) -> bytes:
        byte = self.board.line.byte_cycles
        self.waiting += self.board.wait(out, round(byte * max(len(out), 4)))
        came, self.waiting = self.waiting[:wanted], self.waiting[wanted:]
        return came
