"""The passes of quantization in order, and `quantize`, which runs them.

A float model becomes a QDQ model first (calibration, int8 weights); a QDQ model is taken as it is.  Both then go
through the same importer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from hwflow_base.errors import HwflowError

from hwflow.layers import TopK
from hwflow.layers.base import LayerGraph
from hwflow.onnx import infer, operators, simplify
from hwflow.onnx.about import names_file
from hwflow.onnx.inference.open_sizes import shapes_of_rows
from hwflow.onnx.model import Array, Model
from hwflow.onnx.rewrite.passes import PASSES, Pass
from hwflow.onnx.run.sequences import state_pairs, with_state_rows
from hwflow.outcome import OutcomeWarning
from hwflow.quantize.calibrate.partly_quantized import complete, rows_of, trial_form, with_quantizers
from hwflow.quantize.calibrate.prepared import Prepared
from hwflow.quantize.calibrate.ranges import Progress, checked, equal_rows
from hwflow.quantize.calibrate.weights import has_real_weights, recurrent_weights
from hwflow.quantize.checks.imported_layers import require_layers
from hwflow.quantize.checks.meaning import NOT_COMPARED, Meaning, Proof, Trail
from hwflow.quantize.chosen import Chosen
from hwflow.quantize.dialects.classical.kernels import products_of_kernels
from hwflow.quantize.dialects.classical.missing import lost_ways
from hwflow.quantize.dialects.classical.rules import classical_to_standard, takes_wide_integers
from hwflow.quantize.dialects.qoperator import dequantize_before_pool
from hwflow.quantize.dialects.quantized_constants import fold_constant_layout, small_floats_to_float32
from hwflow.quantize.dialects.standard import to_standard_qdq
from hwflow.quantize.importer import host
from hwflow.quantize.importer.building import Building
from hwflow.quantize.importer.importer import Importer
from hwflow.quantize.importer.kept import states
from hwflow.quantize.importer.segment_fit import segment_notes
from hwflow.quantize.passes.batches import batches_to_dilations
from hwflow.quantize.passes.caches import caches_to_rows
from hwflow.quantize.passes.choices import choices_to_products
from hwflow.quantize.passes.computed_masks import computed_masks, require_keys
from hwflow.quantize.passes.decomposed import decomposed_to_operators
from hwflow.quantize.passes.flags import flags_behind_moves
from hwflow.quantize.passes.floats import float_note, floats_to_float32
from hwflow.quantize.passes.host_states import leave_to_the_host, notes_on
from hwflow.quantize.passes.joins import (
    constant_parts_to_pads,
    joins_to_sums_and_products,
    limits_to_joins,
    sum_to_add,
)
from hwflow.quantize.passes.masks import masks_before_softmax, with_floors
from hwflow.quantize.passes.normalise import convert_old, layout_before_dequantize, max_pool_last, merge_equal
from hwflow.quantize.passes.pads import fold_pads
from hwflow.quantize.passes.products import gemm_of_two, rows_to_conv, vectors_to_matrices
from hwflow.quantize.passes.recurrent import batch_second, last_states_of_y, whole_sequences
from hwflow.quantize.passes.spectra import fourier_to_products, turn_before_copies
from hwflow.quantize.passes.streaming import keep_states
from hwflow.quantize.passes.tables import numbers_of_rows, one_hot_to_gather, tables_to_constants
from hwflow.quantize.passes.tracing import traced_moves
from hwflow.quantize.passes.transposed import transposed_to_conv
from hwflow.quantize.passes.widened import widened_to_expand
from hwflow.quantize.post_training import CALIBRATED, PostTraining, finish, prepare, to_qdq
from hwflow.quantize.problems import raise_all
from hwflow.quantize.provenance import originals, origins, renamed_sources, twin, views
from hwflow.quantize.quantized import Quantized
from hwflow.quantize.settings import QuantizationSettings, WeightSettings, choices_of_widths, for_classical
from hwflow.quantize.support import unsupported

#: What gives a model the forms that the rest knows, and its integers those of a standard QDQ model, in order; models
#: that have them stay as they are.
DIALECT_PASSES: tuple[Pass, ...] = (
    Pass("convert-opset", "Write models of older operator sets as operator set 13 does.", convert_old),
    Pass("floats-to-float32", "Compute in float32 what is float16, bfloat16 or float64.", floats_to_float32),
    Pass("classical-to-standard", "Write trees with integers, linear models as Gemm.", classical_to_standard),
    Pass("to-standard-qdq", "Write QOperator and QONNX nodes as standard ones between quantizers.", to_standard_qdq),
    Pass("small-floats-to-float32", "Compute constants of float8 and float4.", small_floats_to_float32),
    Pass("sum-to-add", "Write Sum with Add.", sum_to_add),
    Pass("limits-to-joins", "Write Clip with computed limits as Max and Min.", limits_to_joins),
    Pass("traced-moves", "Write what goes to constant places as Concat, Slice and Gather.", traced_moves),
    Pass("constant-parts-to-pads", "Write constants that a Concat joins as padding.", constant_parts_to_pads),
    Pass("batches-to-dilations", "Write convolutions of every d-th row and column as dilated ones.",
         batches_to_dilations),
    Pass("decomposed-to-operators", "Write normalizations and softmaxes of many nodes as one.",
         decomposed_to_operators),
    Pass("caches-to-rows", "Write rows at computed places as TensorScatter, what the place decides as tables.",
         caches_to_rows),
    Pass("widened-to-expand", "Repeat elements before a constant of more elements meets them.", widened_to_expand),
    Pass("flags-behind-moves", "Move numbers in place of what is true or false.", flags_behind_moves),
    Pass("computed-masks", "Add what hides scores by a computed mask.", computed_masks),
    Pass("masks-before-softmax", "Add what hides scores right before their Softmax.", masks_before_softmax),
    Pass("choices-to-products", "Write what another tensor chooses as products with 0 and 1.", choices_to_products),
    Pass("fourier-to-products", "Write STFT and DFT as products with constants.", fourier_to_products),
    Pass("one-hot-to-gather", "Write a product with one-hot rows as a Gather of rows.", one_hot_to_gather),
    Pass("tables-to-constants", "Choose rows of a table before they are dequantized.", tables_to_constants),
    Pass("numbers-of-rows", "Bring the numbers that choose rows of a table into its range.", numbers_of_rows),
    Pass("gemm-of-two", "Write a computed bias of a Gemm, and any of two computed tensors, as a sum.", gemm_of_two),
    Pass("vectors-to-matrices", "Write products with a constant vector as products with a matrix.",
         vectors_to_matrices),
    Pass("rows-to-conv", "Write products of several rows with constants as 1x1 convolutions.", rows_to_conv),
    Pass("turn-before-copies", "Turn a tensor before shifted copies of it are stacked.", turn_before_copies),
    Pass("joins-to-sums-and-products", "Write Div, Max and Min of two tensors with Mul, Add and Sub.",
         joins_to_sums_and_products),
    Pass("constant-layout", "Change the layout of quantized constants once.", fold_constant_layout),
    Pass("transposed-to-conv", "Write ConvTranspose as a Conv whose channels become pixels.", transposed_to_conv),
    Pass("fold-pads", "Write Pad as padding of the next window.", fold_pads),
    Pass("whole-sequences", "Leave out sequence_lens of whole sequences.", whole_sequences),
    Pass("batch-second", "Write recurrent nodes of layout 1 as layout 0.", batch_second),
    Pass("last-states-of-y", "Read the last hidden state of a recurrent node from its Y.", last_states_of_y),
    Pass("dequantize-before-pool", "Pool the dequantized input, not its integers.", dequantize_before_pool),
    Pass("states-of-the-host", "Leave states to the host that are read and made behind the layers.",
         leave_to_the_host),
)

#: What a QDQ model goes through before it is imported, in order.
QDQ_PASSES: tuple[Pass, ...] = (
    Pass("max-pool-last", "Move Relu, Clip and QuantizeLinear in front of a MaxPool.", max_pool_last),
    Pass("layout-before-dequantize", "Change the layout of integers, not of reals.", layout_before_dequantize),
    Pass("merge-equal", "Quantize, dequantize and move a tensor once in each way.", merge_equal),
)


#: What a model computes on some rows, of (the model, the rows, the same model with static input shapes).
_Judged: TypeAlias = Callable[[Model, Mapping[str, Array] | None, Model | None], Meaning]


@names_file
def quantize(
    model: Model,
    calibration: Mapping[str, Array] | None = None,
    *,
    settings: QuantizationSettings | None = None,
    input_shapes: Mapping[str, tuple[int, ...]] | None = None,
    progress: Progress | None = None,
    original: Model | None = None,
    proven: bool = True,
) -> Quantized:
    """Integers for `model`.

    `calibration` maps each input to rows [n, *its shape with batch 1]; only float models read it, and without it they
    are calibrated on made-up data, which `notes` says.  `settings` are the user's choices; of a model that is quantized
    already only output stages can be chosen.  Rows of a streaming model are one sequence, and its states need none.
    `input_shapes` are as in `hwflow.onnx.infer`; the rows decide other open sizes.  `progress` is called with (rows
    done, all rows) of what is measured.  `original` is the model as its file has it, where `model` was made of it; each
    rewrite from there on is checked (`quantize/checks/meaning.py`), but not with `proven` False, for a look at the
    nodes.

    HwflowError: settings that do not fit the model, or everything in it that cannot become hardware, in one message.
    """
    shapes = shapes_of_rows(model.graph, input_shapes, calibration)
    inferred, calibration, original = _with_states(infer(model, shapes), calibration, original)
    trail = Trail(inferred).run((*PASSES, *DIALECT_PASSES))
    given = model.notes
    raise_all(unsupported(model := trail.end))
    _require_data(trail, calibration)
    judged = Meaning.of if proven else _nothing_said
    meaning = judged(original, calibration, inferred)
    notes = [*(note for note in inferred.notes if note not in given), *filter(None, (float_note(inferred),)),
             *notes_on(inferred.graph, model.graph), *lost_ways(inferred, calibration), *_not_compared(meaning)]
    proof, settings = Proof(trail, meaning), settings or QuantizationSettings()
    if _is_quantized(model):
        form = _of_quantized(proof, judged, calibration, settings, notes, progress)
    else:
        settings = for_classical(settings, products_of_kernels(model)) if takes_wide_integers(inferred) else settings
        form = _of_floats(to_qdq(model, calibration, settings, notes, progress, proof), judged, calibration)
    integers = _integers(form, settings, original, notes, equal_rows((form.settings and calibration) or {}))
    return replace(integers, graph=replace(integers.graph, origins=origins(integers.graph, inferred.graph)))


def prepared_for(
    model: Model, calibration: Mapping[str, Array] | None, settings: QuantizationSettings
) -> tuple[Prepared, QuantizationSettings]:
    """The part of `quantize` of the float `model` that is the same for all widths, and `settings` as that takes them.

    HwflowError: a model that is quantized already, whose widths are fixed; and as `quantize`.
    """
    inferred, calibration, _ = _with_states(infer(model, shapes_of_rows(model.graph, None, calibration)), calibration,
                                            None)  # fmt: skip
    trail = Trail(inferred).run((*PASSES, *DIALECT_PASSES))
    raise_all(unsupported(trail.end))
    _require_data(trail, calibration)
    if _is_quantized(trail.end):
        raise HwflowError("a model that is quantized already has its widths in the file", "start from the float model")
    if takes_wide_integers(inferred):
        settings = for_classical(settings, products_of_kernels(trail.end))
    return prepare(trail.end, calibration, settings, []), settings


def of_prepared(prepared: Prepared, settings: QuantizationSettings, *, tuned: bool = True) -> Quantized:
    """The integers that `quantize` gives, without measuring ranges or comparing rewrites again: for many settings.

    What is not `tuned` gets the integers next to the weights, with no look at the data: a hundredth of the time.
    """
    trained = finish(prepared if tuned else replace(prepared, rows=None), settings, [])
    form = _of_floats(trained, _nothing_said, None)
    return _integers(form, settings, prepared.twin, [], ())


def _require_data(trail: Trail, calibration: Mapping[str, Array] | None) -> None:
    """HwflowError for tensors without elements, and for a row of a float model's data whose mask hides every key."""
    _require_values(trail.end)
    if calibration is not None and not _is_quantized(trail.end):
        masked = trail.before("computed-masks")
        require_keys(masked, checked(masked, calibration))


def _not_compared(meaning: Meaning) -> tuple[str, ...]:
    """The note that rewrites were compared with nothing, and why; nothing where they were."""
    return (f"{NOT_COMPARED} {meaning.problem}",) if meaning.problem else ()


def _nothing_said(model: Model, rows: Mapping[str, Array] | None, static: Model | None) -> Meaning:
    """Nothing to compare a rewritten model with."""
    return Meaning(model, ())


def _with_states(
    model: Model, calibration: Mapping[str, Array] | None, original: Model | None
) -> tuple[Model, Mapping[str, Array] | None, Model]:
    """`model` with states of its layers, `calibration` with rows of them, and what the rewritten model is compared to.

    That is `original` where there is one, but of a streaming model, whose file may have its states elsewhere.
    """
    rewritten = keep_states(model)
    if not state_pairs(rewritten):
        return rewritten, calibration, original or rewritten
    return rewritten, None if calibration is None else with_state_rows(rewritten, calibration), rewritten


@dataclass(frozen=True)
class _Form:
    """A QDQ model, and `model`, the form of it that is imported and computes what `meaning` says.

    `twin` and `sources` are the model in reals and its tensors; `settings` is the YAML text of a calibrated model, and
    `chosen` what quantization chose for it.
    """

    qdq: Model
    model: Model
    meaning: Meaning
    twin: Model
    sources: Mapping[str, str]
    settings: str = ""
    chosen: Chosen | None = None


def _lacking(model: Model, settings: QuantizationSettings) -> tuple[str, ...]:
    """The tensors of the QDQ `model` that layers read and no quantizer makes integers, and constants likewise.

    Each round finds those behind the ones that are known; their ranges play no part.
    """
    names: dict[str, None] = {}
    while True:
        trial = with_quantizers(model, {name: trial_form() for name in names})
        whole = trial
        for step in QDQ_PASSES:
            whole = step.run(whole)
        importer = Importer(_known(whole), lambda node: settings.layer(node.name))
        importer.walk()
        own = {*model.graph.initializers, *(name for node in model.graph.nodes for name in node.outputs),
               *(value.name for value in model.graph.inputs)}  # fmt: skip
        new = [name for name in importer.lacking if name in own and name not in names]
        if not new:
            return tuple(names)
        names.update(dict.fromkeys(new))


def _of_quantized(
    proof: Proof, judged: _Judged, calibration: Mapping[str, Array] | None, settings: QuantizationSettings,
    notes: list[str], progress: Progress | None,
) -> _Form:  # fmt: skip
    """The form of a model that came quantized, which is the end of the trail of `proof`."""
    _require_no_widths(settings)
    whole = proof.run(QDQ_PASSES)
    merged = proof.trail.run(QDQ_PASSES[-1:]).end  # one tensor that several layers read in one order is one
    lacking = _lacking(merged, settings)
    if lacking:
        floored = with_floors(merged, rows_of(merged, calibration))
        lacking = lacking if floored is merged else _lacking(floored, settings)
        completed = complete(floored, lacking, calibration, notes, progress)
        proof = Proof(Trail(completed), judged(completed, calibration, None))
        whole = proof.run(QDQ_PASSES)
    end = whole.trail.end
    if has_real_weights(end):
        return _of_recurrent(recurrent_weights(end, lambda node: WeightSettings()), judged, calibration)
    model = _known(end)
    return _Form(proof.trail.end, model, proof.meaning, *twin(model))


def _of_recurrent(qdq: Model, judged: _Judged, calibration: Mapping[str, Array] | None) -> _Form:
    """The form of a QDQ model whose recurrent nodes had real weights."""
    model = _known(qdq)
    return _Form(qdq, model, judged(qdq, calibration, None), *twin(model))


def _of_floats(trained: PostTraining, judged: _Judged, calibration: Mapping[str, Array] | None) -> _Form:
    """The form of a model that was calibrated, with `calibration`."""
    proof = Proof(Trail(trained.qdq), judged(trained.qdq, calibration, None)).run(QDQ_PASSES)
    model = _known(proof.trail.end)
    sources = renamed_sources(model, trained.sources)
    return _Form(trained.qdq, model, proof.meaning, trained.twin, sources, trained.settings_text,
                 trained.chosen)


def _integers(
    form: _Form,
    settings: QuantizationSettings,
    source: Model,
    notes: list[str],
    warnings: tuple[OutcomeWarning, ...],
) -> Quantized:
    """Import `form`, which was made of `source`, and compare its layers with what they stand for."""
    graph, before, entering, after, building = _import(form.model, settings)
    tensors = building.sources
    require_layers(form.meaning, form.model, graph, (before, entering), tensors, building.anchors)
    notes += [*segment_notes(graph), _host_note(form.model, before, after)]
    return Quantized(
        graph, before, after, tuple(notes), form.qdq, form.twin, views(tensors, form.sources, form.twin), form.settings,
        source, originals(tensors, form.sources, form.model, source), warnings, form.chosen,
    )  # fmt: skip


def _known(model: Model) -> Model:
    """With the shapes of what the passes added."""
    return simplify(infer(model))


def _require_values(model: Model) -> None:
    """Hardware has something to read, and every tensor has elements whose range can be measured."""
    graph = model.graph
    if not graph.inputs:
        raise HwflowError("the model must have an input, not none", "what it gives is constant and needs no hardware")
    for value in graph.inputs:
        shape = list((value.tensor and value.tensor.shape) or ())
        if 0 in shape:
            raise HwflowError(
                f"input '{value.name}' must have elements, not the shape {shape}", "export it with another"
            )
    for node in graph.nodes:
        for name in node.outputs:
            kind = graph.tensor_type(name) if name else None
            if kind is not None and 0 in (kind.shape or ()):
                raise HwflowError(
                    f"tensor '{name}' of {node.label} must have elements, not the shape {list(kind.shape or ())}",
                    "leave out such parts"
                )


def _is_quantized(model: Model) -> bool:
    return any(node.op_type in operators.QUANTIZERS for node in model.graph.nodes)


def comes_quantized(model: Model) -> bool:
    """Whether `model`, with every shape known, has integers of its own (QDQ, QOperator, QCDQ, QONNX)."""
    for step in DIALECT_PASSES:
        model = step.run(model)
    return _is_quantized(model)


def has_own_integers(model: Model) -> bool:
    """Whether `model` comes quantized, and not by hwflow: what that exported means the integers of its making."""
    return CALIBRATED not in model.metadata and comes_quantized(model)


def _require_no_widths(settings: QuantizationSettings) -> None:
    chosen = choices_of_widths(settings)
    if chosen:
        raise HwflowError(
            "settings of a model that is quantized already must be output stages and bits of rescaling alone, not "
            f"{chosen[0]}",
            "its widths and scales are fixed in the file: start from the float model to choose them"
        )


def _import(model: Model, settings: QuantizationSettings) -> tuple[LayerGraph, Model, Model, Model, Building]:
    """The layer graph, the host programs with the one of its states between them, and what is known of where the
    graph's tensors and layers come from.
    """

    importer = Importer(model, lambda node: settings.layer(node.name), settings.hardware_argmax)
    importer.walk()
    after, outputs = host.epilogue(importer, settings.hardware_argmax)
    graph = importer.layer_graph(outputs, states(importer))
    raise_all(importer.problems)
    if not graph.layers:
        raise HwflowError("the model must have a layer that becomes hardware (Conv, Gemm, MatMul, pooling), not none",
                          "a processor runs it as it is")
    if settings.hardware_argmax and not any(isinstance(layer, TopK) for layer in graph.layers):
        raise HwflowError(_no_argmax(model))
    graph.check()
    return graph, host.prologue(importer), host.entering_states(importer), after, importer.building


def _no_argmax(model: Model) -> str:
    makers = {name: f"is made by {node.op_type}" for node in model.graph.nodes for name in node.outputs}
    ends = ", ".join(f"'{value.name}' {makers.get(value.name, 'is an input')}" for value in model.graph.outputs)
    return (
        f"--hardware-argmax wants a model that ends in ArgMax, ArgMin or TopK; {ends}; leave the option out, or end "
        "the model in an ArgMax before the export"
    )


def _host_note(model: Model, before: Model, after: Model) -> str:
    """Which operators run on the host, but for those that only give frames the order of `model`."""
    own = {name for node in model.graph.nodes for name in node.outputs}
    nodes = [node for program in (before, after) for node in program.graph.nodes]
    silent = [n for n in nodes if n.op_type == "Reshape" or (n.op_type == "Gather" and not own.intersection(n.outputs))]
    names = dict.fromkeys(node.op_type for node in nodes if not any(node is other for other in silent))
    return f"on the host: {', '.join(names) or 'nothing but the order of elements'}"
