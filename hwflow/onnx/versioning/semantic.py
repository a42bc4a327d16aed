"""Version numbers: semantic versions packed into 64 bits, plain numbers, and the identity of operators.

Source: Versioning.md.  A number below 2**32 is a plain one; others hold major and minor (16 bits) and patch (32 bits).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_WORD = 1 << 64
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)", re.ASCII)
_IDENTIFIER = re.compile(r"(?P<domain>.+)\.(?P<name>[^.:]+):(?P<since>[1-9]\d*)", re.ASCII)


@dataclass(frozen=True, order=True)
class SemanticVersion:
    """Major and minor 0 to 65535 and not both zero, patch 0 to 2**32 - 1.  Raises ValueError for others."""

    major: int
    minor: int
    patch: int

    def __post_init__(self) -> None:
        for name, limit in (("major", 1 << 16), ("minor", 1 << 16), ("patch", 1 << 32)):
            if not 0 <= getattr(self, name) < limit:
                raise ValueError(f"{name} of a version must be 0 to {limit - 1}, not {getattr(self, name)}")
        if not self.major and not self.minor:
            raise ValueError(f"major or minor of a version must not be zero, not {self}; give the first one a minor")

    @classmethod
    def parse(cls, text: str) -> SemanticVersion:
        """The version of "1.2.345".  Pre-releases and build metadata ("1.2.3-rc1") are refused: no field holds them."""
        match = _VERSION.fullmatch(text)
        if match is None:
            raise ValueError(f"a version must be MAJOR.MINOR.PATCH in digits, not {text!r}")
        return cls(*map(int, match.groups()))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


def pack(version: SemanticVersion) -> int:
    """The int64 of `model_version`: negative where major is 32768 or more, because its highest bit is the sign."""
    number = version.major << 48 | version.minor << 32 | version.patch
    return number - _WORD if number >= _WORD // 2 else number


def is_plain(number: int) -> bool:
    """True for a number that is no packed semantic version."""
    return 0 <= number < 1 << 32


def unpack(number: int) -> SemanticVersion | int:
    """The semantic version that an int64 holds, or the plain number that it is."""
    if is_plain(number):
        return number
    word = number % _WORD
    return SemanticVersion(word >> 48, word >> 32 & 0xFFFF, word & 0xFFFFFFFF)


def version_text(number: int) -> str:
    """As people write it: "1.2.345" or "7"."""
    return str(unpack(number))


def is_compatible(old: int, new: int) -> bool:
    """Whether a consumer of the file with version `old` may take the one with `new`: the same major.

    Plain numbers say nothing about changes, so only equal ones are compatible.
    """
    first, second = unpack(old), unpack(new)
    if isinstance(first, SemanticVersion) and isinstance(second, SemanticVersion):
        return first.major == second.major
    return first == second


@dataclass(frozen=True)
class OperatorId:
    """The identity of an operator, written "com.acme.FastConv:3".  The domain "" is written "ai.onnx"."""

    domain: str
    name: str
    since: int

    @classmethod
    def parse(cls, text: str) -> OperatorId:
        """The inverse of `str`.  Raises ValueError for other texts."""
        match = _IDENTIFIER.fullmatch(text)
        if match is None:
            raise ValueError(f"an operator must be named DOMAIN.NAME:VERSION, not {text!r}")
        domain = "" if match["domain"] == "ai.onnx" else match["domain"]
        return cls(domain, match["name"], int(match["since"]))

    def __str__(self) -> str:
        return f"{self.domain or 'ai.onnx'}.{self.name}:{self.since}"
