"""What helps the proofs of the reader of a QSPI flash: the chip is where the reader was two clocks ago."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Array, C, Cat, Mux, ResetSignal, Signal, Value
from hwflow_rtl.memory.flash import FlashController, Step, start_steps

from .flash_chip import IDENTIFY, READ_STATUS, WRITE_STATUS, Chip, Phase
from .scene import Inside, Scene

#: The states of a reader in which chip select is low.
SELECTED = ("START", "COMMAND", "ADDRESS", "DUMMY", "DATA")


class Reader:
    """The state of a `FlashController`: now, or some clocks ago (`before`).

    Attributes
    ----------
    done
        Clocks of a command, an address or dummies that were given before this one.
    waited
        Clocks of a pause that are over.
    """

    def __init__(self, part: Any, names: Sequence[str], signals: dict[str, Value]):
        self.part, self.names, self.signals = part, names, signals
        self.state, self.step, self.count, self.pause, self.entered, self.initialized = (
            signals[name] for name in ("state", "step", "count", "pause", "entered", "initialized"))
        steps, clocks = start_steps(part), part.clocks
        longest = max(clocks.release, clocks.deselect)
        rests = Array([longest, *(each.rest for each in steps[:-1]), clocks.deselect, clocks.deselect])
        self.waited = (rests[self.step] - 1 - self.pause)[:len(self.pause)]
        many = Array([*(each.clocks for each in steps), 1, 1])[self.step]
        for name, clocks in (("COMMAND", 8), ("ADDRESS", 32 // part.lines), ("DUMMY", part.dummy_clocks)):
            many = Mux(self.at(name), clocks, many)
        self.done = (many - 1 - self.count)[:len(self.count)]

    @staticmethod
    def now(unit: FlashController, inside: Inside) -> Reader:
        state = inside.signal("fsm_state")
        names = [state._decoder(number).partition("/")[0] for number in range(1 << len(state))]
        return Reader(unit.part, names, {
            "state": state, "step": inside.signal("step"), "count": unit.count, "pause": unit.pause,
            "entered": inside.signal("entered"), "initialized": Value.cast(unit.initialized)})

    def before(self, s: Scene, number: int) -> Reader:
        """The same a clock ago; the state of the clock before a reset is that of a reader that was always reset."""
        longest = max(self.part.clocks.release, self.part.clocks.deselect)
        later = {}
        for name, value in self.signals.items():
            later[name] = Signal(len(value), init=longest - 1 if name == "pause" else 0, reset_less=number > 1,
                                 name=f"{name}_{number}_ago")
            s.m.d.sync += later[name].eq(value)
        return Reader(self.part, self.names, later)

    def at(self, *states: str) -> Value:
        """It is in one of these states."""
        return Cat(self.state == self.names.index(each) for each in states if each in self.names).any()


def steps_say(reader: Reader, of: Any) -> Value:
    """The number that `of` gives for the step that is done."""
    values = [of(each) for each in start_steps(reader.part)]
    return Array([*values, values[-1], values[-1]])[reader.step]


def walks_with_the_chip(s: Scene, unit: FlashController, inside: Inside, chip: Chip) -> None:
    """What is true of both, so that the claims about the chip are inductive."""
    now = Reader.now(unit, inside)
    later = now.before(s, 1)
    seen = later.before(s, 2)
    follows(s, now, later, "now")
    follows(s, later, seen, "later")
    was_reset = Signal(reset_less=True, name="was_reset")
    s.m.d.sync += was_reset.eq(ResetSignal("sync"))
    s.claim("steps", now.step <= len(start_steps(unit.part)))
    s.claim("pauses", ~now.at("PAUSE") | (now.waited < steps_pause(now)))
    s.claim("first", ~chip.first | (now.at("PAUSE") & (now.step == 0) & seen.at("PAUSE") & (seen.step == 0)))
    s.claim("selects", ~chip.high == seen.at(*SELECTED))
    s.claim("clocks", (seen.at("START", "COMMAND", "ADDRESS", "DUMMY") & ~was_reset) <= chip.rises)
    s.claim("clocks_no_more", ~chip.rises | seen.at(*SELECTED))
    time_is_over(s, seen, chip)
    start_is_at(s, now, seen, chip, unit)
    read_is_at(s, now, seen, chip, unit, inside)


def follows(s: Scene, new: Reader, old: Reader, name: str) -> None:
    """A clock of a pause or of a step is behind the one before it."""
    pause, start, waited, done = new.at("PAUSE"), new.at("START"), new.waited, new.done
    same = old.step == new.step
    s.claim(f"{name}_pauses", ~pause | (waited == 0) | (old.at("PAUSE") & same & (waited == old.waited + 1)))
    s.claim(f"{name}_begins_to_pause", ~pause | (waited != 0) | (new.step == 0) | Mux(
        new.initialized, old.at("DATA"), old.at("START") & (new.step == old.step + 1) & (old.count == 0)))
    s.claim(f"{name}_starts", ~start | Mux(done == 0, old.at("PAUSE") & (old.pause == 0), old.at("START") & (
        done == old.done + 1)) & same)


def steps_pause(reader: Reader) -> Value:
    """The clocks of the pause that it is in."""
    clocks = reader.part.clocks
    longest = max(clocks.release, clocks.deselect)
    rests = [each.rest for each in start_steps(reader.part)]
    return Array([longest, *rests, clocks.deselect])[reader.step]


def time_is_over(s: Scene, seen: Reader, chip: Chip) -> None:
    """Chip select has been high for as long as the pause lasted."""
    select, release = chip.since["select"], chip.since["release"]
    waits = seen.at("PAUSE") & (seen.waited != 0)
    s.claim("forgets", ~(chip.high & chip.was_high) | ~chip.floating)
    s.claim("deselected", ~chip.ends | (seen.at("PAUSE") & (seen.waited == 0)))
    s.claim("waited", ~waits | (select >= 2 * seen.waited) | (select >= chip.needs["t_shsl"]))
    s.claim("waited_enough", ~seen.at("IDLE", "FAILED") | (select >= chip.needs["t_shsl"]))
    wakes = seen.at("PAUSE") & ((seen.step == 0) | (seen.step == 2))
    awake = release >= chip.needs["t_res1"]
    s.claim("released", Mux(wakes, (seen.waited == 0) | awake | (release >= 2 * seen.waited), awake))


def start_is_at(s: Scene, now: Reader, seen: Reader, chip: Chip, unit: FlashController) -> None:
    """Of a step the chip has had as many bits as the reader gave, and of all steps before what they do."""
    part, lines = unit.part, unit.part.lines
    send_now, send = (steps_say(each, lambda step: step.send) for each in (now, seen))
    s.claim("shifted", ~now.at("START") | (unit.shift == ((send_now << 16) << now.done)[:32]))
    in_start, done, first = seen.at("START"), seen.done, seen.step == 0
    s.claim("start_counts", ~now.at("START") | ((now.count < steps_say(now, lambda step: step.clocks)) & (
        now.step < len(start_steps(part)))))
    plain = chip.phase == Mux(done < 8, Phase.COMMAND, Mux(first, Phase.DONE, steps_say(seen, phase_behind)))
    plain &= (chip.clocks == Mux(done < 8, done, done - 8)) & ~chip.continuous
    plain &= ((done < 8) | (chip.command == send >> 8))
    bits = Mux(done < 8, done, (done - 8)[:5])
    plain &= ((chip.octet ^ (send << done)[16:24]) & ((C(1, 1) << bits) - 1))[:8] == 0
    address = 24 // lines
    left = first & (chip.phase == Mux(done < address, Phase.ADDRESS, Phase.MODE)) & (
        chip.clocks == Mux(done < address, done, done - address)) & (
        chip.continuous == (done < address + 4 // lines)) & (chip.floating == (done != 0))
    s.claim("starts", ~in_start | plain | left)
    s.claim("says", ~in_start | ((chip.drives == (0b1101 & ((1 << lines) - 1))) & (
        chip.out[0] == (send << done)[15]) & (chip.out[2:].all())))
    behind = seen.at(*SELECTED, "IDLE", "PAUSE") & ~(seen.at("PAUSE") & (seen.waited == 0))
    s.claim("woke_up", ~behind | (seen.step < 2) | ~chip.asleep)
    s.claim("left_continuous", ~behind | (seen.step == 0) | seen.initialized | ~chip.continuous)
    if lines == 4:
        s.claim("enabled", ~behind | (seen.step != 4) | chip.volatile)


def phase_behind(step: Step) -> Any:
    """Where the chip is behind the eight bits of a step."""
    return {IDENTIFY: Phase.ANSWER, READ_STATUS: Phase.ANSWER, WRITE_STATUS: Phase.STATUS}.get(
        step.send >> 8, Phase.DONE)


def read_is_at(s: Scene, now: Reader, seen: Reader, chip: Chip, unit: FlashController, inside: Inside) -> None:
    """Of a read as well; the chip is in continuous read mode where the reader believes so, and may be asked on all
    lines."""
    part, lines = unit.part, unit.part.lines
    steps, address, reads = len(start_steps(part)), 24 // lines, ("COMMAND", "ADDRESS", "DUMMY", "DATA")
    command = C(part.command, 8)
    phase, done, continuous = chip.phase, seen.done, chip.continuous
    for each, name in ((now, "now"), (seen, "seen")):
        s.claim(f"starts_first_{name}", ~each.at(*reads, "IDLE") | (each.initialized & (each.step == steps)))
        s.claim(f"counts_{name}", each.at("PAUSE", "IDLE", "START", "DATA", "FAILED") | (each.done <= Mux(
            each.at("COMMAND"), 7, Mux(each.at("DUMMY"), max(part.dummy_clocks, 1) - 1, 32 // lines - 1))))
    s.claim("initialized_in_a_pause", ~now.initialized | now.at(*reads, "IDLE", "PAUSE"))
    s.claim("initialized_behind_all", ~now.initialized | (now.step == steps))
    s.claim("enters", ~now.entered | (now.initialized & bool(part.continuous)))
    s.claim("enters_first", ~now.at("COMMAND") | ~now.entered)
    if part.continuous:
        s.claim("has_entered", ~now.at("DUMMY", "DATA") | now.entered)
    quiet = seen.at("IDLE", "DUMMY", "DATA", "COMMAND") | (seen.at("PAUSE") & seen.initialized)
    s.claim("knows_the_mode", ~quiet | (continuous == seen.entered))
    s.claim("command", ~seen.at("COMMAND") | ((phase == Phase.COMMAND) & (chip.clocks == done) & ~chip.floating
            & (((chip.octet ^ (command << done)[8:16]) & ((C(1, 1) << done) - 1))[:8] == 0)
            & (chip.out[0] == (command << done)[7]) & chip.drives[0]))
    s.claim("address", ~seen.at("ADDRESS") | (
        (phase == Mux(done < address, Phase.ADDRESS, Phase.MODE)) & ~chip.floating
        & (chip.clocks == Mux(done < address, done, done - address))
        & (chip.drives == Mux(done < address + 4 // lines, (1 << lines) - 1, 0))
        & (continuous == Mux(done < address + 4 // lines, seen.entered, bool(part.continuous)))))
    s.claim("mode_is_next", ~now.at("COMMAND") | (unit.shift[:8] == part.mode))
    for clocks in range(32 // lines):
        low = min(clocks * lines, 24)
        s.claim(f"mode_comes{clocks}", ~now.at("ADDRESS") | (now.done != clocks) | (
            unit.shift[:low + 8] == (part.mode << clocks * lines) & ((1 << low + 8) - 1)))
        if address <= clocks < address + 4 // lines:
            s.claim(f"mode_is_there{clocks}", ~seen.at("ADDRESS") | (done != clocks) | (
                chip.out == (part.mode << (clocks * lines - 24)) >> (8 - lines) & ((1 << lines) - 1)))
    s.claim("dummies", ~seen.at("DUMMY") | ((phase == Phase.DUMMY) & (chip.clocks == done)))
    s.claim("data", ~seen.at("DATA") | (phase == Phase.READ))
    s.claim("leaves_the_lines", ~seen.at("DUMMY", "DATA", "PAUSE", "IDLE", "FAILED") | ~chip.drives.any())
    s.claim("no_data_floating", ~seen.at("DUMMY", "DATA") | ~chip.floating)
    if lines == 4:
        quad_is_known(s, now, inside, chip, unit)


def quad_is_known(s: Scene, now: Reader, inside: Inside, chip: Chip, unit: FlashController) -> None:
    """The bit QE on its way from the chip to the reader, which looks at it at the end of the last pause."""
    last = now.at("PAUSE") & ~now.initialized & (now.step == len(start_steps(unit.part)))
    s.claim("reads_quad", ~now.initialized | chip.qe)
    s.claim("quad_comes", ~last | (inside.signal("coming") == (C(0b111, 3) << now.waited[:2])[:3]) | (now.waited > 3))
    s.claim("all_came", ~last | (now.waited < 3) | ~inside.signal("coming").any())
    s.claim("quad_is_late", ~last | (now.waited != 1) | (chip.late[1] == chip.qe))
    s.claim("quad_came", ~last | (now.waited != 2) | (unit.came[0] == chip.qe))
    s.claim("quad_is_there", ~last | (now.waited < 3) | (unit.came[1] == chip.qe))
