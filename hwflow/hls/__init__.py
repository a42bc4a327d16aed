"""The high-level synthesis backend: an integer graph becomes a plan, and a plan becomes an Amaranth core."""

from .plan import Plan, StagePlan, plan_from_yaml, plan_to_yaml
from .solver import Budget, solve

__all__ = ["Budget", "Plan", "StagePlan", "plan_from_yaml", "plan_to_yaml", "solve"]
