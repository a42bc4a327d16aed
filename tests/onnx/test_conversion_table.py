"""The tables of steps between versions of operators: complete, and about versions that exist."""

from __future__ import annotations

from hwflow.onnx.conversion.upward import DOMAINS, UP
from hwflow.onnx.schemas import SCHEMAS

#: Every operator, and the versions that have one before them.
NEWER = {key: {schema.since for schema in found[1:]} for key, found in SCHEMAS.items() if key[0] in DOMAINS}


def test_a_step_leads_to_every_version_from_the_one_before() -> None:
    assert {key: set(UP.get(key, {})) for key in NEWER} == NEWER


def test_no_step_is_about_an_operator_that_does_not_exist() -> None:
    assert set(UP) <= set(NEWER)
