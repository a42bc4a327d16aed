"""Version numbers: semantic ones packed into 64 bits, plain ones, and what each release of ONNX brought.

Sources: Versioning.md, `enum Version` of onnx.proto, ONNX 1.23.  A number below 2**32 is a plain one; others hold major
and minor (16 bits) and patch (32 bits).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    """The number as people write it: "1.2.345" or "7"."""
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


@dataclass(frozen=True)
class Release:
    """A release and its versions: of the IR, and of the operator sets ai.onnx, ai.onnx.ml and ai.onnx.preview.training
    (None before there was one)."""

    version: str
    ir: int
    opset: int
    ml: int
    training: int | None = None

    def opset_of(self, domain: str) -> int | None:
        """The version of a standard operator set; None for others."""
        return {"": self.opset, "ai.onnx.ml": self.ml, "ai.onnx.preview.training": self.training}.get(domain)


#: Oldest first.
RELEASES = (
    Release("1.0", 3, 1, 1),
    Release("1.1", 3, 5, 1),
    Release("1.1.2", 3, 6, 1),
    Release("1.2", 3, 7, 1),
    Release("1.3", 3, 8, 1),
    Release("1.4.1", 4, 9, 1),
    Release("1.5.0", 5, 10, 1),
    Release("1.6.0", 6, 11, 2),
    Release("1.7.0", 7, 12, 2, 1),
    Release("1.8.0", 7, 13, 2, 1),
    Release("1.8.1", 7, 13, 2, 1),
    Release("1.9.0", 7, 14, 2, 1),
    Release("1.10.0", 8, 15, 2, 1),
    Release("1.10.1", 8, 15, 2, 1),
    Release("1.10.2", 8, 15, 2, 1),
    Release("1.11.0", 8, 16, 3, 1),
    Release("1.12.0", 8, 17, 3, 1),
    Release("1.13.0", 8, 18, 3, 1),
    Release("1.13.1", 8, 18, 3, 1),
    Release("1.14.0", 9, 19, 3, 1),
    Release("1.14.1", 9, 19, 3, 1),
    Release("1.15.0", 9, 20, 4, 1),
    Release("1.16.0", 10, 21, 5, 1),
    Release("1.16.1", 10, 21, 5, 1),
    Release("1.16.2", 10, 21, 5, 1),
    Release("1.17.0", 10, 22, 5, 1),
    Release("1.18.0", 11, 23, 5, 1),
    Release("1.19.0", 12, 24, 5, 1),
    Release("1.19.1", 12, 24, 5, 1),
    Release("1.20.0", 13, 25, 5, 1),
    Release("1.20.1", 13, 25, 5, 1),
    Release("1.21.0", 13, 26, 5, 1),
    Release("1.22.0", 13, 27, 5, 1),
    Release("1.23.0", 14, 28, 5, 1),
)


@dataclass(frozen=True)
class IrVersion:
    """When a version of the file format was published ("" where no text says it), and what it brought."""

    date: str
    brought: str


IR_VERSIONS: Mapping[int, IrVersion] = {
    1: IrVersion("2017-10-10", "the first one"),
    2: IrVersion("2017-10-30", "attributes state their type"),
    3: IrVersion("2017-11-03", "operator sets with versions, domains of nodes"),
    4: IrVersion("2019-01-22", "initializers that are no inputs, bfloat16"),
    5: IrVersion("2019-03-18", "quantization annotations"),
    6: IrVersion("2019-09-19", "sparse tensors as constants"),
    7: IrVersion("2020-05-08", "training information"),
    8: IrVersion("2021-07-30", "functions in models, optional and sparse types"),
    9: IrVersion("2023-05-05", "defaults of functions' attributes, float8"),
    10: IrVersion("2024-03-25", "int4 and uint4, overloads of functions, metadata everywhere"),
    11: IrVersion("2025-05-12", "float4e2m1, several devices"),
    12: IrVersion("2025-08-26", "float8e8m0"),
    13: IrVersion("2025-11-06", "int2 and uint2"),
    14: IrVersion("", "float6, opaque types everywhere"),
}

NEWEST_IR = max(IR_VERSIONS)


def first_release(domain: str, version: int) -> Release | None:
    """The oldest release with at least this version of a standard operator set ("" is ai.onnx); None for others."""
    versions = ((release, release.opset_of(domain)) for release in RELEASES)
    return next((release for release, held in versions if held is not None and held >= version), None)


def least_ir(domain: str, version: int) -> int | None:
    """The version of the file format that came with a version of an operator set; None where no table says so."""
    release = first_release(domain, version)
    return release.ir if release else None
