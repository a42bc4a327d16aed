"""The commands of the pages about exports do what the pages say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from hwflow import onnx
from tests.e2e.networks import small_network, write_data
from tests.export.conftest import tools
from tests.export.test_verilog import ICARUS
from tests.project.tree import ROOT

pytestmark = [pytest.mark.slow, ICARUS]  # Verilator and a compiler, yosys and nextpnr

#: What the last command leaves, and a line of its output or of one before it.
PAGES = {
    "verilog": ("bench.vvp", "seed 7, stalls 80 %"),
    "fusesoc": ("build/hwflow_network_mymodel_0.1.0/synth/hwflow_network_mymodel_0.1.0.bit",
                "PASS: 2 frames came 3 times"),
    "litex": ("build/gateware/ulx3s.bit", "PASS: 2 frames through bus and memory"),
}


@pytest.mark.parametrize("kind", PAGES)
def test_the_commands_of_the_page(kind: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / f"export-{kind}.md").read_text()
    commands = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    model = small_network()
    onnx.save(model, tmp_path / "mymodel.onnx")
    write_data(tmp_path / "mydata.npz", model, rows=12)
    prelude = f"hwflow() {{ '{sys.executable}' -m hwflow.cli \"$@\"; }}\n"
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", prelude + commands], cwd=tmp_path, env=tools(),
                          capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    left, line = PAGES[kind]
    assert (tmp_path / "exports" / kind / left).stat().st_size > 0
    assert line in done.stdout
