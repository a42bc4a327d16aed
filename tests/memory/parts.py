"""SDRAMs for the tests: a small one whose times are all different, and those of the boards."""

from __future__ import annotations

from dataclasses import replace

from hwflow_rtl.memory import SdramPart, SdramTiming

#: At 100 MHz: t_rc 8, t_ras 5, t_rp 2, t_rcd 3, t_rrd 2, t_rfc 9, t_wr 2, t_mrd 4, t_refi 300 clocks.
TIMING = SdramTiming(
    t_ck=9, t_rc=80, t_ras=45, t_ras_max=20_000, t_rp=20, t_rcd=30, t_rrd=15, t_rfc=90, t_wr=15, t_refi=3000,
    power_up=1000, cas_latency=2, t_mrd_clocks=4, power_up_refreshes=3)
SMALL = SdramPart(name="small", banks=4, rows=64, columns=64, width=16, clock_mhz=100, timing=TIMING)
#: Two banks, bytes, a CAS latency of 3, and a t_rc that is more than t_ras and t_rp.
BYTES = replace(SMALL, name="bytes", banks=2, width=8, columns=128, timing=replace(TIMING, cas_latency=3, t_rc=120))
