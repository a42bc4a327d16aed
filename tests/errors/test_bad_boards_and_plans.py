"""Boards that do not exist or are written wrongly, plans that fit no model, models that fit no board."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.options import BOARD, Project
from hwflow.pipeline.pipeline import Pipeline
from hwflow.synth import list_boards, load_board
from hwflow.views.console.terminal import Console
from tests.e2e.command import Cli
from tests.e2e.networks import small_network
from tests.errors.refusals import Refusal, table

BOARDS = ", ".join(list_boards())


@pytest.mark.parametrize("command", ["build", "sim", "synth"])
@pytest.mark.parametrize("name, guess", [("nope", ""), ("icebraker", "; did you mean icebreaker?")])
def test_a_board_that_does_not_exist(cli: Cli, model: Path, command: str, name: str, guess: str) -> None:
    assert cli.refuses(command, model, "--board", name) == (
        f"board must be one of {BOARDS}, or the path of a YAML file, not '{name}'{guess}")
    assert not Path("build").exists(), "nothing is computed for a board that does not exist"


def test_a_board_file_works_by_its_path(cli: Cli, model: Path) -> None:
    shutil.copy(load_board("icebreaker").path, "mine.yaml")
    assert cli("build", model, "--board", "mine.yaml", "--json").json["board"] == "mine"


@pytest.fixture(scope="module")
def plan_text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The plan that hwflow makes for the small model, as the file has it."""
    folder = tmp_path_factory.mktemp("plan")
    onnx.save(small_network(), folder / "small.onnx")
    pipeline = Pipeline(Console(quiet=True), Project(folder / "small.onnx", build=folder))
    assert pipeline.plan.stages
    return (pipeline.board_folder / "plan.yaml").read_text()


@pytest.fixture
def plan(plan_text: str) -> dict[str, Any]:
    """The same as plain data, to be edited."""
    loaded: dict[str, Any] = yaml.safe_load(plan_text)
    return loaded


def edited(plan: dict[str, Any]) -> Path:
    Path("p.yaml").write_text(yaml.safe_dump(plan))
    return Path("p.yaml")


NAMES = "0_conv, 1_pool, 2_fc"


def stage_of(plan: dict[str, Any], **changes: Any) -> None:
    plan["stages"][0].update(changes)


#: What is done to the plan and what is said of it.
EDITS: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "unknown key": (partial(stage_of, colls=2), ", stages/0: Additional properties are not allowed ('colls' was "
                    "unexpected); start from the plan.yaml that `hwflow build` writes"),
    "unknown stage": (partial(stage_of, stage="0_convv"), f": stage '0_convv' is not in the model; its stages are "
                      f"{NAMES}; did you mean '0_conv'?"),
    "without a stage": (lambda plan: plan["stages"].pop(1), f": stage '1_pool' is missing; the plan must name every "
                        f"stage: {NAMES}"),
    "a stage twice": (lambda plan: plan["stages"].append({**deepcopy(plan["stages"][0]), "rows": 1, "resources": {}}),
                      ": stage '0_conv' must be named once, not 2 times"),
    **{f"rows {rows}": (partial(stage_of, rows=rows), ", stages/0/rows: ...") for rows in (0, -1, 1.5, "two", None)},
}


@pytest.mark.parametrize("edit, message", EDITS.values(), ids=EDITS)
def test_an_edited_plan_that_is_wrong(cli: Cli, model: Path, plan: dict[str, Any],
                                      edit: Callable[[dict[str, Any]], object], message: str) -> None:
    edit(plan)
    edited(plan)
    Refusal("build small.onnx --plan p.yaml", f"plan p.yaml{message}").check(cli)


@pytest.mark.parametrize("stage, folding", [(0, {"rows": 3}), (0, {"cols": 7}), (0, {"lanes": 5}), (1, {"cols": 3}),
                                            (2, {"rows": 4}), (2, {"cols": 1000000})])
def test_a_folding_that_does_not_divide(cli: Cli, model: Path, plan: dict[str, Any], stage: int,
                                        folding: dict[str, int]) -> None:
    plan["stages"][stage].update(folding)
    message = cli.refuses("build", model, "--plan", edited(plan))
    (key, value), = folding.items()
    name = plan["stages"][stage]["stage"]
    assert message.startswith(f"plan p.yaml, stage '{name}': {key} must "), message
    assert f"not {value}" in message


def test_a_plan_with_more_multipliers_than_the_board_has(cli: Cli, model: Path, plan: dict[str, Any]) -> None:
    """It is made as the user says, for a simulation, and the user is told."""
    board = yaml.safe_load(load_board(BOARD).path.read_text())
    Path("mine.yaml").write_text(yaml.safe_dump({**board, "resources": {**board["resources"], "dsp": 2}}))
    made = cli("build", model, "--board", "mine.yaml", "--plan", edited(plan), "--json")
    needed = sum(stage["resources"]["dsp"] for stage in plan["stages"])
    assert made.code == 0
    assert {"code": "board-exceeded", "where": "plan 'p.yaml'", "remedy": "use a smaller array, or leave --plan out",
            "seen": f"does not fit mine: it needs {needed} multipliers of 2 usable"} in made.json["warnings"]


def test_a_model_that_does_not_fit(cli: Cli) -> None:
    b = Builder("big")
    x = b.input("x", np.float32, (1, 512))
    w = np.random.default_rng(0).standard_normal((512, 512)).astype(np.float32)
    for name in ("first", "second"):
        x = b.node("Gemm", x, b.constant(f"w_{name}", w), name=name)
    b.output(x)
    onnx.save(b.model(), "big.onnx")
    message = cli.refuses("build", "big.onnx", "--board", "tangnano9k", code=1)
    assert message.startswith("big.onnx: 'big' does not fit tangnano9k, not even with its smallest folding: ")
    assert " block RAMs needed, " in message
    assert " usable (most in 0_first " in message
    assert "1_second " in message
    assert ("With the weights of 0_first, 1_second in a memory outside of the FPGA the RAM blocks suffice: 524,288 "
            "bytes a frame") in message
    assert " MB/s at 100 MHz, and FLASH608K has 77,796, 446,492 fewer. " in message
    others = ", ".join(name for name in list_boards() if load_board(name).memories and name != "tangnano9k")
    assert message.endswith("Fewer channels or layers, fewer bits, or a larger board would help (`hwflow boards` lists "
                            f"them); boards with such a memory are {others}")


def bomb(at: str) -> str:
    """A key whose value, written out, fills no memory of this world."""
    lines = ["  - &a0 [x]", *(f"  - &a{k + 1} [{', '.join([f'*a{k}'] * 9)}]" for k in range(30))]
    return "\n".join([f"{at}:", *lines])


HOSTILE = {
    "bomb": (bomb("stages"), ", line 3: not valid YAML: references (*) are not read here"),
    "endless": ("stages: &a [*a]", ", line 1: not valid YAML: references (*) are not read here"),
    "deep": ("stages: " + "[\n" * 2_000, ": not valid YAML: it is nested too deeply"),
    "twice": ("stages: []\nstages: []", ", line 2: not valid YAML: the key 'stages' must be given once, not twice"),
    "number": ("stages: " + "9" * 5_000, ": not valid YAML: Exceeds the limit (4300 digits) for integer string "
               "conversion: value has 5000 digits; use sys.set_int_max_str_digits() to increase the limit"),
    "date": ("stages: 2020-99-99", ": not valid YAML: month must be in 1..12"),
    "key": ("{[1]: 2}", ", line 1: not valid YAML: a key must be a name"),
    "long": ("stages: " + "x" * 9_000, f", stages: '{'x' * 99} ... {'x' * 76}' is not of type 'array'; start from the "
             "plan.yaml that `hwflow build` writes"),
}


BOARD_TEXTS = {
    "no YAML": ("title: a\nfamily: [b\nclock: 3\n", "line 3, column 6: expected ',' or ']', but got ':'"),
    **{name: (text, "...") for name, text in {
        "bomb": bomb("title"), "endless": "title: &a [*a]", "deep": "[\n" * 2_000, "number": "a: " + "9" * 5_000,
        "date": "a: 2020-99-99"}.items()},
}
WRONG = yaml.safe_load(load_board("icebreaker").path.read_text()) | {"family": "virtex"}
START = "; start from the plan.yaml that `hwflow build` writes"
PLAN_TEXTS = {
    "cut off": ("stages: [\n", ", line 2: not valid YAML: expected the node content, but found '<stream end>'"),
    "empty": ("", f", the top level: None is not of type 'object'{START}"),
    "no stages": ("stages: []\n", f", stages: [] should be non-empty{START}"),
    "code": ("a: !!python/object/apply:os.system ['touch hacked']\n", ", line 1: not valid YAML: could not determine a "
             "constructor for the tag 'tag:yaml.org,2002:python/object/apply:os.system'"),
    **HOSTILE,
}


@table({
    "no plan": Refusal("build small.onnx --plan p.yaml", "'p.yaml' must be a readable text file: No such file or "
                       "directory"),
    "no board file": Refusal("build small.onnx --board mine.yaml", "the board file 'mine.yaml' must exist; the boards "
                             f"that come with hwflow are {BOARDS}"),
    **{f"plan {name}": Refusal("build small.onnx --plan p.yaml", f"plan p.yaml{message}", {"p.yaml": text})
       for name, (text, message) in PLAN_TEXTS.items()},
    **{f"board {name}": Refusal("build small.onnx --board mine.yaml", "the board file 'mine.yaml' must be valid YAML: "
                                f"{message}", {"mine.yaml": text}) for name, (text, message) in BOARD_TEXTS.items()},
    "board with a wrong key": Refusal(
        "build small.onnx --board mine.yaml", "...with valid values:\n  key 'family' must be one of ecp5, ice40, "
        "gowin, not 'virtex'", {"mine.yaml": yaml.safe_dump(WRONG)}),
})
def test_files_that_cannot_be_read(cli: Cli, model: Path, refusal: Refusal) -> None:
    """Some of them mean harm."""
    refusal.check(cli)
    assert not Path("hacked").exists()


def test_a_whole_number_may_have_a_point(cli: Cli, model: Path, plan: dict[str, Any]) -> None:
    """As programs write it that know one kind of number only."""
    for stage in plan["stages"]:
        stage.update({key: float(stage[key]) for key in ("rows", "cols", "lanes")})
    done = cli("build", model, "--plan", edited(plan))
    assert done.code == 0, done
    assert yaml.safe_load(Path("build/small/ulx3s_85f/plan.yaml").read_text())["stages"][0]["rows"] == int(
        plan["stages"][0]["rows"])
