"""A retrained model for a design that is routed already: the integers that fit it, and the bitstream.

It is quantized as the first model was, its constants are put into the form of the hardware, and these into the routed
design.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_base.files.cache import cached_step, digest

from .. import hls
from ..flow import Flow
from ..host.identity import DesignFacts, identity
from ..layers.base import LayerGraph
from ..layers.forms import fitted, with_rescaling_of
from ..layers.rescale import Requantize, Thresholds
from ..quantize import Quantized, comes_quantized, save_quantized
from ..quantize.settings import OutputStage, QuantizationSettings
from ..quantize.settings_file import UnknownName, settings_from_yaml
from ..synth.reweight import REMEDY, ReweightReport, reweight
from .routed import DESIGN, SETTINGS, RoutedDesign

if TYPE_CHECKING:
    from ..proof import NetlistProof

__all__ = ["Retrained"]


@dataclass
class Retrained(Flow):
    """The steps for a retrained model, and the first model's routed design in `base`, a build folder.

    It has a folder of its own inside `base`, and the choices with which the first model was quantized.
    """

    base: Path

    def __post_init__(self) -> None:
        if self.settings.settings is not None or self.settings.bits is not None:
            raise HwflowError("--settings and --bits must not be given to reweight: the retrained model is quantized "
                              "as the first one was")
        super().__post_init__()
        self.folder = self.base / "reweighted" / self.settings.model.stem

    @cached_property
    def design(self) -> RoutedDesign:
        return RoutedDesign.of(self.base / self.board.name / "synth", self.board)

    @cached_property
    def plan(self) -> hls.Plan:
        """That of the routed design."""
        return self.design.plan

    @cached_property
    def choices(self) -> QuantizationSettings:
        """Those of the first model, down to the ranges and to what makes each layer's results."""
        design = self.design
        if not design.settings:
            return QuantizationSettings()
        source = design.folder / DESIGN / SETTINGS
        try:
            choices = settings_from_yaml(design.settings, str(source), self.model)
        except UnknownName as error:
            raise AnswerIsNo(f"'{self.settings.model}' must have the layers of the first model: {error}; {REMEDY}"
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
        design = self.design
        wanted, comes = not design.settings, comes_quantized(self.model)
        if wanted != comes:
            came = {True: "quantized", False: "with real numbers"}
            raise AnswerIsNo(f"'{self.settings.model}' must come {came[wanted]}, as the first model did, not "
                             f"{came[comes]}; {REMEDY}")
        quantized = self.quantize()
        graph, problems = fitted(quantized.graph, design.graph)
        if problems:
            lines = "".join(f"\n  {problem}" for problem in problems)
            raise AnswerIsNo(f"the retrained model must fit the routed design in '{design.folder}':{lines}\n{REMEDY}")
        return graph, replace(quantized, graph=with_rescaling_of(graph, quantized.graph))

    @cached_property
    def quantized(self) -> Quantized:
        """The model with exactly the integers that the hardware has."""
        return self.fitted[1]

    def reweight(self) -> ReweightReport:
        """The bitstream and what a driver must know, in <board>/synth of the flow's folder."""
        design, folder = self.design, self.synthesis
        graph, quantized = self.fitted
        name = identity(quantized.graph, self.plan)
        self.keep_integers()
        core = hls.lower(graph, self.plan, self.board.technology())
        report = reweight(core, self.plan, name, self.board, design.folder, folder, progress=self.console.progress)
        facts = DesignFacts.of(quantized.graph, self.plan, board=self.board.name, baud=self.board.baud,
                               clock_mhz=report.clock_mhz)
        replace(facts, quantized="../../integers").write(folder)
        return report

    def keep_integers(self) -> Path:
        """The integer model with its host programs, for a driver: in integers/ of the flow's folder."""
        # The identity is that of the integer graph alone; the host programs are the model's, which the other key names.
        key = digest(self.quantize_key, identity(self.graph, self.plan))
        folder = self.folder / "integers"
        cached_step(folder, key, lambda place: save_quantized(self.quantized, place))
        return folder

    def prove(self) -> NetlistProof:
        """The netlist with the new contents, cell by cell against the golden model."""
        from ..proof import prove_netlist

        with self.console.step(f"simulate {self.settings.frames} frames through the pins of the netlist"):
            return prove_netlist(
                self.synthesis / "netlist" / "netlist.json", self.board, self.graph, self.frames,
                identity=identity(self.graph, self.plan), interval=self.plan.interval,
                folder=self.board_folder / "netlist", cache=self.settings.build / ".cache" / "sim",
                say=self.console.progress)
