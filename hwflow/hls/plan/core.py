"""From a plan to hardware: the Amaranth core, and the image of the weights that are outside of it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError
from hwflow_rtl.core import Core, Link
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.initial_frame import InitialFrame
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.vendor import Technology

from hwflow.hls.plan.graph_stages import stages_of
from hwflow.hls.plan.plan import Plan
from hwflow.layers.base import LayerGraph, State
from hwflow.stages.codes import codes_of, shape_of


def lower(graph: LayerGraph, plan: Plan, technology: Technology) -> Core:
    """The core that computes `graph` with the foldings of `plan`; `technology` makes its multipliers and memories."""
    planned_stages = list(zip(stages_of(graph, plan.partition), plan.stages, strict=True))
    stages = [(stage.name, stage.unit(planned.folding, technology.placing(f"stage{stage.name}", planned.places)))
              for stage, planned in planned_stages]
    inputs = [stream_of(shape_of(graph.tensors[name].format), lanes)
              for name, lanes in zip(graph.inputs, plan.input_lanes, strict=True)]
    states = [initial_frame(graph, plan, k, state)
              for k, state in enumerate(plan.partition.states_outside(graph))]
    links = [Link(link.source, link.sink, link.port, link.depth, link.depth_after, link.spram)
             for link in plan.links]
    written = {k: [tensor.steps for tensor in stage.written(planned.folding)]
               for k, (stage, planned) in enumerate(planned_stages)}
    return Core(stages=stages, inputs=inputs, links=links, technology=technology, states=states,
                beats=graph.tensors[graph.inputs[0]].frame.elements // plan.input_lanes[0], written=written)


def initial_frame(graph: LayerGraph, plan: Plan, number: int, state: State) -> InitialFrame:
    """What a state that is a stream gives in its first frame, in the beats of `plan`; `number` is that of its end."""
    format = graph.tensors[state.read].format
    lanes = next(link.lanes_out for link in plan.links if link.source == Endpoint.state(number))
    return InitialFrame(shape=shape_of(format), values=codes_of(state.initial, format).reshape(-1, lanes))


def weight_image(graph: LayerGraph, plan: Plan) -> npt.NDArray[np.int64]:
    """The words of the memory outside with the weights of `graph` for `plan`: int64[words].

    HwflowError where no stage of the plan reads weights from there.
    """
    if plan.outside is None or not plan.streams:
        raise HwflowError(f"the plan of '{plan.model}' has no weights outside of the FPGA")
    beats = [stage.weight_beats(planned.folding)
             for stage, planned in zip(stages_of(graph, plan.partition), plan.stages, strict=True)
             if planned.folding.weight_rows]
    return plan.outside.sharing([weights.stream for weights in plan.streams]).image(beats)
