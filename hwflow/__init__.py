"""hwflow: an ONNX implementation whose runtime is hardware.  See `hwflow.api` for use from a script."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import AnswerIsNo, HwflowError, MissingTool, ToolFailed

if TYPE_CHECKING:
    from .api import (
        check,
        export_model,
        generate,
        load,
        make_plan,
        measure_accuracy,
        measure_layers,
        quantize_model,
        read_data,
        run_golden,
        simulate,
        synthesize,
    )

__all__ = [
    "AnswerIsNo", "HwflowError", "MissingTool", "ToolFailed", "check", "export_model", "generate", "load", "make_plan",
    "measure_accuracy", "measure_layers", "quantize_model", "read_data", "run_golden", "simulate", "synthesize",
]


def __getattr__(name: str) -> Any:
    """The functions of `hwflow.api`, imported when first used: `import hwflow.onnx` alone stays quick."""
    if name not in __all__:
        raise AttributeError(f"module 'hwflow' has no attribute '{name}'")
    from . import api

    return getattr(api, name)
