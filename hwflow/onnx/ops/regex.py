"""Regular expressions in the syntax of RE2, matched against whole texts.

A pattern comes from a file that cannot be trusted: the match follows all ways through the expression at the same time
(K. Thompson, "Regular expression search algorithm", 1968), so that its time grows with text times pattern, never
exponentially.  Back references and look-around, which need more, are no part of RE2 either.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeAlias

__all__ = ["Pattern", "compile_pattern"]

_MAX_STATES, _MAX_REPEAT, _MAX_DEPTH = 20_000, 1000, 60

_Test: TypeAlias = Callable[[str], bool]
_Part: TypeAlias = Callable[[int], int]  # appends the states of a part in front of a state, gives the first one

#: General categories of Unicode, each letter with its subdivisions.
_MINOR = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfos"}
_CATEGORIES = {major + minor for major, minors in _MINOR.items() for minor in ("", *minors)}
_CLASSES: dict[str, str] = {
    "alnum": "09AZaz", "alpha": "AZaz", "ascii": "\0\x7f", "blank": "\t\t  ", "cntrl": "\0\x1f\x7f\x7f",
    "digit": "09", "graph": "!~", "lower": "az", "print": " ~", "punct": "!/:@[`{~", "space": "\t\r  ",
    "upper": "AZ", "word": "09AZaz__", "xdigit": "09AFaf",
    "d": "09", "s": "\t\n\f\r  ", "w": "09AZaz__",
}  # fmt: skip
_ESCAPES = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


@dataclass(frozen=True)
class _Flags:
    fold: bool = False  # i
    lines: bool = False  # m
    dot_all: bool = False  # s


@dataclass
class Pattern:
    """A compiled expression.  A state is a test of one character, a place where it holds, or a fork."""

    tests: list[_Test | None] = field(default_factory=lambda: [None])
    places: list[str] = field(default_factory=lambda: [""])
    follow: list[tuple[int, ...]] = field(default_factory=lambda: [()])
    start: int = 0
    calls: int = 0

    def add(self, follow: tuple[int, ...], test: _Test | None = None, place: str = "") -> int:
        if len(self.follow) >= _MAX_STATES:
            raise ValueError(f"it needs more than {_MAX_STATES} states")
        self.tests.append(test)
        self.places.append(place)
        self.follow.append(follow)
        return len(self.follow) - 1

    @property
    def size(self) -> int:
        """Steps that each character of a text may take."""
        return len(self.follow)

    def matches(self, text: str) -> bool:
        """True where the expression fits the whole text."""
        states = self._reach((self.start,), text, 0)
        for position, character in enumerate(text):
            tested = ((self.tests[state], state) for state in states)
            passed = [self.follow[state][0] for test, state in tested if test is not None and test(character)]
            states = self._reach(passed, text, position + 1)
        return 0 in states

    def _reach(self, states: Iterable[int], text: str, position: int) -> set[int]:
        """The states and those behind them that need no character."""
        found, waiting = set[int](), list(states)
        while waiting:
            state = waiting.pop()
            if state not in found:
                found.add(state)
                if self.tests[state] is None and _holds(self.places[state], text, position):
                    waiting.extend(self.follow[state])
        return found


def _holds(place: str, text: str, position: int) -> bool:
    match place:
        case "A":
            return position == 0
        case "z":
            return position == len(text)
        case "^":
            return position == 0 or text[position - 1] == "\n"
        case "$":
            return position == len(text) or text[position] == "\n"
        case "b" | "B":
            before = position > 0 and _is_word(text[position - 1])
            return (before != (position < len(text) and _is_word(text[position]))) == (place == "b")
    return True


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _ranges(pairs: str) -> _Test:
    bounds = [(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)]
    return lambda c: any(low <= c <= high for low, high in bounds)


def _any_of(tests: list[_Test], negated: bool, fold: bool) -> _Test:
    def test(character: str) -> bool:
        forms = {character, character.lower(), character.upper()} if fold else {character}
        return any(t(form) for t in tests for form in forms if len(form) == 1) != negated

    return test


@dataclass
class _Reader:
    """Reads a pattern from left to right into states."""

    pattern: str
    target: Pattern = field(default_factory=Pattern)
    at: int = 0

    def fail(self, what: str) -> NoReturn:
        raise ValueError(f"{what} at character {self.at}")

    def peek(self, text: str) -> bool:
        """True, and behind it, where `text` comes next."""
        found = self.pattern.startswith(text, self.at)
        self.at += len(text) if found else 0
        return found

    def take(self) -> str:
        if self.at >= len(self.pattern):
            self.fail("it ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def until(self, end: str) -> str:
        stop = self.pattern.find(end, self.at)
        if stop < 0:
            self.fail(f"'{end}' is missing")
        taken, self.at = self.pattern[self.at : stop], stop + len(end)
        return taken

    def choice(self, flags: _Flags, depth: int) -> _Part:
        """Alternatives up to the end or a closing parenthesis.  (?i) in one of them holds for those behind it."""
        if depth > _MAX_DEPTH:
            self.fail(f"more than {_MAX_DEPTH} parentheses in each other")
        branches: list[_Part] = []
        parts: list[_Part] = []
        while self.at < len(self.pattern) and self.pattern[self.at] != ")":
            if self.peek("|"):
                branches.append(self.sequence(parts))
                parts = []
            elif not self.pattern.startswith(("(?P<", "(?<"), self.at) and self.peek("(?"):
                flags, part = self.flagged(flags, depth)
                parts.extend(() if part is None else (self.repeated(part),))
            else:
                parts.extend(self.atom(flags, depth))
                parts[-1:] = [self.repeated(part) for part in parts[-1:]]
        branches.append(self.sequence(parts))
        return branches[0] if len(branches) == 1 else lambda then: self.target.add(tuple(b(then) for b in branches))

    def sequence(self, parts: list[_Part]) -> _Part:
        def build(then: int) -> int:
            for part in reversed(parts):
                then = part(then)
            return then

        return build

    def flagged(self, flags: _Flags, depth: int) -> tuple[_Flags, _Part | None]:
        """Behind "(?": flags for the rest of the group, or a group of its own that is not counted."""
        changed, on = flags, True
        while (letter := self.take()) not in ":)":
            match letter:
                case "-":
                    on = False
                case "i":
                    changed = replace(changed, fold=on)
                case "m":
                    changed = replace(changed, lines=on)
                case "s":
                    changed = replace(changed, dot_all=on)
                case "U":
                    pass  # which way is tried first does not matter for the whole text
                case _:
                    self.fail("a group that RE2 does not have")
        if letter == ")":
            return changed, None
        return flags, self.group(changed, depth)

    def group(self, flags: _Flags, depth: int) -> _Part:
        inner = self.choice(flags, depth + 1)
        if not self.peek(")"):
            self.fail("')' is missing")
        return inner

    def atom(self, flags: _Flags, depth: int) -> list[_Part]:
        character = self.take()
        match character:
            case "(":
                if (self.peek("?P<") or self.peek("?<")) and not self.until(">").isidentifier():
                    self.fail("a group name that is no word (or look-behind, which RE2 does not have)")
                return [self.group(flags, depth)]
            case "[":
                return [self.one(self.set(flags))]
            case ".":
                return [self.one(lambda c: flags.dot_all or c != "\n")]
            case "^":
                return [self.place("^" if flags.lines else "A")]
            case "$":
                return [self.place("$" if flags.lines else "z")]
            case "*" | "+" | "?":
                self.fail(f"nothing that '{character}' repeats")
            case "\\" if self.peek("Q"):
                stop = self.pattern.find("\\E", self.at)
                text = self.pattern[self.at :] if stop < 0 else self.until("\\E")
                self.at = len(self.pattern) if stop < 0 else self.at
                return [self.one(_any_of([_ranges(c + c)], False, flags.fold)) for c in text]
            case "\\" if self.pattern[self.at : self.at + 1] in ("A", "z", "b", "B"):
                return [self.place(self.take())]
            case "\\":
                return [self.one(_any_of([self.escape()], False, flags.fold))]
        return [self.one(_any_of([_ranges(character * 2)], False, flags.fold))]

    def one(self, test: _Test) -> _Part:
        return lambda then: self.target.add((then,), test)

    def place(self, place: str) -> _Part:
        return lambda then: self.target.add((then,), place=place)

    def escape(self) -> _Test:
        """Behind a backslash: a class or one character."""
        letter = self.take()
        if letter.lower() in "dsw":
            return _any_of([_ranges(_CLASSES[letter.lower()])], letter.isupper(), False)
        if letter in "pP":
            return self.category(letter == "P")
        self.at -= 1
        character = self.escaped()
        return _ranges(character * 2)

    def category(self, negated: bool) -> _Test:
        name = self.until("}") if self.peek("{") else self.take()
        negated, name = negated != name.startswith("^"), name.removeprefix("^")
        if name not in _CATEGORIES:
            self.fail(f"'{name}' instead of a general category of Unicode such as L, Lu, Nd")
        return lambda c: unicodedata.category(c).startswith(name) != negated

    def escaped(self) -> str:
        letter = self.take()
        if letter in _ESCAPES:
            return _ESCAPES[letter]
        if letter == "x":
            return self.code(self.until("}") if self.peek("{") else self.take() + self.take(), 16)
        if letter in "01234567":
            digits = letter
            while len(digits) < 3 and self.pattern[self.at : self.at + 1] in tuple("01234567"):
                digits += self.take()
            if letter != "0" and len(digits) == 1:
                self.fail("a back reference, which RE2 does not have,")
            return self.code(digits, 8)
        if letter.isalnum():
            self.fail(f"'\\{letter}', which RE2 does not have,")
        return letter

    def code(self, digits: str, base: int) -> str:
        try:
            return chr(int(digits, base))
        except (ValueError, OverflowError):
            self.fail(f"'{digits}' instead of the number of a character")

    def set(self, flags: _Flags) -> _Test:
        """Behind "[": characters, ranges and classes up to "]"."""
        negated, tests = self.peek("^"), list[_Test]()
        while not tests or not self.peek("]"):
            if self.peek("[:"):
                name = self.until(":]")
                if name.removeprefix("^") not in _CLASSES or len(name) < 3:
                    self.fail(f"the class '{name}' that RE2 does not have")
                tests.append(_any_of([_ranges(_CLASSES[name.removeprefix("^")])], name.startswith("^"), False))
                continue
            low = self.take()
            if low == "\\":
                if self.pattern[self.at : self.at + 1] in tuple("dswpDSWP"):
                    tests.append(self.escape())
                    continue
                low = self.escaped()
            high = low
            if self.pattern[self.at : self.at + 1] == "-" and self.pattern[self.at + 1 : self.at + 2] not in ("]", ""):
                self.take()
                high = self.take()
                high = self.escaped() if high == "\\" else high
            if high < low:
                self.fail(f"the range '{low}-{high}' that ends before it begins")
            tests.append(_ranges(low + high))
        return _any_of(tests, negated, flags.fold)

    def repeated(self, part: _Part) -> _Part:
        """The part with the repeat sign that follows it."""
        limits = self.limits()
        if limits is None:
            return part
        self.peek("?")  # fewest first: the same whole texts
        if self.limits() is not None:
            self.fail("two repeat signs in a row")
        return self.times(part, *limits)

    def limits(self) -> tuple[int, int | None] | None:
        for sign, limits in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.peek(sign):
                return limits
        start = self.at
        if not self.peek("{"):
            return None
        low, comma, high = self.pattern[self.at : self.pattern.find("}", self.at)].partition(",")
        if not low.isdecimal() or (high and not high.isdecimal()) or "}" not in self.pattern[self.at :]:
            self.at = start  # a plain brace
            return None
        self.until("}")
        least, most = int(low[:9]), int(high[:9]) if high else None if comma else int(low[:9])
        if least > _MAX_REPEAT or (most is not None and not least <= most <= _MAX_REPEAT):
            self.fail(f"a number of repeats outside of 0 to {_MAX_REPEAT}")
        return least, most

    def times(self, part: _Part, least: int, most: int | None) -> _Part:
        def build(then: int) -> int:
            self.target.calls += least + (most or 0) + 1
            if self.target.calls > _MAX_STATES:
                raise ValueError(f"it repeats more than {_MAX_STATES} parts")
            if most is None:
                fork = self.target.add((then,))
                self.target.follow[fork] = (part(fork), then)
                then = fork
            else:
                end = then
                for _ in range(most - least):
                    then = self.target.add((part(then), end))
            for _ in range(least):
                then = part(then)
            return then

        return build


def compile_pattern(pattern: str) -> Pattern:
    """A pattern of RE2, ready to match.  Raises ValueError for what is none."""
    reader = _Reader(pattern)
    whole = reader.choice(_Flags(), 0)
    if reader.at < len(pattern):
        reader.fail("')' without '('")
    reader.target.start = whole(0)
    return reader.target
