"""The high-level synthesis backend.

It takes an integer graph and a device, chooses the folding of every stage and the depth of every queue (the plan), and
makes an Amaranth core of graph and plan.

Its rooms, each of which imports only those before it: `schedule` (streams between stages, and when their beats move),
`shared` (the stage of several layers), `plan`, `foldings` (the search for a plan), `partition` (the search for layers
that share a stage).
"""

from hwflow.hls.foldings.budget import Budget, Target
from hwflow.hls.foldings.computed_once import Known
from hwflow.hls.foldings.solver import solve
from hwflow.hls.partition.executions import Executions
from hwflow.hls.partition.shared_solver import solve_shared
from hwflow.hls.plan.core import lower, weight_image
from hwflow.hls.plan.outside_memory import OutsideMemory, StreamPlan
from hwflow.hls.plan.plan import Plan, StagePlan, make_plan
from hwflow.hls.plan.plan_check import require_current
from hwflow.hls.plan.plan_file import computed_anew, plan_from_yaml, plan_to_yaml
from hwflow.hls.schedule.links import LinkPlan

__all__ = ["Budget", "Executions", "Known", "LinkPlan", "OutsideMemory", "Plan", "StagePlan", "StreamPlan", "Target",
           "computed_anew", "lower", "make_plan", "plan_from_yaml", "plan_to_yaml", "require_current", "solve",
           "solve_shared", "weight_image"]
