"""QSPI flashes for the tests: small ones that differ in what controllers must do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwflow_rtl.memory import FlashPart, FlashTiming
from hwflow_rtl.vendor.pads import PadTiming

#: At 50 MHz a clock is 20 ns: t_shsl 4, t_res1 150 clocks.
TIMING = FlashTiming(t_c=10, t_slch=4, t_chsh=5, t_shsl=70, t_clqv=7, t_res1=3000)
PADS = PadTiming(out_max=5, out_min=2, setup=3, hold=1, source="made up")
#: Four lines, continuous read mode.
QUAD = FlashPart(name="quad", bytes=1 << 18, offset=1 << 16, lines=4, command=0xEB, mode=0xA0, dummy_clocks=4,
                 jedec_ids=(0xEF7018,), clock_mhz=50, timing=TIMING, pads=PADS)
#: Without continuous read mode, and more dummies; either of two chips.
PLAIN = replace(QUAD, name="plain", mode=0xF0, dummy_clocks=5, jedec_ids=(0xEF4018, 0xEF7018))
DUAL = replace(QUAD, name="dual", lines=2, command=0xBB, mode=0xFF, dummy_clocks=0)
#: Continuous on two lines.
DUAL_CONTINUOUS = replace(DUAL, name="dual continuous", mode=0xA0, dummy_clocks=1)
PARTS = (QUAD, PLAIN, *(pytest.param(part, marks=pytest.mark.slow) for part in (DUAL, DUAL_CONTINUOUS)))
