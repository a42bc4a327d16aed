"""The high-level synthesis backend.

It takes an integer graph and a device, chooses the folding of every stage and the depth of every queue (the plan), and
makes an Amaranth core of graph and plan.
"""

from .budget import Budget
from .current import require_current
from .executions import Executions
from .known import Known
from .links import LinkPlan
from .lower import lower, weight_image
from .outside import OutsideMemory, StreamPlan
from .plan import Plan, StagePlan, make_plan
from .plan_file import computed_anew, plan_from_yaml, plan_to_yaml
from .shared_solver import solve_shared
from .solver import solve

__all__ = ["Budget", "Executions", "Known", "LinkPlan", "OutsideMemory", "Plan", "StagePlan", "StreamPlan",
           "computed_anew", "lower", "make_plan", "plan_from_yaml", "plan_to_yaml", "require_current", "solve",
           "solve_shared", "weight_image"]
