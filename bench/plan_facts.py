"""What the plan of a model promises, as JSON: run behind `hwflow build`, from whose results it reads.

    python -m bench.plan_facts MODEL DATA BUILD [NAME=D,D,... ...]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from amaranth.lib.wiring import Component
from hwflow_rtl.window.line_buffer import LineBuffer

from hwflow import hls
from hwflow.options import Project, input_shape
from hwflow.pipeline.pipeline import Pipeline
from hwflow.views.console.terminal import Console


def components(thing: Any) -> Iterator[Component]:
    """A component and all that it holds, however deep."""
    if isinstance(thing, Component):
        yield thing
        for value in vars(thing).values():
            yield from components(value)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from components(value)


def line_buffer_bytes(core: Component) -> int:
    """What the rings of all windows hold."""
    rings = {id(part): part for part in components(core) if isinstance(part, LineBuffer)}
    return sum(-(-ring.depth * ring.lanes * ring.element.width // 8) for ring in rings.values())


def facts(pipeline: Pipeline) -> dict[str, Any]:
    plan, technology = pipeline.plan, pipeline.board.technology()
    return {
        "stages": len(plan.stages), "interval": plan.interval, "latency": plan.latency,
        "multipliers": plan.multipliers, "multiplications": plan.multiplications,
        "multiplier_use": plan.multiplier_use, "resources": plan.resources.counts(),
        "queue_bytes": sum(link.buffer_bytes for link in plan.links),
        "line_buffer_bytes": line_buffer_bytes(hls.lower(pipeline.graph, plan, technology)),
        "stage_facts": [{"stage": stage.name, "interval": stage.schedule.interval, "work": stage.schedule.work,
                         "use": stage.multiplier_use(plan.interval)} for stage in plan.stages]}


if __name__ == "__main__":
    shapes = tuple(input_shape(text) for text in sys.argv[4:])
    print(json.dumps(facts(Pipeline(Console(quiet=True), Project(
        Path(sys.argv[1]), data=Path(sys.argv[2]), build=Path(sys.argv[3]), input_shapes=shapes)))))
