"""The files of the project and the imports in them."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: The packages and the folders they come from, as in pyproject.toml.
PACKAGES = {
    "hwflow": ROOT / "hwflow",
    "hwflow_base": ROOT / "base" / "hwflow_base",
    "hwflow_rtl": ROOT / "rtl" / "hwflow_rtl",
    "hwflow_sim": ROOT / "sim" / "hwflow_sim",
    "hwflow_boards": ROOT / "boards",
    "hwflow_models": ROOT / "models",
}


@cache
def project_files(root: Path = ROOT) -> tuple[Path, ...]:
    """Every file below `root` that its `.gitignore` does not name; works without git, as in an unpacked archive."""
    patterns = [line.strip().rstrip("/") for line in (root / ".gitignore").read_text().splitlines() if line.strip()]

    def kept(name: str) -> bool:
        return name != ".git" and not any(fnmatch(name, pattern) for pattern in patterns)

    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = filter(kept, folders)
        found += [Path(folder, name) for name in files if kept(name)]
    return tuple(sorted(found))


def python_files(*folders: Path) -> list[Path]:
    """Hand-written Python files below any of `folders`."""
    return [
        file
        for file in project_files()
        if file.suffix == ".py"
        and not file.name.endswith("_pb2.py")
        and any(file.is_relative_to(folder) for folder in folders)
    ]


def module_name(file: Path) -> str:
    """The dotted name under which a file of a package is imported."""
    for package, folder in PACKAGES.items():
        if file.is_relative_to(folder):
            parts = [package, *file.relative_to(folder).with_suffix("").parts]
            return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    raise ValueError(f"{file} belongs to no package")


def syntax_of(file: Path) -> ast.Module:
    """Parsed anew by each call: the trees of all files would slow the garbage collector down for all later tests."""
    return ast.parse(file.read_text())


@cache
def imports(file: Path) -> tuple[tuple[int, str], ...]:
    """Line and full dotted name of everything that `file` imports, also inside functions and for type checking."""
    return tuple(imports_of(file))


def imports_of(file: Path) -> Iterator[tuple[int, str]]:
    package = module_name(file) if file.name == "__init__.py" else module_name(file).rpartition(".")[0]
    for node in ast.walk(syntax_of(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            levels = package.split(".")
            base = levels[: len(levels) - node.level + 1] if node.level else []
            start = ".".join([*base, *filter(None, [node.module])])
            for alias in node.names:
                yield node.lineno, f"{start}.{alias.name}"
