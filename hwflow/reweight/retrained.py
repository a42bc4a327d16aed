"""A retrained model for a design that is routed already: the integers that fit it, and the bitstream.

It is quantized as the first model was, its constants are put into the form of the hardware, and these into the routed
design.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from hwflow_base.errors import AnswerIsNo
from hwflow_base.files.cache import cached_step, digest

from hwflow.stages.other_weights import fitted, with_rescale_of

from .. import hls
from ..host.identity import IDENTITY_FILE, DesignFacts, identity
from ..layers.base import LayerGraph
from ..layers.rescale import Requantize, RoomyRequantize, Thresholds
from ..options import QuantizationOptions
from ..pipeline.pipeline import Pipeline
from ..pipeline.routed_design import DESIGN, SETTINGS, RoutedDesign
from ..quantize import Quantized, comes_quantized, save_quantized
from ..quantize.settings import LayerSettings, OutputStage, QuantizationSettings
from ..quantize.settings_file import UnknownName, settings_from_yaml
from ..synth import Board, load_board
from .patching import REMEDY, ReweightReport, reweight


@dataclass
class Retrained(Pipeline):
    """The steps for a retrained model, and the first model's routed design in `base`, a build folder.

    It has a folder of its own inside `base`, and the choices with which the first model was quantized.
    """

    base: Path = field(kw_only=True)
    quantization: QuantizationOptions = field(default=QuantizationOptions(), init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.folder = self.base / "reweighted" / self.project.model.stem

    @cached_property
    def board(self) -> Board:
        """With the transport of the routed design."""
        board = load_board(self.hardware.board)
        folder = self.base / board.name / "synth"
        if not (folder / IDENTITY_FILE).is_file():
            return board
        transport = DesignFacts.read(folder).transport
        address = transport.options.get("address")
        return board.with_transport(transport.kind, None if address is None else str(address))

    @cached_property
    def routed(self) -> RoutedDesign:
        return RoutedDesign.of(self.base / self.board.name / "synth", self.board)

    @cached_property
    def plan(self) -> hls.Plan:
        """That of the routed design."""
        return self.routed.plan

    @cached_property
    def choices(self) -> QuantizationSettings:
        """Those of the first model, down to the ranges and to what makes each layer's results."""
        routed = self.routed
        wide = {layer.name: found.factor_bits for layer in routed.graph.layers
                if isinstance(found := getattr(layer, "requantize", None), RoomyRequantize) and found.factor_bits}
        if not routed.settings:
            return QuantizationSettings(layers={name: LayerSettings(rescale_bits=bits) for name, bits in wide.items()})
        source = routed.folder / DESIGN / SETTINGS
        try:
            choices = settings_from_yaml(routed.settings, str(source), self.model)
        except UnknownName as error:
            raise AnswerIsNo(
                f"'{self.project.model}' must have the layers of the first model: {error}", REMEDY
            ) from None
        stages = {layer.name: OutputStage.THRESHOLDS if isinstance(found, Thresholds) else OutputStage.MULTIPLY
                  for layer in routed.graph.layers
                  if isinstance(found := getattr(layer, "requantize", None), Requantize | Thresholds)}
        return replace(choices, layers={
            name: replace(layer, output_stage=stages.get(name, layer.output_stage),
                          rescale_bits=wide.get(name, layer.rescale_bits)) for name, layer in choices.layers.items()})

    @cached_property
    def fitted(self) -> tuple[LayerGraph, Quantized]:
        """The graph for the hardware, and the model with exactly its integers.

        AnswerIsNo with every stage and constant that does not fit.
        """
        routed = self.routed
        wanted, comes = not routed.settings, comes_quantized(self.model)
        if wanted != comes:
            came = {True: "quantized", False: "with real numbers"}
            raise AnswerIsNo(
                f"'{self.project.model}' must come {came[wanted]}, as the first model did, not {came[comes]}", REMEDY
            )
        quantized = self.quantize()
        graph, problems = fitted(quantized.graph, routed.graph)
        if problems:
            lines = "".join(f"\n  {problem}" for problem in problems)
            raise AnswerIsNo(f"the retrained model must fit the routed design in '{routed.folder}':{lines}\n{REMEDY}")
        return graph, replace(quantized, graph=with_rescale_of(graph, quantized.graph))

    @cached_property
    def quantized(self) -> Quantized:
        """The model with exactly the integers that the hardware has."""
        return self.fitted[1]

    @cached_property
    def structure(self) -> LayerGraph:
        """The graph in the form of the routed hardware."""
        return self.fitted[0]

    def reweight(self) -> ReweightReport:
        """The bitstream and what a driver must know, in <board>/synth of the flow's folder."""
        return reweight(self.design, self.routed.folder, self.synthesis, quantized="../../integers",
                        keep=self.keep_integers, progress=self.console.progress)

    def keep_integers(self) -> Path:
        """The integer model with its host programs, for a driver: in integers/ of the flow's folder."""
        # The identity is that of the integer graph alone; the host programs are the model's, which the other key names.
        key = digest(self.quantize_key, identity(self.graph, self.plan))
        folder = self.folder / "integers"
        cached_step(folder, key, lambda place: save_quantized(self.quantized, place))
        return folder

    def netlist(self, clock: float | str | None = None) -> Path:
        """That of the routed design with the new contents; its clock is the routed one."""
        return self.synthesis / "netlist" / "netlist.json"
