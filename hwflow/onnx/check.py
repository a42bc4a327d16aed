"""All rules over one model, and all violations at once."""

from __future__ import annotations

from hwflow.errors import HwflowError
from hwflow.onnx.model import Model
from hwflow.onnx.rules import names, operators, values
from hwflow.onnx.rules.finding import Finding, Rule, Severity

__all__ = ["RULES", "check", "require_valid"]

#: In the order in which their findings are listed.
RULES: tuple[Rule, ...] = (
    operators.opsets_known,
    names.graph_name,
    names.inputs_typed,
    names.values_defined_once,
    names.values_defined_before_use,
    names.outputs_defined,
    operators.operators_known,
    operators.inputs_and_outputs_fit,
    operators.attributes_fit,
    values.initializers_as_stated,
    values.constants_are_numbers,
    values.scales_positive,
)


def check(model: Model) -> tuple[Finding, ...]:
    """Every violated rule, at every place.  Empty for a model that hwflow can evaluate."""
    return tuple(finding for rule in RULES for finding in rule(model))


def require_valid(model: Model) -> None:
    """Raise HwflowError with all errors of `check` in one message, one per line; warnings do not matter here."""
    errors = [finding for finding in check(model) if finding.severity is Severity.ERROR]
    if len(errors) == 1:
        raise HwflowError(str(errors[0]))
    if errors:
        lines = "\n".join(f"  {finding}" for finding in errors)
        raise HwflowError(f"the model must follow the rules of ONNX and of hwflow, not break {len(errors)}:\n{lines}")
