"""Mutants of the product: how many of them do the tests catch?

    python -m bench.mutants draw --count 150 --seed 1 mutants.json
    python -m bench.mutants run mutants.json results.json --checkout DIR --seconds 60

A mutant is one changed line inside of a function: a comparison, an operator, a number.  cosmic-ray makes it.  A set of
mutants is a file, so that suites of two commits meet the same changes: `run` looks for the line in the function of that
name, wherever its file is now.  A mutant is tried with the test files that are nearest to it by imports.  The quick
tests run until one fails (caught), all pass (survived), or their processor time is over (time).  `run` goes on where an
earlier one ended.  It needs cosmic-ray and psutil (`pip install cosmic-ray psutil`).
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

#: The product: import names and their folders.
PACKAGES = {"hwflow": "hwflow", "hwflow_base": "base/hwflow_base", "hwflow_rtl": "rtl/hwflow_rtl",
            "hwflow_sim": "sim/hwflow_sim"}
#: Changes whose result is seldom equal to the original: cosmic-ray's names.
OPERATORS = tuple(f"core/{name}" for name in (
    *(f"ReplaceComparisonOperator_{change}" for change in (
        "Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt", "Eq_NotEq", "NotEq_Eq", "Is_IsNot")),
    *(f"ReplaceBinaryOperator_{change}" for change in (
        "Add_Sub", "Sub_Add", "Mul_Add", "FloorDiv_Mul", "RShift_LShift", "Mod_FloorDiv", "BitAnd_BitOr")),
    "ReplaceAndWithOr", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "NumberReplacer", "AddNot"))
#: Test files near a mutant are taken until they have so many lines.
LINES_OF_TESTS = 6000


@dataclass(frozen=True)
class Mutant:
    """One changed line: `before` becomes `after` in the function `within`; its file was `file` when it was drawn."""

    file: str
    within: str
    operator: str
    before: str
    after: str


def functions_of(source: str) -> Iterator[tuple[str, int, int]]:
    """The qualified name, first and last line of every function that is in no other one."""

    def inside(nodes: Sequence[ast.stmt], prefix: str) -> Iterator[tuple[str, int, int]]:
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                yield from inside(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{node.name}", node.lineno, node.end_lineno or node.lineno

    yield from inside(ast.parse(source).body, "")


def product_files(checkout: Path) -> list[Path]:
    return [file for folder in PACKAGES.values() for file in sorted((checkout / folder).rglob("*.py"))
            if not file.name.endswith("_pb2.py")]


def mutant_of(file: Path, checkout: Path, chance: random.Random) -> Mutant | None:
    """A mutant of one line of a function of `file`; None where the one that was drawn changes several lines."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    source = file.read_text()
    lines, nodes, changes = source.splitlines(), list(ast_nodes(get_ast(source))), []
    for name in OPERATORS:
        operator = get_operator(name)()
        places = (place for node in nodes for place in operator.mutation_positions(node))
        changes += [(name, occurrence, line) for occurrence, ((line, _), _) in enumerate(places)]
    if not changes:
        return None
    kind = chance.choice(sorted({name for name, _, _ in changes}))
    name, occurrence, line = chance.choice([change for change in changes if change[0] == kind])
    within = next((place for place in functions_of(source) if place[1] <= line <= place[2]), None)
    changed = mutate_code(source, get_operator(name)(), occurrence).splitlines()
    if within is None or len(changed) != len(lines) or changed[line - 1] == lines[line - 1]:
        return None
    called, first, last = within
    once = lines[first - 1:last].count(lines[line - 1]) == 1
    return Mutant(str(file.relative_to(checkout)), called, name, lines[line - 1], changed[line - 1]) if once else None


def draw(checkout: Path, count: int, seed: int) -> list[Mutant]:
    """`count` mutants: files by their number of lines, then one of the file's mutants."""
    chance, files = random.Random(seed), product_files(checkout)
    weights = [len(file.read_text().splitlines()) for file in files]
    drawn: list[Mutant] = []
    while len(drawn) < count:
        (file,) = chance.choices(files, weights)
        mutant = mutant_of(file, checkout, chance)
        drawn += [mutant] if mutant is not None and mutant not in drawn else []
    return drawn


def place_of(mutant: Mutant, checkout: Path) -> tuple[Path, int] | None:
    """The file and the line (from 0) of a mutant in a checkout; None where its function has changed."""
    places = []
    for file in product_files(checkout):
        source = file.read_text()
        if mutant.before in source:
            lines = source.splitlines()
            places += [(file, line) for name, first, last in functions_of(source) if name == mutant.within
                       for line in range(first - 1, last) if lines[line] == mutant.before]
    same = [place for place in places if str(place[0].relative_to(checkout)) == mutant.file]
    return same[0] if same else places[0] if len(places) == 1 else None


def module_name(file: Path, checkout: Path) -> str:
    for package, folder in {**PACKAGES, "tests": "tests"}.items():
        if file.is_relative_to(checkout / folder):
            names = (package, *file.relative_to(checkout / folder).with_suffix("").parts)
            return ".".join(names[:-1] if names[-1] == "__init__" else names)
    raise ValueError(f"{file} is in no package")


def importers(checkout: Path) -> Mapping[str, set[str]]:
    """The modules that import each module, anywhere in their code."""
    files = [*product_files(checkout), *sorted((checkout / "tests").rglob("*.py"))]
    modules = {module_name(file, checkout): file for file in files}
    found: dict[str, set[str]] = {}
    for name, file in modules.items():
        package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
        for node in ast.walk(ast.parse(file.read_text())):
            targets: list[str] = []
            if isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                above = package[:len(package) - node.level + 1] if node.level else []
                base = ".".join([*above, *([node.module] if node.module else [])])
                targets = [base, *(f"{base}.{alias.name}" for alias in node.names)]
            for target in targets:
                if target in modules:
                    found.setdefault(target, set()).add(name)
    return found


def nearest_tests(module: str, checkout: Path, imported_by: Mapping[str, set[str]]) -> list[str]:
    """The test files with the shortest ways of imports to `module`, the nearest first."""
    while not imported_by.get(module) and "." in module:  # a table names it, in a package above it
        module = module.rpartition(".")[0]
    distance, queue = {module: 0}, deque([module])
    while queue:
        name = queue.popleft()
        for importer in sorted(imported_by.get(name, ())):
            if importer not in distance:
                distance[importer] = distance[name] + 1
                queue.append(importer)
    names = sorted((name for name in distance if name.split(".")[-1].startswith("test_")),
                   key=lambda name: (distance[name], name))
    tests, lines = [], 0
    for name in names:
        file = (checkout / name.replace(".", "/")).with_suffix(".py")
        if lines < LINES_OF_TESTS:
            tests.append(str(file.relative_to(checkout)))
            lines += len(file.read_text().splitlines())
    return tests


@contextlib.contextmanager
def applied(mutant: Mutant, file: Path, line: int) -> Iterator[None]:
    """The mutant in its file, for as long as the context lasts."""
    source = file.read_text()
    lines = source.splitlines(keepends=True)
    lines[line] = mutant.after + "\n"
    try:
        file.write_text("".join(lines))
        yield
    finally:
        file.write_text(source)


def verdict(tests: Sequence[str], checkout: Path, seconds: float) -> str:
    """`caught`, `survived` or `time`, and a dash for what pytest could not say.

    `seconds` are those of the processor, of pytest and its children: a busy machine gives the same verdicts.
    """
    command = [str(checkout / ".venv/bin/python"), "-m", "pytest", "-q", "-x", "-m", "not slow",
               "-p", "no:cacheprovider", *tests]
    process = psutil.Popen(command, cwd=checkout, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           start_new_session=True)
    try:
        while used_by(process) < seconds:
            with contextlib.suppress(psutil.TimeoutExpired):
                return {0: "survived", 1: "caught", 2: "caught"}.get(process.wait(1), "-")
        return "time"
    finally:
        with contextlib.suppress(ProcessLookupError):  # also the programs that the tests started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def used_by(process: psutil.Process) -> float:
    """Seconds of processor time of a process, its living children, and those it has waited for."""
    used = 0.0
    for one in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            used += sum(one.cpu_times()[:4])
    return used


def run(mutants: Sequence[Mutant], results: Path, checkout: Path, seconds: float) -> dict[str, str]:
    """The verdict of every mutant, by its number; written after each."""
    verdicts: dict[str, str] = json.loads(results.read_text()) if results.exists() else {}
    imported_by = importers(checkout)
    for number, mutant in enumerate(mutants):
        if str(number) in verdicts:
            continue
        place = place_of(mutant, checkout)
        if place is None:
            verdicts[str(number)] = "gone"
        else:
            tests = nearest_tests(module_name(place[0], checkout), checkout, imported_by)
            with applied(mutant, *place):
                verdicts[str(number)] = verdict(tests, checkout, seconds) if tests else "no test"
        results.write_text(json.dumps(verdicts))
        print(f"{number:4} {verdicts[str(number)]:9} {mutant.file} {mutant.within}: {mutant.after.strip()}", flush=True)
    return verdicts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    drawing, running = commands.add_parser("draw"), commands.add_parser("run")
    drawing.add_argument("mutants", type=Path)
    drawing.add_argument("--count", type=int, default=150)
    drawing.add_argument("--seed", type=int, default=1)
    running.add_argument("mutants", type=Path)
    running.add_argument("results", type=Path)
    running.add_argument("--seconds", type=float, default=60)
    for command in (drawing, running):
        command.add_argument("--checkout", type=Path, default=Path(__file__).parents[1])
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # the mutant leaves its file
    if options.command == "draw":
        drawn = draw(checkout, options.count, options.seed)
        options.mutants.write_text(json.dumps([asdict(mutant) for mutant in drawn], indent=1) + "\n")
        return 0
    mutants = [Mutant(**fields) for fields in json.loads(options.mutants.read_text())]
    verdicts = list(run(mutants, options.results, checkout, options.seconds).values())
    print({name: verdicts.count(name) for name in sorted(set(verdicts))})
    return 0


if __name__ == "__main__":
    sys.exit(main())
