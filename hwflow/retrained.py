"""A retrained model for a design that is routed already: the integers that fit it, and the bitstream.

It is quantized as the first model was, its constants are put into the form of the hardware, and these into the routed
design.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from . import hls
from .build import cached_step, digest
from .errors import AnswerIsNo, HwflowError
from .flow import Flow
from .layers.base import LayerGraph
from .layers.forms import fitted, with_rescaling_of
from .layers.rescale import Requantize, Thresholds
from .quantize import Quantized, comes_quantized, save_quantized
from .quantize.settings import OutputStage, QuantizationSettings
from .quantize.settings_file import UnknownName, settings_from_yaml
from .routed import DESIGN, SETTINGS, RoutedDesign
from .synth.identity import DesignFacts, identity
from .synth.reweight import REMEDY, ReweightReport, reweight

if TYPE_CHECKING:
    from .proof import NetlistProof

__all__ = ["Retrained"]


class Retrained:
    """The retrained model of `flow` for the first model's routed design in `base`, a build folder.

    `flow` gets a folder of its own inside `base`, and the choices with which the first model was quantized.
    """

    def __init__(self, flow: Flow, base: Path):
        if flow.settings.settings is not None or flow.settings.bits is not None:
            raise HwflowError("--settings and --bits must not be given to reweight: the retrained model is quantized "
                              "as the first one was")
        self.flow = flow
        self.base = base
        flow.folder = base / "reweighted" / flow.settings.model.stem

    @cached_property
    def design(self) -> RoutedDesign:
        return RoutedDesign.of(self.base / self.flow.board.name / "synth", self.flow.board)

    def choices(self) -> QuantizationSettings:
        """Those of the first model, down to the ranges and to what makes each layer's results."""
        design = self.design
        if not design.settings:
            return QuantizationSettings()
        source = design.folder / DESIGN / SETTINGS
        try:
            choices = settings_from_yaml(design.settings, str(source), self.flow.model)
        except UnknownName as error:
            raise AnswerIsNo(f"'{self.flow.settings.model}' must have the layers of the first model: {error}; {REMEDY}"
                             ) from None
        stages = {layer.name: OutputStage.THRESHOLDS if isinstance(found, Thresholds) else OutputStage.MULTIPLY
                  for layer in design.graph.layers
                  if isinstance(found := getattr(layer, "requantize", None), Requantize | Thresholds)}
        return replace(choices, layers={name: replace(layer, output_stage=stages.get(name, layer.output_stage))
                                        for name, layer in choices.layers.items()})

    @cached_property
    def fitted(self) -> tuple[LayerGraph, Quantized]:
        """The graph for the hardware, and the model with exactly its integers.

        AnswerIsNo with every stage and constant that does not fit.
        """
        flow, design = self.flow, self.design
        wanted, comes = not design.settings, comes_quantized(flow.model)
        if wanted != comes:
            came = {True: "quantized", False: "with real numbers"}
            raise AnswerIsNo(f"'{flow.settings.model}' must come {came[wanted]}, as the first model did, not "
                             f"{came[comes]}; {REMEDY}")
        flow.choices = self.choices()
        quantized = flow.quantized
        graph, problems = fitted(quantized.graph, design.graph)
        if problems:
            lines = "".join(f"\n  {problem}" for problem in problems)
            raise AnswerIsNo(f"the retrained model must fit the routed design in '{design.folder}':{lines}\n{REMEDY}")
        return graph, replace(quantized, graph=with_rescaling_of(graph, quantized.graph))

    def reweight(self) -> ReweightReport:
        """The bitstream and what a driver must know, in <board>/synth of the flow's folder."""
        flow, design = self.flow, self.design
        graph, quantized = self.fitted
        flow.quantized = quantized
        name = identity(quantized.graph, design.plan)
        self.keep_integers()
        folder = flow.synthesis
        core = hls.lower(graph, design.plan, flow.board.technology())
        report = reweight(core, design.plan, name, flow.board, design.folder, folder, progress=flow.console.progress)
        facts = DesignFacts.of(quantized.graph, design.plan, board=flow.board.name, baud=flow.board.baud,
                               clock_mhz=report.clock_mhz)
        replace(facts, quantized="../../integers").write(folder)
        return report

    def keep_integers(self) -> Path:
        """The integer model with its host programs, for a driver: in integers/ of the flow's folder."""
        _, quantized = self.fitted
        # The identity is that of the integer graph alone; the host programs are the model's, which the other key names.
        key = digest(self.flow.quantize_key, identity(quantized.graph, self.design.plan))
        folder = self.flow.folder / "integers"
        cached_step(folder, key, lambda place: save_quantized(quantized, place))
        return folder

    def prove(self) -> NetlistProof:
        """The netlist with the new contents, cell by cell against the golden model."""
        from .proof import prove_netlist

        flow, design = self.flow, self.design
        _, quantized = self.fitted
        with flow.console.step(f"simulate {flow.settings.frames} frames through the pins of the netlist"):
            return prove_netlist(
                flow.synthesis / "netlist" / "netlist.json", flow.board, quantized.graph,
                flow.frames, identity=identity(quantized.graph, design.plan), interval=design.plan.interval,
                folder=flow.board_folder / "netlist", cache=flow.settings.build / ".cache" / "sim",
                say=flow.console.progress)
