"""`hwflow golden`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated

from hwflow_base.later import later
from hwflow_base.options import Option, Range, command_line

from ..options import BOARD, BoardName, GoalOptions, HardwareOptions, Project, QuantizationOptions, Verbose

with later():
    from ..pipeline.pipeline import Pipeline, required_dataset
    from ..pipeline.records import keep_accuracy
    from ..views.console.accuracy import show_accuracy, show_layers
    from ..views.console.terminal import Console
    from .widths_search import for_goal


@dataclass(frozen=True)
class GoldenRequest:
    """The request of `hwflow golden`."""

    project: Project
    quantization: QuantizationOptions = field(default_factory=QuantizationOptions)
    layer_rows: Annotated[int, Option(
        "Rows of data for the table of layers; 0 omits the table.", parse=Range(0))] = 100
    goal: GoalOptions = field(default_factory=GoalOptions)
    board: BoardName = BOARD
    verbose: Verbose = False


def golden(console: Console, request: GoldenRequest) -> Mapping[str, object]:
    """Run the golden model, in integers, on every row of the data: accuracy, confusion matrix, noise of each layer.

    Exit codes: 0 for any accuracy; 1 if no widths reach the goal; 2 if the model, the data or the settings are invalid.
    """
    pipeline = Pipeline(console, request.project, request.quantization, HardwareOptions(request.board),
                        layer_rows=request.layer_rows)
    required_dataset(pipeline, "golden must have inputs to run on")
    pipeline = for_goal(console, pipeline, request.goal)
    with pipeline.locked():
        accuracy = pipeline.accuracy()
        layers = pipeline.layer_noise()
        assert accuracy is not None, "there is data"
        rows = min(accuracy.rows, request.layer_rows)
        keep_accuracy(pipeline, accuracy, layers, rows)
    path = pipeline.folder / "golden" / "outputs.npz"
    show_accuracy(console, accuracy)
    if layers:
        show_layers(console, layers, rows)
    console.say(f"outputs written to {path}")
    console.next(command_line("sim", pipeline.project, pipeline.quantization, pipeline.hardware))
    return {"accuracy": accuracy.facts(), "layers": [{**asdict(layer), "snr_db": layer.snr_db} for layer in layers],
            "layer_rows": rows, "warnings": pipeline.warned.facts(), "outputs": str(path)}
