"""How much code there is, and in how many places one thought is said."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path

from bench.sections import Bench, table
from hwflow.onnx.operators import OPERATORS
from tests.project.tree import PACKAGES, ROOT, imports_of, module_name, python_files, syntax_of

#: A file that has so many names of operators as texts is a list of operators.
MANY_OPERATORS = 8
MANY_PARAMETERS, MANY_FIELDS = 6, 15
PRODUCT = ("hwflow", "hwflow_base", "hwflow_rtl", "hwflow_sim")
#: First words of docstrings that have neither subject nor verb.
HANGING = {"Of", "As", "Those", "What", "That", "By"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def house(_bench: Bench) -> str:
    """How much code there is, and in how many places one thought is said."""
    product = python_files(*(PACKAGES[name] for name in PRODUCT))
    tests = python_files(ROOT / "tests")
    gateware = [file for file in product if not file.is_relative_to(PACKAGES["hwflow_base"])]
    hwflow = [file for file in product if file.is_relative_to(PACKAGES["hwflow"])]
    layers = [file for file in hwflow if file.is_relative_to(PACKAGES["hwflow"] / "layers")]
    arrows = arrows_of(product)
    docstrings = [text.split()[0] for file in product for text in docstrings_of(file)]
    rows = [
        ("lines, modules of hwflow, rtl and sim", f"{lines(gateware):,}; {len(gateware)}"),
        ("lines, files of tests", f"{lines(tests):,}; {len(tests)}"),
        (f"files with {MANY_OPERATORS} or more names of operators", sum(map(lists_operators, hwflow))),
        ("rooms of hwflow that import each other", len(mutual(arrows))),
        ("circles of files", len(circles(arrows))),
        ("imports inside of functions in hwflow/layers", sum(map(inner_imports, layers))),
        ("`Any` in hwflow", sum(len(re.findall(r"\bAny\b", file.read_text())) for file in hwflow)),
        (f"functions of hwflow with more than {MANY_PARAMETERS} parameters",
         sum(parameters(node) > MANY_PARAMETERS for file in hwflow for node in functions(file))),
        (f"dataclasses with more than {MANY_FIELDS} fields", sum(many > MANY_FIELDS for many in fields_of(product))),
        ("modules with one importer and fewer than 120 lines", sum(single(product, arrows))),
        ("docstrings that begin without subject or verb",
         f"{sum(word in HANGING for word in docstrings) / len(docstrings):.1%}"),
        ("words of docs/architecture.md", len((ROOT / "docs" / "architecture.md").read_text().split())),
    ]
    return table(("what", "number"), rows)


def lines(files: Iterable[Path]) -> int:
    return sum(len(file.read_text().splitlines()) for file in files)


def functions(file: Path) -> Iterator[Function]:
    return (node for node in ast.walk(syntax_of(file)) if isinstance(node, Function))


def lists_operators(file: Path) -> bool:
    names = {name for _, name in OPERATORS}
    texts = {node.value for node in ast.walk(syntax_of(file))
             if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return len(texts & names) >= MANY_OPERATORS


def arrows_of(files: Iterable[Path]) -> dict[str, set[str]]:
    """The modules of `files`, and which of them each imports."""
    modules = {module_name(file): file for file in files}
    return {module: set(modules_of(file, modules)) for module, file in modules.items()}


def modules_of(file: Path, there: Container[str]) -> Iterator[str]:
    """The modules that a file imports of those `there`, also inside of functions and for types; not the lazy names of
    a package."""
    lazy = {line for node in syntax_of(file).body if file.name == "__init__.py" and is_for_types(node)
            for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    for line, name in imports_of(file):
        module = name if name in there else name.rpartition(".")[0]
        if line not in lazy and module in there and module != module_name(file):
            yield module


def is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def mutual(arrows: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Pairs of rooms of hwflow with imports both ways."""
    def room(module: str) -> str:
        return ".".join(module.split(".")[:2])

    pairs = {(room(one), room(other)) for one, others in arrows.items() for other in others
             if one.startswith("hwflow.") and other.startswith("hwflow.") and room(one) != room(other)}
    return {frozenset(pair) for pair in pairs if pair[::-1] in pairs}


def circles(arrows: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """Sets of modules each of which reaches the others (Warshall)."""
    reach = {module: set(others) for module, others in arrows.items()}
    for between in reach:
        for module in reach:
            if between in reach[module]:
                reach[module] |= reach[between]
    return {frozenset(other for other in reach[module] if module in reach[other])
            for module in reach if module in reach[module]}


def inner_imports(file: Path) -> int:
    return sum(isinstance(node, ast.Import | ast.ImportFrom)
               for function in functions(file) for node in ast.walk(function))


def parameters(node: Function) -> int:
    named = [argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    return len(named) - (named[:1] in (["self"], ["cls"]))


def fields_of(files: Iterable[Path]) -> Iterator[int]:
    """The number of fields of each dataclass."""
    for file in files:
        for node in ast.walk(syntax_of(file)):
            if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(mark) for mark in node.decorator_list):
                yield sum(isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation)
                          for part in node.body)


def single(product: Iterable[Path], arrows: Mapping[str, set[str]]) -> Iterator[bool]:
    importers: Counter[str] = Counter(other for others in arrows.values() for other in others)
    for file in product:
        yield importers[module_name(file)] == 1 and file.name != "__init__.py" and lines([file]) < 120


def docstrings_of(file: Path) -> Iterator[str]:
    for node in ast.walk(syntax_of(file)):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and (text := ast.get_docstring(node)):
            yield text


HOUSE_SECTIONS: dict[str, Callable[[Bench], str]] = {"house": house}
