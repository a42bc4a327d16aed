"""Run the measurements, write their data into docs/measurements/ and the pages that show them.

    python -m bench [SECTION ...] [--models DIR] [--folder DIR] [--list]

Each section has a file, so that one can be measured alone; its `about`, `bar`, `command` and `note` stay as they are.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from bench import measurements, pages
from bench.boards import BOARD_SECTIONS
from bench.estimates import ESTIMATE_SECTIONS
from bench.every_model import EVERY_MODEL_SECTIONS
from bench.fit_clocks import CLOCK_SECTIONS
from bench.flash import FLASH_SECTIONS
from bench.frontier import FRONTIER_SECTIONS
from bench.house import HOUSE_SECTIONS
from bench.integer_functions import FUNCTION_SECTIONS
from bench.loop import LOOP_SECTIONS
from bench.memories import MEMORY_SECTIONS
from bench.networks import NETWORK_SECTIONS
from bench.onnx_sections import ONNX_SECTIONS
from bench.quantization_sections import QUANTIZATION_SECTIONS
from bench.quantizers.section import QUANTIZER_SECTIONS
from bench.random_sets import RANDOM_SECTIONS
from bench.routes import ROUTE_SECTIONS
from bench.sections import SECTIONS as HARDWARE_SECTIONS
from bench.sections import Bench
from bench.serve import SERVE_SECTIONS
from bench.stages import STAGE_SECTIONS
from bench.tflite import TFLITE_SECTIONS

SECTIONS = {**HARDWARE_SECTIONS, **ESTIMATE_SECTIONS, **ROUTE_SECTIONS, **STAGE_SECTIONS, **BOARD_SECTIONS,
            **NETWORK_SECTIONS, **MEMORY_SECTIONS, **FLASH_SECTIONS, **FRONTIER_SECTIONS, **QUANTIZATION_SECTIONS,
            **ONNX_SECTIONS, **RANDOM_SECTIONS, **SERVE_SECTIONS, **EVERY_MODEL_SECTIONS,
            **LOOP_SECTIONS, **FUNCTION_SECTIONS, **CLOCK_SECTIONS, **HOUSE_SECTIONS,
            **TFLITE_SECTIONS, **QUANTIZER_SECTIONS}


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the measurements and write them into docs/measurements/.")
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=f"all of: {', '.join(SECTIONS)}")
    parser.add_argument("--models", type=Path, default=os.environ.get("HWFLOW_MODELS"),
                        help="folder of third-party models with a manifest.yaml (default: $HWFLOW_MODELS)")
    parser.add_argument("--folder", type=Path, help="where results of the tools are kept, so that a run can go on")
    parser.add_argument("--only", metavar="NAME", help="one design of the section routes, or one model of quantizers")
    parser.add_argument("--seeds", type=int, default=0,
                        help="of the section routes, seeds of place and route (default: those of the row)")
    parser.add_argument("--list", action="store_true", help="list the sections")
    options = parser.parse_args()
    if options.list:
        for name, section in SECTIONS.items():
            print(f"{name:24} {(section.__doc__ or '').splitlines()[0]}")
        return 0
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"a section must be one of {', '.join(SECTIONS)}, not {', '.join(sorted(unknown))}")
    if options.models and not (options.models / "manifest.yaml").is_file():
        parser.error(f"--models (or HWFLOW_MODELS) must name a folder with a manifest.yaml, not {options.models}")
    with tempfile.TemporaryDirectory(prefix="hwflow-bench-") as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        bench = Bench(Path(options.models) if options.models else None, folder, options.folder is not None,
                      options.only, options.seeds)
        for name in options.sections or SECTIONS:
            print(f"== {name}", file=sys.stderr, flush=True)
            text = SECTIONS[name](bench)
            print(text, flush=True)
            measurements.save(name, text)
            pages.main()
    for failure in bench.failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if bench.failures else 0


if __name__ == "__main__":
    sys.exit(main())
