"""Who may import whom, and how long files and functions may be."""

from __future__ import annotations

import ast
import sys
from graphlib import TopologicalSorter
from pathlib import Path

from bench.house import arrows_of
from tests.project.tree import PACKAGES, ROOT, imports, module_name, python_files, syntax_of

#: What each part of `hwflow` may import of `hwflow` besides itself: data walks one way, so do imports (leftwards).
#: Only `hwflow` itself is not listed: its `__init__` names what users import.
PARTS = {
    "outcome": set(),
    "onnx": set(),
    "data": {"onnx"},
    "layers": set(),
    "stages": {"layers"},
    "quantize": {"onnx", "outcome", "layers", "stages"},
    "golden": {"onnx", "layers", "quantize"},
    "accuracy": {"outcome", "onnx", "data", "layers", "quantize", "golden"},
    "hls": {"layers", "stages"},
    "host": {"onnx", "layers", "stages", "quantize", "golden", "hls"},
    "backend": {"onnx"},
    "serve": {"onnx", "layers", "quantize", "golden", "host"},
    "synth": {"layers", "stages", "hls", "host"},
    "export": set(),
    "options": {"onnx", "layers", "stages", "synth", "quantize"},
    "facts": {"onnx", "layers", "stages", "quantize", "hls", "host", "synth"},
}
PARTS["pipeline"] = {"outcome", "onnx", "data", "layers", "stages", "quantize", "golden", "accuracy", "hls", "host",
                     "synth", "export", "options", "facts"}
PARTS["reweight"] = PARTS["search"] = PARTS["pipeline"] | {"pipeline"}
PARTS["views"] = PARTS["pipeline"] | {"pipeline", "search", "reweight"}
PARTS["arguments"] = PARTS["views"]
PARTS["api"] = PARTS["views"] | {"views", "arguments"}
PARTS["cli"] = PARTS["views"] | {"views", "serve"}
#: The rooms of `hwflow.hls`: each imports itself and those before it.
ROOMS_OF_HLS = ("schedule", "shared", "plan", "foldings", "partition")
#: The parts that run hardware in a simulator.
USES_SIMULATION = {"facts", "pipeline", "views", "api", "cli"}
#: The parts that describe hardware may use the units.
USES_RTL = {"stages", "hls", "synth", "host", "search"} | USES_SIMULATION
#: Which packages of the project each package may import besides itself: there is no circle.
PROJECT_MAY_IMPORT = {
    "hwflow_base": set(),
    "hwflow_rtl": set(),
    "hwflow_sim": {"hwflow_base", "hwflow_rtl"},
    "hwflow": {"hwflow_base", "hwflow_rtl", "hwflow_sim", "hwflow_boards", "hwflow_models"},
}
#: The gateware needs nothing but these.
RTL_MAY_IMPORT = {"amaranth", "numpy", "hwflow_rtl"} | set(sys.stdlib_module_names)
#: Besides in these modules, which a design imports only if it has what they are for.
RTL_EXTRAS = {"hwflow_rtl.io.usb.luna_parts": {"luna", "usb_protocol"}}
ORACLES = {"onnx", "onnxruntime", "sklearn", "torch"}

#: Most lines of a file.
MAX_FILE = 500
#: Most lines of a function, `elaborate` like any other, in the packages; and in tests, benchmarks and tools, where many
#: are tables of cases.
MAX_FUNCTION, MAX_FUNCTION_OF_TESTS = 40, 60

PRODUCT = [file for name in PROJECT_MAY_IMPORT for file in python_files(PACKAGES[name])]
CODE = python_files(ROOT)


def part_of(module: str) -> str:
    """`hwflow.onnx.check` -> `onnx`; `hwflow` itself -> `hwflow`."""
    names = module.split(".")
    return names[1] if len(names) > 1 else names[0]


def test_every_part_is_listed():
    assert set(PARTS) | {"hwflow"} == {part_of(module_name(file)) for file in python_files(PACKAGES["hwflow"])}


def test_the_order_has_no_circle():
    placed: set[str] = set()
    while left := set(PARTS) - placed:
        lowest = {part for part in left if PARTS[part] <= placed}
        assert lowest, f"{left} import each other"
        placed |= lowest


def allowed(module: str, name: str) -> bool:
    """May `module` import `name`?"""
    package, part, target = module.split(".")[0], part_of(module), name.split(".")[0]
    if target in PACKAGES and target != package and target not in PROJECT_MAY_IMPORT[package]:
        return False
    if package == "hwflow_rtl":
        return target in RTL_MAY_IMPORT | RTL_EXTRAS.get(module, set())
    if package == "hwflow" and part in PARTS:
        leftwards = target != "hwflow" or part_of(name) in PARTS[part] | {part}
        simulates = target != "hwflow_sim" or part in USES_SIMULATION
        return leftwards and simulates and (target != "hwflow_rtl" or part in USES_RTL)
    return True


def test_imports_go_one_way():
    found = [(file, module_name(file), line, name) for file in PRODUCT for line, name in imports(file)]
    assert len(found) > len(PRODUCT)
    wrong = [f"{file.relative_to(ROOT)}:{line} imports {name}" for file, module, line, name in found
             if not allowed(module, name)]
    assert wrong == [], "see docs/architecture.md"


def test_rooms_of_hls_import_those_before_them() -> None:
    found = [(module_name(file), name) for file in PRODUCT for _, name in imports(file)
             if module_name(file).startswith("hwflow.hls.") and name.startswith("hwflow.hls.")]
    assert found
    order = {room: number for number, room in enumerate(ROOMS_OF_HLS)}
    assert [(module, name) for module, name in found
            if order[module.split(".")[2]] < order[name.split(".")[2]]] == []


def test_no_circle_of_files() -> None:
    """Types count, and imports inside of functions."""
    TopologicalSorter(arrows_of(PRODUCT)).prepare()


def test_layers_mean_without_hardware() -> None:
    """They need numpy alone: no gateware, and no import inside of a function."""
    inside = []
    for file in python_files(PACKAGES["hwflow"] / "layers"):
        functions = (node for node in ast.walk(syntax_of(file)) if isinstance(node, ast.FunctionDef))
        inside += [f"{file.name}: {node.name}" for node in functions
                   for each in ast.walk(node) if isinstance(each, ast.Import | ast.ImportFrom)]
    assert inside == []


def test_product_needs_no_oracle_and_keeps_protobuf_in_its_folder():
    wrong = []
    for file in PRODUCT:
        banned = ORACLES if part_of(module_name(file)) == "onnx" else ORACLES | {"google"}
        wrong += [f"{file.relative_to(ROOT)}:{line} imports {name}" for line, name in imports(file)
                  if name.split(".")[0] in banned]
    assert wrong == []


def lines_of_functions(file: Path) -> dict[str, int]:
    """How long each function of `file` is, with its docstring and without its decorators."""
    functions = (node for node in ast.walk(syntax_of(file)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f"{file.relative_to(ROOT)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
            for node in functions}


def test_files_stay_short():
    long = {}
    for file in CODE:
        length = len(file.read_text().splitlines())
        if length > MAX_FILE:
            long[str(file.relative_to(ROOT))] = length
    assert long == {}, "split where a reader would"


def test_functions_stay_short():
    long = {}
    for file in CODE:
        most = MAX_FUNCTION if file in PRODUCT else MAX_FUNCTION_OF_TESTS
        long.update((name, length) for name, length in lines_of_functions(file).items() if length > most)
    assert long == {}, "split where a reader would"


#: Methods that take texts apart, and the fields of errors and problems whose text nobody may look into.
TAKES_APART = {"startswith", "endswith", "partition", "rpartition", "split", "removeprefix", "removesuffix"}
REASONS = {"why", "remedy"}


def test_reasons_are_fields_and_not_taken_out_of_messages() -> None:
    """Errors and problems have the fields why, remedy and where (base/hwflow_base/errors.py)."""
    wrong = []
    for file in python_files(PACKAGES["hwflow"]):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in TAKES_APART:
                joint = any(isinstance(arg, ast.Constant) and str(arg.value).startswith("; ") for arg in node.args)
                held = node.func.value
                name = getattr(held, "attr", getattr(held, "id", ""))
                if joint or name in REASONS or ast.unparse(held) in ("str(error)", "str(problem)"):
                    wrong.append((str(file), node.lineno, ast.unparse(node)))
    assert not wrong
