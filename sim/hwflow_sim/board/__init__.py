"""A fast simulation of a whole board with its serial line, for tests of the driver and for the proof of a netlist."""

from .compiled import BoardChip, BoardDesign, CompiledBoard, compile_board, netlist_design, rtl_design
from .netlist import Netlist, read_netlist
from .port import LinePort
from .process import LineFacts, SimulatedBoard

__all__ = ["BoardChip", "BoardDesign", "CompiledBoard", "LineFacts", "LinePort", "Netlist", "SimulatedBoard",
           "compile_board", "netlist_design", "read_netlist", "rtl_design"]
