"""The result of quantization."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwflow_base.by_value import ByValue
from hwflow_base.notebook import drawn_html
from hwflow_base.short_repr import screen

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import EqualByValue, IntArray
from hwflow.onnx.inference.maps import class_names
from hwflow.onnx.model import Model
from hwflow.outcome import OutcomeWarning


@dataclass(frozen=True, eq=False)
class View(EqualByValue):
    """Where the values behind a tensor of the layer graph are found.

    `source` names a tensor of `Quantized.twin`, or of `Quantized.original`; `index` has its shape (batch 1), and an
    entry is the element's place in the raster (h, w, c) of the frame.
    """

    source: str
    index: IntArray


@dataclass(frozen=True, eq=False)
class Quantized(ByValue):
    """An integer graph, what the host computes around it, and where both came from.

    `prologue` maps the user's inputs to integer frames, `epilogue` maps frames to the user's outputs; each frame is an
    integer ONNX tensor [1, height, width, channels] named like its tensor of `graph`.  `notes` says what the user
    should know.  `qdq` is the same model as a standard QDQ model, for other runtimes; importing it gives this graph
    again.  `twin` is the model in reals: what `graph` would compute without rounding of activations (for a float model:
    without rounding of weights, too); `views` maps tensors of `graph` to the twin's.  `settings` is the YAML text that
    makes the same graph of the same float model and data; empty for a model that came quantized.  `original` is the
    model as its file has it, and `originals` maps tensors of `graph` to its tensors, reals or integers.
    `warnings` is what is the matter with the calibration.
    """

    graph: LayerGraph
    prologue: Model
    epilogue: Model
    notes: tuple[str, ...]
    qdq: Model
    twin: Model
    views: Mapping[str, View] = field(default_factory=dict)
    settings: str = ""

    _repr_html_ = drawn_html

    def __repr__(self) -> str:
        before, after = (", ".join(node.op_type for node in program.graph.nodes) or "nothing"
                          for program in (self.prologue, self.epilogue))
        return screen(f"Quantized '{self.graph.name}': {len(self.graph.layers)} layers",
                      [f"on the host before the layers: {before}", f"on the host after the layers: {after}",
                       *self.graph.shown()])

    @property
    def classes(self) -> Mapping[str, tuple[str | int, ...]]:
        """The names of the columns of each output that is a sequence of maps (ZipMap) in the file, by output."""
        return class_names(self.epilogue)

    original: Model | None = None
    originals: Mapping[str, View] = field(default_factory=dict)
    warnings: tuple[OutcomeWarning, ...] = ()
