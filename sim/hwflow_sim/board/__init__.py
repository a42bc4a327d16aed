"""A fast simulation of a whole board with its line to the host, for the driver's tests and the proof of a netlist."""

from .compiled import BoardChip, BoardDesign, CompiledBoard, chip_verilog, compile_board, netlist_design, rtl_design
from .lines import Line, RgmiiLine, SpiLine, UartLine, UlpiLine, UsbLine
from .netlist import Netlist, read_netlist
from .network import NetworkPort
from .port import LinePort, RatedPort
from .process import LineFacts, SimulatedBoard

__all__ = [
           "BoardChip",
           "BoardDesign",
           "CompiledBoard",
           "Line",
           "LineFacts",
           "LinePort",
           "Netlist",
           "NetworkPort",
           "RatedPort",
           "RgmiiLine",
           "SimulatedBoard",
           "SpiLine",
           "UartLine",
           "UlpiLine",
           "UsbLine",
           "chip_verilog",
           "compile_board",
           "netlist_design",
           "read_netlist",
           "rtl_design",
]
