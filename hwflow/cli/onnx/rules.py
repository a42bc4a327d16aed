"""`hwflow onnx rules`."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from hwflow_base.errors import HwflowError
from hwflow_base.later import later
from hwflow_base.options import Option

with later():
    from ...onnx.rules import catalogue
    from ...views.console.terminal import Console


@dataclass(frozen=True)
class RulesRequest:
    """The request of `hwflow onnx rules`."""

    rule: Annotated[str | None, Option(argument=True)] = None


def rules(console: Console, request: RulesRequest) -> Mapping[str, object]:
    """List the rules of ONNX and where hwflow enforces them, or explain RULE."""
    rule, known = request.rule, catalogue.CATALOGUE
    if rule is None:
        entries = tuple(known.values())
        rows = [(entry.rule, entry.level.value, entry.checked, entry.title) for entry in entries]
        console.table("rules of ONNX", ("rule", "level", "where", "what"), rows)
        return {"exit_code": 0, "rules": [_facts(entry) for entry in entries]}
    entry = known.get(rule.upper())
    if entry is None:
        close = difflib.get_close_matches(rule.upper(), known, n=3)
        guess = f"; did you mean {', '.join(close)}?" if close else ""
        raise HwflowError(f"the rule must be one that `hwflow onnx rules` lists, not '{rule}'{guess}")
    console.say(f"{entry.rule} ({entry.level.value}): {entry.title}; enforced in: {entry.checked}")
    if conflict := catalogue.CONFLICTS.get(entry.rule):
        console.say(f"  {conflict}")
    return {"exit_code": 0, **_facts(entry)}


def _facts(entry: catalogue.RuleEntry) -> dict[str, str]:
    return {"rule": entry.rule, "level": entry.level.value, "checked": entry.checked, "title": entry.title,
            "conflict": catalogue.CONFLICTS.get(entry.rule, "")}
