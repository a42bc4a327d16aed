"""The page of a design: what there is of it in the build folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import require_folder, require_plain_target, same_file, write_atomically
from markupsafe import escape

from ...pipeline.pipeline import Pipeline
from .document import page_of
from .subject import Subject

#: The page in the folder of the board, where the user names no file.
PAGE = "report.html"


@dataclass(frozen=True)
class Page:
    """The page of a design in the file `path`, which a notebook shows."""

    path: Path

    def __fspath__(self) -> str:
        return str(self.path)

    def _repr_html_(self) -> str:
        """The page in a frame: it has styles and scripts of its own."""
        page = escape(self.path.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 50rem; border: 0"></iframe>'


def write_page(pipeline: Pipeline, output: Path | None) -> Page:
    """Write the page into `output`, or beside the plan.  The plan and all before it is made where it is not there."""
    if output is not None:
        require_plain_target(output)
        require_folder(output, "--output")
        if same_file(output, pipeline.project.model):
            raise HwflowError("must not be the model itself", "choose another name with --output", where=str(output))
    pipeline.prepare()
    with pipeline.locked():
        subject = subject_of(pipeline)
        with pipeline.console.step("write the report"):
            text = page_of(subject)
            target = output or pipeline.board_folder / PAGE
            write_atomically(target, text, "--output" if output else "--build")
    return Page(target)


def subject_of(pipeline: Pipeline) -> Subject:
    """The subject of the page: the plan and everything before it is made where it is not there yet."""
    plan = pipeline.plan
    return Subject(
        pipeline.project, pipeline.quantization, pipeline.hardware, pipeline.source, pipeline.quantized, plan,
        pipeline.board, pipeline.clock(), pipeline.dataset, pipeline.folder, pipeline.board_folder,
        pipeline.synthesis, pipeline.quantize_key, pipeline.rows_key, pipeline.design_key)
