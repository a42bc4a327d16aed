"""What belongs to one FPGA family is in its own folders, and everybody else asks the family."""

from __future__ import annotations

import re

import pytest
from hwflow_rtl.vendor import FAMILIES as TECHNOLOGIES
from hwflow_sim.cells import MODELS

from hwflow.synth import Board, list_boards, load_board
from hwflow.synth.families import FAMILIES
from tests.project.tree import PACKAGES, ROOT, imports, module_name, project_files, python_files

LIST = "hwflow.synth.families"
FOLDER = PACKAGES["hwflow"] / "synth" / "families"
VENDOR = PACKAGES["hwflow_rtl"] / "vendor"
CELLS = PACKAGES["hwflow_sim"] / "cells"
#: Numbers that are fitted to designs of all families together: one for each family, which this file has to name.
FITTED = PACKAGES["hwflow"] / "synth" / "clocks.json"
QUOTED = re.compile(rf"[\"']({'|'.join(FAMILIES)})[\"']", re.IGNORECASE)
CODE = {file for name in ("hwflow", "hwflow_rtl", "hwflow_sim") for file in project_files()
        if file.is_relative_to(PACKAGES[name])}


def test_no_name_of_a_family_is_written_outside_of_its_folders() -> None:
    found = {}
    for file in CODE - {FITTED}:
        home = VENDOR if file.is_relative_to(VENDOR) else CELLS if file.is_relative_to(CELLS) else None
        names = {name.lower() for name in QUOTED.findall(file.read_text(encoding="utf-8", errors="replace"))}
        names -= {name for name in names if home or file.is_relative_to(FOLDER / name)}
        if names:
            found[str(file.relative_to(ROOT))] = names
    assert found == {}, "ask Family or Technology for what differs: see docs/add-a-family.md"


@pytest.mark.parametrize("name", FAMILIES)
def test_only_the_list_knows_the_folder_of_a_family(name: str) -> None:
    folder = f"{LIST}.{name}"
    users = {module_name(file) for file in python_files(ROOT) if file in CODE for _, target in imports(file)
             if target == folder or target.startswith(f"{folder}.")}
    assert {user for user in users if user != LIST and not user.startswith(folder)} == set()


def test_every_family_has_a_folder_a_technology_and_models_of_its_cells() -> None:
    folders = {path.parent.name for path in FOLDER.glob("*/__init__.py")}
    assert set(FAMILIES) == set(TECHNOLOGIES) == set(MODELS) == folders
    assert {models.verilog for models in MODELS.values()} == set(CELLS.glob("*.v"))
    assert all(family.technology(board).name == name for name, family in FAMILIES.items()
               for board in boards_of(name))


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_names_its_tools_and_a_limit_of_every_design(name: str) -> None:
    family = FAMILIES[name]
    assert family.packer in family.programs
    assert [tool for tool in family.programs if tool.startswith("nextpnr")] == [next(iter(family.programs))]
    assert any(limit.what == "clock" for limit in family.limits)


def boards_of(name: str) -> list[Board]:
    found = [board for board in map(load_board, list_boards()) if board.family == name]
    assert found
    return found
