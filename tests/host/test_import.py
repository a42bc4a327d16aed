"""The driver of a board is for small computers: what `import hwflow.host` loads, and how long it takes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

#: Packages that the driver may load; `hwflow_rtl` is for two modules of plain data.
ALLOWED = {"google", "hwflow", "hwflow_base", "hwflow_rtl", "ml_dtypes", "numpy", "serial", "yaml"}
#: Parts of hwflow that it must not load.
OTHERS = ("hwflow.hls", "hwflow.synth", "hwflow.pipeline.pipeline", "hwflow.api", "hwflow.quantize.importer")
#: Seconds of processor time; 0.3 on a desktop machine with nothing else to do.
MOST_SECONDS = 0.6

LIST_MODULES = """\
import json, sys
before = set(sys.modules)
import hwflow.host
found = {name: getattr(module, "__file__", None) for name, module in sys.modules.items() if name not in before}
print(json.dumps(found))
"""


def imported() -> dict[str, str | None]:
    """The modules that `import hwflow.host` loads in a fresh process, with their files."""
    done = subprocess.run([sys.executable, "-c", LIST_MODULES], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_driver_loads_nothing_that_makes_hardware() -> None:
    modules = imported()
    packages = {name.split(".")[0] for name, file in modules.items() if file and "site-packages" in file}
    packages |= {name.split(".")[0] for name in modules if name.startswith("hwflow")}
    assert packages - ALLOWED == {name for name in packages if "cython" in name.lower()}  # of yaml's C library
    assert "amaranth" not in modules
    assert [name for name in modules if name.startswith(OTHERS)] == []


def test_the_driver_is_imported_in_a_moment() -> None:
    imported()  # compiles the bytecode
    seconds = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import hwflow.host"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(seconds) < MOST_SECONDS, seconds
