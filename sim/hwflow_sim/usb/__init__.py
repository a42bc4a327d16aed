"""A USB host for simulated devices: what the specification says a host does, in C++, and its commands in Python."""

from __future__ import annotations

from .bench import Faults, HostFacts, UsbBench, UsbPort, compile_bench
from .enumerate import Device, Enumeration, enumerate_after_reset, enumerate_device

__all__ = ["Device", "Enumeration", "Faults", "HostFacts", "UsbBench", "UsbPort", "compile_bench",
           "enumerate_after_reset", "enumerate_device"]
