"""Why a run stands still: what every stream and every link did last, and who waits for whom."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waiting:
    """One stream at the moment of a deadlock: `stalled` means valid without ready, otherwise there was no beat."""

    name: str
    beats: int
    expected_beats: int
    last_cycle: int | None
    stalled: bool
    busy: bool

    def __str__(self) -> str:
        if self.stalled:
            state = "valid without ready"
        elif self.beats >= self.expected_beats:
            state = "complete"
        else:
            state = "starves, busy" if self.busy else "starves"
        last = "never moved" if self.last_cycle is None else f"last in cycle {self.last_cycle}"
        return f"{self.name}: {self.beats} of {self.expected_beats} beats, {last}: {state}"


@dataclass(frozen=True)
class LinkState:
    """A link at the end of a run: `waiting` words in its queue, which is made for `capacity` (0: no queue).

    `full_since`: the cycle since which it takes nothing from `source`, None where it does; without a queue it is full
    while a word of the source is not taken.  `empty_since`: the cycle since which it has nothing for `sink`.
    """

    source: str
    sink: str
    capacity: int
    waiting: int
    full_since: int | None
    empty_since: int | None

    @property
    def name(self) -> str:
        return f"{self.source} -> {self.sink}"

    def __str__(self) -> str:
        words = [f"{self.waiting} of {self.capacity} words"] if self.capacity else []
        if self.full_since is not None:
            words.append(f"full since cycle {self.full_since}")
        if self.empty_since is not None:
            words.append(f"empty since cycle {self.empty_since}")
        return f"{self.name}: {', '.join(words) or 'moving'}"


@dataclass(frozen=True)
class Wait:
    """`who` waits for `whom`: for words where the link between them is empty, else for room."""

    who: str
    whom: str
    link: LinkState
    for_room: bool


@dataclass(frozen=True)
class Deadlock:
    """No boundary moved a beat that was due for `idle_cycles` cycles up to `cycle`.

    `streams` are the inputs, the output of every stage, and the outputs of the core as the sinks saw them.
    """

    cycle: int
    idle_cycles: int
    streams: tuple[Waiting, ...]
    links: tuple[LinkState, ...]

    @property
    def last_moved(self) -> Waiting | None:
        """The stream that moved last, None if none did."""
        moved = [s for s in self.streams if s.last_cycle is not None]
        return max(moved, key=lambda s: s.last_cycle or 0, default=None)

    @property
    def waits(self) -> dict[str, list[Wait]]:
        """Whom each stage or input waits for: readers with no room where its word is not taken, else missing words."""
        waits: dict[str, list[Wait]] = {}
        for stream in self.streams:
            name = stream.name
            if stream.stalled:
                waits[name] = [Wait(name, link.sink, link, for_room=True) for link in self.links
                               if link.source == name and link.full_since is not None]
            else:
                waits[name] = [Wait(name, link.source, link, for_room=False) for link in self.links
                               if link.sink == name and link.empty_since is not None]
        return waits

    @property
    def circle(self) -> tuple[Wait, ...]:
        """Stages that wait for each other in a circle; empty if there is none."""
        waits, done = self.waits, set[str]()

        def walk(name: str, path: tuple[Wait, ...]) -> tuple[Wait, ...]:
            names = [wait.who for wait in path]
            if name in names:
                return path[names.index(name):]
            if name in done:
                return ()
            for wait in waits.get(name, []):
                circle = walk(wait.whom, (*path, wait))
                if circle:
                    return circle
            done.add(name)
            return ()

        return next((around for name in waits if (around := walk(name, ()))), ())

    @property
    def blocked_by(self) -> str | None:
        """The stage at the end of the queue: it is offered all that it needs, takes nothing, and offers nothing.

        None if there is none: then stages wait in a circle, or for a beat that was lost.
        """
        if self.circle:
            return None
        waits = self.waits
        blocking = {wait.whom for own in waits.values() for wait in own if wait.for_room and not waits[wait.whom]}
        return next((s.name for s in reversed(self.streams) if s.name in blocking), None)

    @property
    def reason(self) -> str:
        """Who blocks whom, in one sentence."""
        circle = self.circle
        for before, after in zip(circle, (*circle[1:], *circle[:1]), strict=True):
            if before.for_room and not after.for_room:
                full, since = before.link, f"is full since cycle {before.link.full_since}"
                queue = (f"the queue {full.name} ({full.capacity} words) {since}; a deeper queue there would help"
                         if full.capacity else
                         f"the link {full.name}, which has no queue, {since}; a queue there would help")
                return (f"'{after.who}' waits for '{after.whom}' (empty since cycle {after.link.empty_since}) while "
                        f"{queue}")
        if circle:
            return f"{', '.join(repr(wait.who) for wait in circle)} wait for each other in a circle"
        if self.blocked_by:
            return f"'{self.blocked_by}' blocks: it is offered a beat, takes none and gives none"
        return "no stage blocks: each waits for a beat that did not come"

    def __str__(self) -> str:
        first = f"no beat moved in the {self.idle_cycles} cycles up to cycle {self.cycle}"
        if self.last_moved:
            first += f"; the last one moved at '{self.last_moved.name}' in cycle {self.last_moved.last_cycle}"
        return "\n".join([self.reason, f"  {first}", *(f"  {stream}" for stream in self.streams),
                          *(f"  {link}" for link in self.links)])
