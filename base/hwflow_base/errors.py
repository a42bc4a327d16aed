"""Every failure that a user can cause or must act on.

A message reads "<thing> must be <rule>, not <value>", names the ONNX node, YAML key or file it is about, and ends with
what to do.  The command line prints the message alone, without a traceback, and exits with `exit_code`.
"""

from __future__ import annotations

from typing import Self


def sentence(why: str, remedy: str = "", where: str = "") -> str:
    """The message of a reason: `where: why; remedy`, without the parts that are empty."""
    place, advice = f"{where}: " if where else "", f"; {remedy}" if remedy else ""
    return f"{place}{why}{advice}"


class HwflowError(Exception):
    """The question was wrong: a bad file, an unknown name, an impossible setting.  Exit code 2.

    `why` says what is wrong, `remedy` what to do, `where` which node or file it is about; the last two may be empty.
    `file` is the model that it is about, where the message begins with its path (`about`).
    """

    exit_code = 2
    file = ""

    def __init__(self, why: str, remedy: str = "", *, where: str = "") -> None:
        super().__init__(sentence(why, remedy, where))
        self.why, self.remedy, self.where = why, remedy, where

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled whatever a class takes: an error that a process cannot send breaks the pool it belongs to."""
        return bare, (type(self), self.args), vars(self)

    def at(self, where: str) -> Self:
        """The same error, whose message begins with `where`."""
        return type(self)(self.why, self.remedy, where=f"{where}: {self.where}" if self.where else where)

    def about(self, file: str) -> Self:
        """The same error of the model in `file`, with whose path the message begins; itself where it does already."""
        if not file or self.file or str(self).startswith(f"{file}: "):
            return self
        named = type(self).__new__(type(self))
        named.__dict__.update(self.__dict__, file=file)
        named.args = (f"{file}: {self}",)
        return named

    @property
    def without_file(self) -> str:
        """The message for whoever has said already which file it is about."""
        return str(self).removeprefix(f"{self.file}: ") if self.file else str(self)


def bare(kind: type[HwflowError], arguments: tuple[object, ...]) -> HwflowError:
    """An error of this class without a call of its constructor."""
    return kind.__new__(kind, *arguments)


class Refusal(ValueError):
    """Values that cannot be together; whoever asked knows which node or layer they belong to, and says so."""

    def __init__(self, why: str, remedy: str = "") -> None:
        super().__init__(sentence(why, remedy))
        self.why, self.remedy = why, remedy


def reason_of(error: Exception) -> tuple[str, str]:
    """Why `error` was raised, and what to do; its text and nothing where it has no such fields."""
    return (error.why, error.remedy) if isinstance(error, HwflowError | Refusal) else (str(error), "")


class MissingTool(HwflowError):
    """A program or a package that the command needs is not installed.  Exit code 2."""


class AnswerIsNo(HwflowError):
    """The question was fine and the answer is no: a mismatch, a model that does not fit.  Exit code 1."""

    exit_code = 1


class ToolFailed(AnswerIsNo):
    """A tool that hwflow started (a compiler, yosys, nextpnr) reported an error.  Exit code 1."""
