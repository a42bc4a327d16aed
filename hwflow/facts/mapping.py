"""The fate of every node of a model: hardware, host, constant, or nothing, and then why and what to do about it.

Before anything is built, and everything at once: a node that cannot be is cut out of the model, its results become
inputs, and the rest is looked at again, until nothing new is found.  Ranges of activations are assumed instead of
measured, so no data is read and nothing is evaluated but constants.
"""

from __future__ import annotations

import enum
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from hwflow_base.errors import HwflowError, sentence

from hwflow.stages.kinds import tensor_problems

from ..layers.base import LayerGraph
from ..onnx import Model, infer, simplify
from ..onnx.errors import LimitError
from ..onnx.inference.static import suiting_inputs
from ..onnx.limits import DEFAULT_LIMITS, Limits
from ..onnx.model import Graph, Node, TensorType, Value
from ..onnx.operators import HOST_BEFORE, QUANTIZERS, advice_on
from ..onnx.rewrite.inline import inline_functions
from ..onnx.run.functions import Functions
from ..quantize import Quantized, quantize
from ..quantize.dialects.classical.rules import TREES
from ..quantize.dialects.standard import RULES
from ..quantize.graphs import consumers, dynamic_inputs, host_prefix
from ..quantize.passes.floats import float_note, floats_to_float32
from ..quantize.passes.normalise import convert_old
from ..quantize.passes.streaming import keep_states
from ..quantize.problems import Cause, NoHardware, Problem, with_cuts
from ..quantize.settings import (
    ActivationSettings,
    LayerSettings,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
)
from ..quantize.support import operators_without_hardware, require_small_frames, require_small_model
from .places import layers_without_hardware, made_on_host, nodes_without_operator, result_names


class Fate(enum.Enum):
    """CONSTANT: done before anything runs.  NONE: there is no hardware for it, and the host cannot do it there.

    UNKNOWN: it could not be looked at.
    """

    HARDWARE = "hardware"
    HOST = "host"
    CONSTANT = "constant"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class NodeMapping:
    """One node, and why and what to do where its fate is NONE."""

    index: int
    label: str
    name: str
    operator: str
    fate: Fate
    why: str = ""
    remedy: str = ""


def of_whole(error: HwflowError) -> Problem:
    """The message of `error` about the model as a whole, in one line."""
    why, remedy = (" ".join(text.split()) for text in (sentence(error.why, where=error.where), error.remedy))
    return Problem("the model", why, remedy)


@dataclass(frozen=True)
class Mapped:
    """`nodes`: those of the main graph, functions inlined.  `problems` belong to no node.

    `graph` is the integer graph where the model has one (its ranges are assumed); `complete` is False where not
    everything could be looked at, and then `problems` says why.  `notes` say what was changed to map the model.
    `beyond` is the limit that kept the model from being looked at.
    """

    nodes: tuple[NodeMapping, ...]
    problems: tuple[Problem, ...]
    graph: LayerGraph | None
    complete: bool
    notes: tuple[str, ...] = ()
    beyond: LimitError | None = None

    @property
    def possible(self) -> bool:
        """Whether the model can become hardware without a change."""
        return not self.problems and all(node.fate is not Fate.NONE for node in self.nodes)

    @property
    def all_problems(self) -> tuple[Problem, ...]:
        """The problems of the model as a whole, and one for each node that cannot be."""
        return (*self.problems, *(Problem(node.label, node.why, node.remedy) for node in self.of(Fate.NONE)))

    def is_all(self, error: HwflowError) -> bool:
        """Whether `error` is the only problem."""
        return [problem.why for problem in self.all_problems] == [of_whole(error).why]

    def of(self, fate: Fate) -> tuple[NodeMapping, ...]:
        return tuple(node for node in self.nodes if node.fate is fate)


#: Looks at ever smaller rests of a model, and the time after which no further one begins.
MOST_LOOKS, MOST_SECONDS = 12, 20.0

#: Of a float model: the quickest way from weights to integers, with ranges of made-up data, or that need none.
QUICK = WeightSettings(method=RangeMethod.MINMAX, rounding=WeightRounding.NEAREST, bias_correction=False)
MEASURED = QuantizationSettings(LayerSettings(QUICK), equalize=False)
ASSUMED = QuantizationSettings(LayerSettings(QUICK, ActivationSettings(range=(-1.0, 1.0))), equalize=False)

WITHOUT_OPERATOR = "write it with operators of ONNX, or as a function in the model"
WITHOUT_STAGE = "`hwflow golden` runs it; for hardware, cut the model in front of it and run the rest on the host"


def mapped(source: Model, shapes: Mapping[str, tuple[int, ...]], limits: Limits = DEFAULT_LIMITS,
           states: Mapping[str, str] | None = None) -> Mapped:
    """The fates of the nodes of `source`, a model as its file has it, whose inputs have `shapes` where given.

    HwflowError where `states` has a pair that is none (`keep_states`).
    """
    try:
        Functions(source.functions, limits).require_bounded(source.graph.nodes, source.opsets, "graph")
        base = inline_functions(source, limits)
    except HwflowError as error:
        look = _Look(source, source)
        look.whole(error)
        return look.result(None, None)
    look = _Look(base, source)
    missing = nodes_without_operator(base)
    for index, why in missing.items():
        look.node(index, why, _instead(base.graph.nodes[index], base))
    static = known = None
    try:
        require_small_model(source.graph)
    except HwflowError as error:
        look.whole(error)
    else:
        static = _static(base, look, missing, shapes, limits)
    if static is not None:
        try:
            require_small_frames(static.graph)
            known = _in_known_forms(static, look)
            static = None if known is None else floats_to_float32(known)
        except HwflowError as error:
            look.whole(error)
            static = None
    if static is None or known is None:
        for problem in operators_without_hardware(base):
            look.add(problem)
        return look.result(None, None)
    handed_on = keep_states(static, states) if states else static
    note = float_note(known)
    parts = look.parts(handed_on if handed_on.graph.kept else static)
    return replace(look.result(static, parts, _forms(known)), notes=(note,) if note else ())


def _instead(node: Node, model: Model) -> str:
    """What to do about a node whose operator hwflow does not have."""
    own = advice_on(node.domain, node.op_type)
    return WITHOUT_OPERATOR if own is None else own.to(model)


def _forms(model: Model) -> dict[str, str]:
    """The operator that makes each result."""
    return {name: node.op_type for node in model.graph.nodes for name in node.outputs}


def _in_known_forms(static: Model, look: _Look) -> Model | None:
    """Operators as the quantizer knows them; None where some have no such form, and `look` knows why."""
    try:
        return convert_old(static)
    except NoHardware as error:
        for problem in error.problems:
            look.add(problem)
        return None


class _Look:
    """Collects what is found out about the nodes of `model`, which was made of the file's model, `source`."""

    def __init__(self, model: Model, source: Model) -> None:
        self.model, self.source = model, source
        self.found: dict[int, Problem] = {}
        self.general: list[Problem] = []
        self.beyond: LimitError | None = None
        self.complete = True
        self._places = _NodeNames(model.graph)

    def node(self, index: int, why: str, remedy: str, cut: str | None = None) -> None:
        self.found.setdefault(index, Problem.of(self.model.graph.nodes[index], why, remedy, cut=cut))

    def whole(self, error: HwflowError) -> None:
        """Something about the model as a whole."""
        if isinstance(error, LimitError):
            self.beyond = self.beyond or error
        self.general.append(of_whole(error))

    def control(self, error: HwflowError) -> bool:
        """Whether `error` is about an If or a loop of the main graph, whose problem it then is."""
        for index, node in enumerate(self.model.graph.nodes):
            if node.op_type in ("If", "Loop", "Scan") and error.where.endswith(f"graph/node[{index}] {node.label}"):
                self.node(index, error.why, error.remedy)
                return True
        return False

    def add(self, problem: Problem) -> None:
        index = self._places.index(problem.where)
        if index is None:
            self.general.append(problem.advised())
        else:
            self.node(index, problem.why, problem.remedy, problem.cut)

    def parts(self, static: Model) -> Quantized | None:
        """Look at the model, and at what remains of it without the nodes that cannot be; None where some cannot."""
        started, part, first = time.monotonic(), static, True
        for _ in range(MOST_LOOKS):
            problems: tuple[Problem, ...] = ()
            try:
                quantized = trial(part) if first else _quick(part, ASSUMED)
            except NoHardware as error:
                problems = error.problems
            except HwflowError as error:
                if first:
                    self.whole(error)
                return None
            except MemoryError:
                self.whole(HwflowError("needs more memory than this machine has", "choose a smaller model"))
                return None
            else:
                self._layers(quantized.graph, whole=first)
                return quantized if first else None
            for problem in problems:
                if first or problem.cause is not Cause.NEIGHBOUR:  # the neighbours of a part are not the model's
                    self.add(problem)
            smaller = _without(part, {place for p in problems if (place := _NodeNames(part.graph).index(p.where))
                                      is not None})
            if smaller is None:
                return None
            if time.monotonic() - started > MOST_SECONDS:
                break
            part, first = smaller, False
        self.complete = False
        self.general.append(Problem("the model", "the nodes after these were not examined", "repair them first"))
        return None

    def _layers(self, graph: LayerGraph, *, whole: bool) -> None:
        """The layers that the golden model runs and hardware does not."""
        for layer, why in layers_without_hardware(graph).items():
            self.add(Problem(f"'{layer}' (layer)", why, WITHOUT_STAGE))
        if whole:
            for line in tensor_problems(graph):
                remedy = "leave it out of the model (`hwflow onnx extract` cuts models)"
                self.general.append(Problem("the model", line, remedy))

    def result(
        self, static: Model | None, quantized: Quantized | None, forms: Mapping[str, str] | None = None
    ) -> Mapped:
        """`forms` has the operators of `static` by their results, before a Cast gave outputs the type of the file."""
        nodes = self.model.graph.nodes
        problems = with_cuts(self.found.values(), self.source.graph)
        told = {k: (problem.why, problem.remedy) for k, problem in zip(self.found, problems, strict=True)}
        small, host = _kept(static), made_on_host(static, quantized) if static else set()
        findings = []
        for index, (node, names) in enumerate(zip(nodes, result_names(self.model.graph, forms or {}), strict=True)):
            operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
            name = node.name or f"{node.op_type} of '{next(filter(None, node.outputs), '?')}'"
            why, remedy = told.get(index, ("", ""))
            if index in told:
                fate = Fate.NONE
            elif small is None:
                fate = Fate.UNKNOWN
            elif not small.intersection(names):
                fate = Fate.CONSTANT
            else:
                there = any(((forms or {}).get(result, node.op_type), result) in host for result in names)
                fate = Fate.HOST if there else Fate.HARDWARE
            findings.append(NodeMapping(index, node.label, name, operator, fate, why, remedy))
        general = tuple(dict.fromkeys(self.general))
        return Mapped(tuple(findings), general, quantized.graph if quantized else None, self.complete,
                      beyond=self.beyond)


class _NodeNames:
    """Finds the node that a message means: by its label, its name, its results, or a name that begins so."""

    def __init__(self, graph: Graph) -> None:
        self.labels: dict[str, int] = {}
        self.names: dict[str, int] = {}
        for index, node in enumerate(graph.nodes):
            self.labels.setdefault(node.label, index)
            for name in filter(None, (node.name, *node.outputs)):
                self.names.setdefault(name, index)
        self.readers = {name: graph.nodes.index(nodes[0]) for name, nodes in consumers(graph).items()
                        if name in graph.initializers}

    def index(self, where: str) -> int | None:
        if where in self.labels:
            return self.labels[where]
        match = re.match(r"(tensor )?'(.*)'", where, re.DOTALL)
        if match is None:
            return None
        name = match[2]
        if match[1] and name in self.readers:
            return self.readers[name]
        if name in self.names:
            return self.names[name]
        begun = [known for known in self.names if name.startswith(known)]
        return self.names[max(begun, key=len)] if begun else None


def _static(base: Model, look: _Look, missing: Iterable[int], shapes: Mapping[str, tuple[int, ...]],
            limits: Limits) -> Model | None:
    """`base` without its unknown nodes, with every shape known; None where that cannot be, with the reason in `look`.

    Sizes that the file leaves open get the first values that work.
    """
    model: Model | None = base
    gone = set(missing)
    if gone:
        model = _without(base, gone)
        if model is None:
            return None
    assert model is not None
    try:
        return simplify(infer(model, shapes, limits))
    except HwflowError as error:
        problem = error
    if not look.control(problem):
        look.whole(problem)
    shapes_found = None if gone else suiting_inputs(model, shapes, limits)
    return None if shapes_found is None else simplify(infer(model, {**shapes, **shapes_found}, limits))


def trial(model: Model) -> Quantized:
    """`model` as integers, to find out what becomes of its nodes: no data, and nothing is compared.

    With assumed ranges, and where these are refused with those of made-up data, which allow other functions.
    """
    try:
        return _quick(model, ASSUMED)
    except NoHardware as refused:
        try:
            return _quick(model, MEASURED)
        except NoHardware:
            raise
        except HwflowError:
            raise refused from None


def _quick(model: Model, settings: QuantizationSettings) -> Quantized:
    """With `settings` where it does not come with integers of its own."""
    integers = any(n.op_type in QUANTIZERS or (n.domain, n.op_type) in {*RULES, *TREES} for n in model.graph.nodes)
    return quantize(model, settings=None if integers else settings, proven=False)


def _without(model: Model, gone: set[int]) -> Model | None:
    """`model` without some nodes: their results are inputs, what they read are outputs.  None where nothing is left."""
    graph = model.graph
    nodes = tuple(node for index, node in enumerate(graph.nodes) if index not in gone)
    cut = [graph.nodes[index] for index in sorted(gone)]
    read = {name for node in nodes for name in node.inputs}
    results = [name for node in cut for name in node.outputs if name]
    entering = []
    for name in results:
        if name in read:
            kind = graph.tensor_type(name)
            if not isinstance(kind, TensorType) or not kind.is_static:
                return None
            entering.append(Value(name, kind))
    computed = {name for node in nodes for name in node.outputs} - host_prefix(graph, HOST_BEFORE)
    ends = dict.fromkeys(value.name for value in graph.outputs if value.name not in results)
    ends |= dict.fromkeys(name for node in cut for name in dynamic_inputs(node, graph) if name in computed)
    if not gone or not ends or not nodes:
        return None
    outputs = tuple(Value(name, graph.tensor_type(name)) for name in ends)
    made_graph = replace(graph, nodes=nodes, inputs=(*graph.inputs, *entering), outputs=outputs)
    return simplify(replace(model, graph=made_graph))


def _kept(static: Model | None) -> set[str] | None:
    """The results of the nodes that constant folding leaves."""
    return None if static is None else {name for node in static.graph.nodes for name in node.outputs if name}
