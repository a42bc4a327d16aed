"""A retrained model for a design that is routed already: the integers that fit it, and the bitstream.

It is quantized as the first model was, its constants are put into the form of the hardware, and these into the routed
design.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hwflow_base.errors import AnswerIsNo
from hwflow_base.files.cache import cached_step, digest

from hwflow.stages.other_weights import fitted, with_rescale_of

from ..host.identity import IDENTITY_FILE, DesignFacts
from ..layers.base import LayerGraph
from ..layers.rescale import Requantize, RoomyRequantize, Thresholds
from ..options import HardwareOptions, Project
from ..pipeline.pipeline import Given, Pipeline
from ..pipeline.reporter import Reporter
from ..pipeline.routed_design import DESIGN, SETTINGS, RoutedDesign
from ..quantize import Quantized, comes_quantized, save_quantized
from ..quantize.settings import LayerSettings, OutputStage, QuantizationSettings
from ..quantize.settings_file import UnknownName, settings_from_yaml
from ..synth import Board, load_board
from .patching import REMEDY, ReweightReport, reweight


@dataclass
class Retrained:
    """A retrained model, and the first model's routed design for a board in `base`, a build folder."""

    console: Reporter
    project: Project
    board_name: str
    base: Path

    @cached_property
    def pipeline(self) -> Pipeline:
        """The steps for the retrained model, with a folder of their own inside `base`.

        Board, settings and plan are those of the routed design.
        """
        sources = Given(board=self.board, settings=self.settings, quantized=lambda: self.fitted[1],
                        structure=lambda: self.fitted[0], plan=lambda: self.routed.plan, netlist=self.netlist)
        return Pipeline(self.console, self.project, hardware=HardwareOptions(self.board_name), given=sources,
                        kept_in=self.base / "reweighted" / self.project.model.stem)

    def board(self) -> Board:
        """The board with the transport of the routed design."""
        board = load_board(self.board_name)
        folder = self.base / board.name / "synth"
        if not (folder / IDENTITY_FILE).is_file():
            return board
        transport = DesignFacts.read(folder).transport
        address = transport.options.get("address")
        return board.with_transport(transport.kind, None if address is None else str(address))

    @cached_property
    def routed(self) -> RoutedDesign:
        """The first model's design."""
        board = self.pipeline.board
        return RoutedDesign.of(self.base / board.name / "synth", board)

    def settings(self) -> QuantizationSettings:
        """The settings of the first model, down to the ranges and to what makes each layer's results."""
        routed = self.routed
        wide = {layer.name: rescale.factor_bits for layer in routed.graph.layers
                if isinstance(rescale := getattr(layer, "requantize", None), RoomyRequantize) and rescale.factor_bits}
        if not routed.settings:
            return QuantizationSettings(layers={name: LayerSettings(rescale_bits=bits) for name, bits in wide.items()})
        source = routed.folder / DESIGN / SETTINGS
        try:
            choices = settings_from_yaml(routed.settings, str(source), self.pipeline.model)
        except UnknownName as error:
            raise AnswerIsNo(
                f"'{self.project.model}' must have the layers of the first model: {error}", REMEDY
            ) from None
        stages = {layer.name: OutputStage.THRESHOLDS if isinstance(rescale, Thresholds) else OutputStage.MULTIPLY
                  for layer in routed.graph.layers
                  if isinstance(rescale := getattr(layer, "requantize", None), Requantize | Thresholds)}
        return replace(choices, layers={
            name: replace(layer, output_stage=stages.get(name, layer.output_stage),
                          rescale_bits=wide.get(name, layer.rescale_bits)) for name, layer in choices.layers.items()})

    @cached_property
    def fitted(self) -> tuple[LayerGraph, Quantized]:
        """The graph for the hardware, and the model with exactly its integers.

        AnswerIsNo with every stage and constant that does not fit.
        """
        routed = self.routed
        came, comes = not routed.settings, comes_quantized(self.pipeline.model)
        if came != comes:
            form = {True: "quantized", False: "with real numbers"}
            raise AnswerIsNo(
                f"'{self.project.model}' must come {form[came]}, as the first model did, not {form[comes]}", REMEDY
            )
        quantized = self.pipeline.quantize()
        graph, problems = fitted(quantized.graph, routed.graph)
        if problems:
            lines = "".join(f"\n  {problem}" for problem in problems)
            raise AnswerIsNo(f"the retrained model must fit the routed design in '{routed.folder}':{lines}\n{REMEDY}")
        return graph, replace(quantized, graph=with_rescale_of(graph, quantized.graph))

    def reweight(self) -> ReweightReport:
        """The bitstream and what a driver must know, in <board>/synth of the pipeline's folder."""
        return reweight(self.pipeline.design, self.routed.folder, self.pipeline.synthesis, quantized="../../integers",
                        keep=self.keep_integers, progress=self.console.progress)

    def keep_integers(self) -> Path:
        """The integer model with its host programs, for a driver: in integers/ of the pipeline's folder."""
        pipeline = self.pipeline
        # The identity is that of the integer graph alone; the host programs are the model's, which the other key names.
        key = digest(pipeline.quantize_key, pipeline.design_key)
        folder = pipeline.folder / "integers"
        cached_step(folder, key, lambda place: save_quantized(pipeline.quantized, place))
        return folder

    def netlist(self) -> Path:
        """The netlist of the routed design with the new contents; its clock is the routed one."""
        return self.pipeline.synthesis / "netlist" / "netlist.json"
