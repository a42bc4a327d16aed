"""Post-training quantization: from a float model to a QDQ model.

    FLOAT_PASSES -> `prepare`: values on calibration data -> `finish`: forms of tensors -> insert_quantizers
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Model
from hwflow.onnx.rewrite.passes import PASSES, Pass
from hwflow.quantize.calibrate import ranges as calibrate
from hwflow.quantize.calibrate.activations import ActivationForm, Histogram, resolved_method
from hwflow.quantize.calibrate.choose import choose, learn
from hwflow.quantize.calibrate.equalize import equalize
from hwflow.quantize.calibrate.fitted import fit
from hwflow.quantize.calibrate.insert import insert
from hwflow.quantize.calibrate.points import Point, common_ranges, points, scale_source
from hwflow.quantize.calibrate.prepared import (
    LEAST_ROWS,
    Prepared,
    Trial,
    chosen_of,
)
from hwflow.quantize.calibrate.ranges import Progress
from hwflow.quantize.calibrate.recurrent import needs_reaches, reaches, with_reaches
from hwflow.quantize.calibrate.room import Room
from hwflow.quantize.calibrate.tune import equalizes, resolved
from hwflow.quantize.calibrate.weights import recurrent_weights
from hwflow.quantize.checks.meaning import Proof, Trail
from hwflow.quantize.chosen import Chosen
from hwflow.quantize.dialects.standard import with_wide_integers
from hwflow.quantize.graphs import as_ints, is_layer, label_of, producers
from hwflow.quantize.passes.affine import fold_affine, fold_affine_before_rankings
from hwflow.quantize.passes.functions import functions_before_moves, prelu_to_relu
from hwflow.quantize.passes.joins import clamps_before_concat
from hwflow.quantize.passes.masks import with_floors
from hwflow.quantize.passes.normalise import matrix_to_gemm, max_pool_last, name_nodes
from hwflow.quantize.passes.pads import fold_pads
from hwflow.quantize.passes.products import factors_behind_products
from hwflow.quantize.passes.tables import functions_into_tables
from hwflow.quantize.settings import (
    ActivationSettings,
    Effort,
    LayerSettings,
    QuantizationSettings,
    WeightSettings,
)
from hwflow.quantize.settings_file import nearest_name, settings_to_yaml

#: What a float model goes through before its ranges are measured, in order.
FLOAT_PASSES: tuple[Pass, ...] = (
    Pass("name-nodes", "Give every node a name of its own.", name_nodes),
    Pass("functions-into-tables", "Compute functions of a table's rows once, for the table.", functions_into_tables),
    Pass("factors-behind-products", "Scale products of two computed tensors, not what they multiply.",
         factors_behind_products),
    Pass("matrix-to-gemm", "Give products one form: Gemm with transB and bias, Conv with bias.", matrix_to_gemm),
    Pass("functions-before-moves", "Compute functions of elements before elements move.", functions_before_moves),
    Pass("fold-affine", "Fold batch normalization, bias and scaling into the weights before them.", fold_affine),
    Pass("prelu-to-relu", "Write PRelu with slopes per channel as Relu of x and of -x.", prelu_to_relu),
    Pass("max-pool-last", "Move Relu and Clip in front of a MaxPool.", max_pool_last),
    Pass("clamps-before-concat", "Move Relu and Clip in front of a Concat.", clamps_before_concat),
    Pass("fold-pads", "Write Pad as padding of the layers that these passes made.", fold_pads),
)

#: What follows them where the settings ask for hardware_argmax.
BEFORE_RANKINGS = Pass(
    "affine-before-rankings", "Fold a * x + b before an ArgMax, or write it as a layer.", fold_affine_before_rankings
)

#: What follows them where the settings ask for it.
EQUALIZE = Pass("equalize", "Give the weights of two layers in a row like sizes in all channels.", equalize)

#: Of the metadata of a QDQ model: who found its scales.  What hwflow made means what it was made with.
CALIBRATED = "hwflow.calibrated"


@dataclass(frozen=True)
class PostTraining:
    """A float model as a QDQ model.

    `twin` is the model in reals that `qdq` approximates; `sources` maps the activation tensors of `qdq`, integer and
    real, to the tensor of `twin` that has the same meaning.  `settings_text` is the YAML text with every choice made,
    `chosen` those that were made on rows held back.
    """

    qdq: Model
    twin: Model
    sources: Mapping[str, str]
    settings_text: str
    chosen: Chosen | None = None


def to_qdq(
    model: Model,
    calibration: Mapping[str, Array] | None,
    settings: QuantizationSettings,
    notes: list[str],
    progress: Progress | None,
    proof: Proof | None = None,
) -> PostTraining:
    """Quantize the float `model`, whose shapes are static.  What the user should know goes into `notes`.

    `calibration` maps each input to rows [n, *its shape]; None stands for made-up data.  HwflowError: calibration data
    or settings that do not fit the model.  MeaningChanged: a pass, one here or on the trail of
    `proof` to `model`, changed what the model computes.
    """
    prepared = prepare(model, calibration, settings, notes, progress, proof)
    choice = choose(prepared, settings)
    if choice is None:
        return finish(prepared, settings, notes)
    if settings.effort is Effort.BEST and settings.equalize is None and not prepared.equalized:
        equal = prepare(model, calibration, replace(settings, equalize=True), [], None, proof)
        other = choose(equal, settings)
        if other is not None and other.noise.beats(choice.noise):
            prepared, choice = equal, other.after("weights equalized", other.noise.gain(choice.noise))
    if settings.effort is Effort.BEST:
        choice = learn(prepared, settings, choice)
    notes.append(str(choice.chosen))
    return replace(finish(prepared, choice.settings, notes), chosen=choice.chosen)


def prepare(
    model: Model,
    calibration: Mapping[str, Array] | None,
    settings: QuantizationSettings,
    notes: list[str],
    progress: Progress | None = None,
    proof: Proof | None = None,
) -> Prepared:
    """The part that does not depend on widths, methods and roundings of `settings`, and so needs to be done once."""
    asked = (BEFORE_RANKINGS,) if settings.hardware_argmax else ()
    trail = (proof.trail if proof else Trail(model)).run((*FLOAT_PASSES, *asked, *PASSES))
    graph = trail.end.graph
    equalized = equalizes(settings, (label_of(node) for node in graph.nodes if is_layer(node, graph.initializers)))
    if equalized:
        trail = trail.run((EQUALIZE,))
    if proof is not None:
        proof.meaning.require(trail)
    model = trail.end
    tensor_points = points(model, settings.hardware_argmax)
    _check_types(model, tensor_points)
    if calibration is None and all(chosen_of(point, settings).range is not None for point in tensor_points):
        inside = reaches(model, calibrate.synthetic(model)) if needs_reaches(model) else {}
        return Prepared(model, tensor_points, common_ranges(model, tensor_points), None, None, equalized, inside)
    rows = calibrate.synthetic(model) if calibration is None else calibrate.checked(model, calibration)
    model = with_floors(model, rows)
    tensor_points = points(model, settings.hardware_argmax)
    common, tensors = common_ranges(model, tensor_points), [point.tensor for point in tensor_points]
    if calibration is None:
        notes.append(
            f"no calibration data: ranges come from {calibrate.SYNTHETIC_ROWS} rows of normally distributed noise, "
            "and the accuracy will suffer; give real inputs with --data"
        )
    seen, trial = _measured(model, rows, tensors, settings, progress, notes, is_real=calibration is not None)
    room = Room.of(model, tensor_points, rows, settings.room)
    rows_kept = None if calibration is None else rows
    return Prepared(model, tensor_points, common, rows_kept, seen, equalized, reaches(model, rows), room, trial)


def _measured(
    model: Model, rows: Mapping[str, Array], tensors: list[str], settings: QuantizationSettings,
    progress: Progress | None, notes: list[str], *, is_real: bool,
) -> tuple[dict[str, Histogram], Trial | None]:  # fmt: skip
    """The values of `tensors`; and rows to compare choices on, where there are enough that `is_real`."""
    count = min(len(array) for array in rows.values())
    wanted = is_real and settings.effort is not Effort.QUICK and not settings.room
    if wanted and count < LEAST_ROWS:
        notes.append(f"nothing is compared on {count} calibration rows, of which none can be held back: with "
                     f"{LEAST_ROWS} and more, ranges and roundings are chosen by noise")
    if not wanted or count < LEAST_ROWS:
        return calibrate.measure(model, rows, tensors, progress), None
    fitted, held = Trial.numbers(count)
    seen = calibrate.measure(model, rows, tensors, progress, fitted)
    return calibrate.measure(model, rows, tensors, progress, held, seen), Trial.of(rows, seen)


def _check_types(model: Model, tensors: tuple[Point, ...]) -> None:
    """A comparison whose result leaves the function it decides in has nothing to scale."""
    for point in tensors:
        kind = model.graph.tensor_type(point.tensor)
        if kind is not None and kind.dtype.kind != "f":
            raise HwflowError(
                f"tensor '{point.tensor}' of '{point.owner}' must be float to become integers, not {kind.dtype}",
                "let one Where read it, that chooses between functions of the same tensor"
            )


def finish(prepared: Prepared, settings: QuantizationSettings, notes: list[str]) -> PostTraining:
    """The QDQ model for `settings`."""
    _check_names(prepared, settings)
    fitted = fit(prepared, settings, notes)
    chosen, activations, tuned = fitted.chosen, fitted.activations, fitted.tuned
    _check_padding(prepared, activations)
    inserted = insert(tuned.model, activations, tuned.weights)
    loops = {name: (form.w, form.r) for name, form in tuned.loops.items()}
    qdq = with_wide_integers(recurrent_weights(
        inserted.model, lambda node: settings.layer(label_of(node)).weights, loops))
    text = settings_to_yaml(_resolved(prepared, settings, chosen, tuned.settings))
    qdq = with_reaches(qdq, prepared.reaches)
    qdq = replace(qdq, metadata={**qdq.metadata, CALIBRATED: "hwflow"})
    return PostTraining(qdq, prepared.twin, inserted.sources, text)


def _check_padding(prepared: Prepared, activations: Mapping[str, ActivationForm]) -> None:
    """Padding needs a 0, which -1 and +1 do not have."""
    makers = producers(prepared.twin.graph)
    owners = {point.tensor: f"{'inputs' if point.is_input else 'layers'}/{point.owner}" for point in prepared.points}
    for node in prepared.twin.graph.nodes:
        padded = any(as_ints(node.attributes.get("pads", ()))) or "SAME" in str(node.attributes.get("auto_pad", ""))
        if node.op_type not in ("Conv", "AveragePool") or not padded:
            continue
        source = scale_source(node.inputs[0], makers, activations)
        if source in activations and activations[source].format.bipolar:
            raise HwflowError(
                f"settings: {owners[source]} must have more than one symmetric bit, because '{node.name}' pads "
                f"'{source}' with zeros, and there are only -1 and +1", "take 2 bits, or symmetric: false"
            )


def _check_names(prepared: Prepared, settings: QuantizationSettings) -> None:
    """Settings of a node that is a part of another, or runs on the host, would be passed over in silence."""
    layers = [point.owner for point in prepared.points if not point.is_input]
    layers += [node.name for node in prepared.layers if node.name not in layers]
    inputs = [point.owner for point in prepared.points if point.is_input]
    for section, names, there in (("layers", settings.layers, layers), ("inputs", settings.inputs, inputs)):
        for name in names:
            if name not in there:
                kind = "a layer" if section == "layers" else "an input"
                raise HwflowError(
                    f"settings: {section}/{name} must be {kind} with integers of its own, not what runs on the host or "
                    f"is a part of another layer (a Relu belongs to the layer before it){nearest_name(name, there)}"
                )


def _resolved(
    prepared: Prepared,
    settings: QuantizationSettings,
    chosen: Mapping[str, ActivationSettings],
    weights: Mapping[str, WeightSettings],
) -> QuantizationSettings:
    """`settings` with nothing left to decide; `weights` are those of the layers that have some."""
    inputs = {point.owner: chosen[point.tensor] for point in prepared.points if point.is_input}
    layers: dict[str, LayerSettings] = {}

    def nothing_left(name: str) -> LayerSettings:
        layer = settings.layer(name)
        own = weights.get(name) or resolved(layer.weights, name, has_data=prepared.rows is not None)
        return replace(layer, weights=own, output=replace(layer.output, method=resolved_method(layer.output)))

    for node in prepared.layers:
        layers[node.name] = nothing_left(node.name)
    for point in prepared.points:
        if not point.is_input:
            layer = layers.get(point.owner) or nothing_left(point.owner)
            layers[point.owner] = replace(layer, output=chosen[point.tensor])
    return QuantizationSettings(nothing_left(""), layers, inputs, prepared.equalized, settings.hardware_argmax,
                                joint_steps=settings.joint_steps)
