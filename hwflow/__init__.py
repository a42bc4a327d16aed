"""Turn ONNX models into FPGA hardware.

    import hwflow

    model = hwflow.load("model.onnx")
    data = hwflow.read_data("data.npz", model)
    quantized = hwflow.quantize_model(model, data)
    plan = hwflow.make_plan(quantized, board="ulx3s_85f")
    result = hwflow.simulate(quantized, plan, data.first(10))  # RTL against golden, every stage
    assert result.equal

Arrays are numpy arrays, everything else is a frozen dataclass.  Failures are `hwflow.HwflowError`.

Every function that takes rows of data takes them in one of four forms: a Dataset from `read_data`; a dictionary of
arrays with the names of a data file (docs/data-files.md), as in
`hwflow.run_golden(quantized, {"left": a, "right": b})`; for a model with one input, its array; or batches of arrays,
a list of them or what a PyTorch DataLoader gives, with labels beside the inputs where there are any.  An array has the
shape [rows, *shape of the input].  A batch dimension of 1 may be left out, and is left out of outputs.  Its values must
fit the element type of the input.

`hwflow.onnx` reads, checks and evaluates ONNX models, `hwflow.host` talks to a board, `hwflow.backend` is ONNX's
Backend interface.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from hwflow_base.errors import AnswerIsNo, HwflowError, MissingTool, ToolFailed

if TYPE_CHECKING:
    from . import backend, host, onnx
    from .api import (
        check,
        explore,
        export_model,
        generate,
        load,
        make_plan,
        measure_accuracy,
        measure_layers,
        quantize_model,
        read_data,
        report,
        run_golden,
        simulate,
        simulated_board,
        synthesize,
    )

    __version__: str

__all__ = [
    "AnswerIsNo", "HwflowError", "MissingTool", "ToolFailed", "backend", "check", "explore", "export_model",
    "generate", "host", "load", "make_plan", "measure_accuracy", "measure_layers", "onnx", "quantize_model",
    "read_data", "report", "run_golden", "simulate", "simulated_board", "synthesize",
]

#: Packages of their own.
PACKAGES = ("backend", "host", "onnx")


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `import hwflow.onnx` alone is fast."""
    if name == "__version__":
        from importlib.metadata import version

        found: Any = version("hwflow")
    elif name in PACKAGES:
        found = importlib.import_module(f".{name}", __name__)
    elif name in __all__:
        found = getattr(importlib.import_module(".api", __name__), name)
    else:
        raise AttributeError(f"module 'hwflow' has no attribute '{name}'")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names, for `help` and for completion."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__, "__version__"})
