"""The tools that are compared, each as its documentation recommends, and where they are.

onnxruntime is in hwflow's own environment.  AIMET and Brevitas need torch, so they are in an environment of their own,
whose python the variable HWFLOW_QUANTIZERS names:

    python -m venv DIR && DIR/bin/pip install aimet-onnx brevitas
    HWFLOW_QUANTIZERS=DIR/bin/python make bench MODELS=dir ARGS=quantizers
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from bench.quantizers.cells import Tool, version_of

VARIABLE = "HWFLOW_QUANTIZERS"
HERE = Path(sys.executable)
#: hwflow as it is when nobody says more.
DEFAULT = "hwflow"
#: The widths that a tool of minutes is measured at.
SLOW = ((4, 8),)
OWN = (Tool(DEFAULT, "hwflow", HERE), *(Tool(f"hwflow {effort}", "hwflow", HERE, {"effort": effort})
                                        for effort in ("quick", "best")))
ONNXRUNTIME = tuple(Tool(f"onnxruntime {method}", "onnxruntime", HERE, {"method": method}, bits=(4, 8, 16))
                    for method in ("MinMax", "Entropy", "Percentile"))


@dataclass(frozen=True)
class Elsewhere:
    """Tools of the other environment; `why` is empty, or says what to do so that they can be measured."""

    tools: tuple[Tool, ...]
    why: str = field(default="")


def elsewhere() -> Elsewhere:
    """AIMET and Brevitas, as far as the environment has them."""
    named = os.environ.get(VARIABLE)
    if not named:
        return Elsewhere((), f"AIMET and Brevitas are not measured: {VARIABLE} must name the python of an environment "
                             "with `pip install aimet-onnx brevitas`.")
    python = Path(named)
    if not os.access(python, os.X_OK):
        return Elsewhere((), f"AIMET and Brevitas are not measured: {VARIABLE} must name a python that can be run, "
                             f"not {named}.")
    tools = (
        Tool("AIMET", "aimet", python, {"scheme": "min_max", "method": ""}),
        Tool("AIMET SeqMSE", "aimet", python, {"scheme": "min_max", "method": "seq_mse"}),
        Tool("AIMET AdaRound", "aimet", python, {"scheme": "min_max", "method": "adaround"}, only=SLOW),
        Tool("Brevitas", "brevitas", python, {"activations": "sym", "method": ""}),
        Tool("Brevitas GPTQ", "brevitas", python, {"activations": "sym", "method": "gptq"}))
    there = tuple(tool for tool in tools if "None" not in version_of(tool))
    missing = dict.fromkeys(tool.name.split()[0] for tool in tools if tool not in there)
    packages = {"AIMET": "aimet-onnx", "Brevitas": "brevitas onnx2torch"}
    return Elsewhere(there, " ".join(f"{name} is not measured: `{named} -m pip install {packages[name]}`."
                                     for name in missing))
