"""The schemas of all operators that hwflow knows, with their history.

`standard.json` holds the four operator sets of ONNX; `tools/operator_schemas.py` writes it.  `other.json` holds
operators of other domains that hwflow evaluates, in the same format.
"""

from __future__ import annotations

from hwflow.onnx.schemas.schema import (
    ANY,
    NEWEST,
    SCHEMAS,
    AttributeKind,
    AttributeSchema,
    Option,
    Parameter,
    Schema,
    canonical_domain,
    find_schema,
    removed_at,
    versions_of,
)

__all__ = [
    "ANY",
    "NEWEST",
    "SCHEMAS",
    "AttributeKind",
    "AttributeSchema",
    "Option",
    "Parameter",
    "Schema",
    "canonical_domain",
    "find_schema",
    "removed_at",
    "versions_of",
]
