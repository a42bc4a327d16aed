"""What plans say that designs take, beside what synthesis makes of them, whole and stage by stage."""

from __future__ import annotations

from bench.sections import Bench, table
from hwflow.options import HardwareOptions, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.views.console.terminal import Console
from tests.synth.estimates import Comparison, compare

#: Models, and the boards that each is planned for.
MODELS = {
    "digits_cnn (shipped)": ("ulx3s_85f", "icebreaker", "tangnano9k"),
    "digits_mlp (shipped)": ("ulx3s_85f", "icebreaker", "tangnano9k"), "mnist_resdw": ("ulx3s_85f",),
    "tiny_kws_dscnn_int8": ("ulx3s_85f",), "tiny_resnet8_int8": ("ulx3s_85f",),
    "tiny_ad_autoencoder_int8": ("ulx3s_85f",)}
#: How far the tables of a whole core may be off.
BOUND = 0.15


def estimates(bench: Bench) -> str:
    """Planned and used tables, flip-flops, multipliers and RAM blocks, of whole cores and of their stages."""
    totals, stages = [], []
    for subject in bench.subjects([name for name in MODELS if "shipped" not in name]):
        for board in MODELS[subject.name]:
            folder = bench.folder / "estimates" / subject.name.partition(" ")[0]
            project = Project(subject.model, data=subject.data, build=folder)
            pipeline = Pipeline(Console(quiet=True), project, hardware=HardwareOptions(board))
            whole, parts = compare(pipeline.graph, pipeline.plan, pipeline.board, folder / board)
            totals.append([subject.name, board, *cells(whole)])
            stages += [[subject.name, board, part.name, part.kind, *cells(part)] for part in parts if part.used.ff]
            blocks = (whole.planned.dsp, whole.planned.ram) == (whole.used.dsp, whole.used.ram)
            if not blocks or abs(whole.lut_error) > BOUND:
                bench.failures.append(f"estimates of {subject.name} for {board}")
    columns = ("LUT planned", "used", "error", "FF planned", "used", "DSP planned", "used", "RAM planned", "used")
    return "\n\n".join([table(("model", "board", *columns), totals),
                        table(("model", "board", "stage", "kind", *columns), stages)])


def cells(found: Comparison) -> list[str]:
    planned, used = found.planned, found.used
    return [str(planned.lut), str(used.lut), f"{100 * found.lut_error:+.1f} %", str(planned.ff), str(used.ff),
            str(planned.dsp), str(used.dsp), str(planned.ram), str(used.ram)]


ESTIMATE_SECTIONS = {"estimates": estimates}
