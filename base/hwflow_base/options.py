"""Options of commands, declared once: as fields of frozen dataclasses whose types are annotated with an `Option`.

    interval: Annotated[int | None, Option("At most CYCLES a frame.", Section.PLAN, metavar="CYCLES", least=1)] = None

The type and the default of the field are those of the option.  The command line, its help and its completion, and
`hwflow.toml` follow from the dataclass (`hwflow.cli.parser`); `command_line` is the way back.  A field whose type is
such a dataclass itself has that one's options.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from typing import Any, ClassVar, Protocol, get_args, get_type_hints


class Section(StrEnum):
    """The title of options in a help, in this order."""

    MODEL = "Model and data"
    ROWS = "Rows"
    NUMBERS = "Numbers"
    FILES = "Pictures and recordings"
    CHECK = "Check"
    SPACE = "Design space"
    ENGINE = "Engine"
    QUANTIZATION = "Quantization"
    WIDTHS = "Search for widths"
    BOARD = "Board"
    PLAN = "Plan"
    ROUTING = "Place and route"
    SERVER = "Server"
    SIMULATION = "Simulation"
    TEXT = "Text"
    OUTPUT = "Output"


@dataclass(frozen=True)
class Range:
    """Numbers from `least`, or above `above`, to `most`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None


@dataclass(frozen=True)
class OneOf:
    """Some words."""

    words: tuple[str, ...]


@dataclass(frozen=True)
class Option:
    """The words of the command line about an option, and how its words become the value of the field.

    `name` is the option's where it is not the field's.  `parse` makes an element of a word, `whole` the value of all
    elements, and `words` those words again; `parse` and `whole` raise ValueError with the reason.  An option may be
    given several times if it is `repeated`, None: if its value is a tuple of any length.  `excludes` and `needs` are
    names of options with which it means nothing, or without which: a command refuses these.  On the command line it
    stands for what `hwflow.toml` has of those that it `replaces`.  An option `of_model` stands beside the model's path
    in `hwflow.toml`; a `common` one means the same in all commands, whose helps may say it in other words.
    """

    help: str = ""
    section: Section = Section.OUTPUT
    metavar: str | None = None
    name: str = ""
    short: str = ""
    argument: bool = False
    parse: Callable[[str], object] | Range | OneOf | None = None
    whole: Callable[[Any], object] | None = None
    words: Callable[[Any], Sequence[str]] | None = None
    repeated: bool | None = None
    complete: Callable[[], Sequence[str]] | None = None
    excludes: Sequence[str] = ()
    needs: str = ""
    replaces: Sequence[str] = ()
    of_model: bool = False
    common: bool = False


class Options(Protocol):
    """A frozen dataclass of such fields."""

    __dataclass_fields__: ClassVar[dict[str, Field[object]]]


@dataclass(frozen=True)
class Declared:
    """A field of a dataclass of options: `option` of its own, or those of `part`, the dataclass that is its type."""

    name: str
    type: Any
    default: object
    option: Option
    part: type[Options] | None

    @property
    def key(self) -> str:
        """The name of the option, without dashes before it."""
        return self.option.name or self.name.replace("_", "-")

    @property
    def kind(self) -> object:
        """The type of one value, which is not None."""
        kinds = [kind for kind in get_args(self.type) if kind is not type(None)]
        return kinds[0] if Ellipsis in kinds or len(kinds) < len(get_args(self.type)) == 2 else self.type

    @property
    def repeated(self) -> bool:
        """Whether the option may be given several times."""
        return Ellipsis in get_args(self.type) if self.option.repeated is None else self.option.repeated


@cache
def declared(kind: type[Options]) -> tuple[Declared, ...]:
    """The fields of a dataclass of options.  TypeError for one that says nothing of its option."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(declaration(kind, field, hints[field.name]) for field in fields(kind))


def declaration(kind: type[Options], field: Field[object], hint: object) -> Declared:
    """One field, whose type is `hint`."""
    if isinstance(hint, type) and is_dataclass(hint):
        return Declared(field.name, hint, field.default, Option(), hint)
    described = [extra for extra in getattr(hint, "__metadata__", ()) if isinstance(extra, Option)]
    if not described:
        raise TypeError(f"{kind.__name__}.{field.name} must be annotated with an Option")
    return Declared(field.name, get_args(hint)[0], field.default, described[-1], None)


def options_of(kind: type[Options]) -> Iterator[Declared]:
    """The options of a dataclass, those of its parts in their place."""
    for field in declared(kind):
        yield from (field,) if field.part is None else options_of(field.part)


def command_line(command: str, *parts: Options, options: Sequence[str] = ()) -> str:
    """`hwflow command` with the arguments and options of `parts`, and further `options`, as a line for a shell.

    What is as by default is left out.
    """
    asked = [pair for part in parts for pair in valued(part)]
    arguments = [str(value) for field, value in asked if field.option.argument]
    words = [word for field, value in asked for word in words_of(field, value)]
    return shlex.join(["hwflow", command, *arguments, *words, *options])


def valued(part: Options) -> Iterator[tuple[Declared, object]]:
    """Each option of `part` with its value."""
    for field in declared(type(part)):
        value = getattr(part, field.name)
        yield from ((field, value),) if field.part is None else valued(value)


def words_of(declared: Declared, value: Any) -> Iterator[str]:
    """An option with its value, as words; nothing for an argument, and for what is as by default."""
    option, dashed = declared.option, f"--{declared.key}"
    if option.argument or value == declared.default:
        return
    if value is True:
        yield dashed
        return
    for text in option.words(value) if option.words else map(text_of, value if declared.repeated else (value,)):
        yield from (dashed, text)


def text_of(value: object) -> str:
    """A value as a word of a command line."""
    return str(value.value if isinstance(value, Enum) else value)
