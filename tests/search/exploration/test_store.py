"""The table: a task is in it as a whole or not at all, whatever ends the writer."""

from __future__ import annotations

import errno
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError

from hwflow.search.exploration.point import Point
from hwflow.search.exploration.store import Store

ASKED = Point("icebreaker", "4,8", "auto", False, True, None)
DESIGN = replace(ASKED, design="00ff", made_as="dataflow", interval=7, latency=9, mhz=1 / 3, mhz_error=0.1, link=2.5,
                 lut=3, filled=0.5, asked=12)
REFUSED = replace(ASKED, refused="'x'; DROP TABLE points", lacks="9 logic cells of 8")


def test_points_come_back_as_they_were(tmp_path: Path) -> None:
    with Store(tmp_path / "new" / "points.sqlite") as store:
        assert store.points("a") is None
        store.finish("a", [DESIGN, REFUSED])
        store.finish("b", [])
        store.put("integers", "key", {"accuracy": 91.5})
    with Store(tmp_path / "new" / "points.sqlite") as store:
        assert store.points("a") == (DESIGN, REFUSED)
        assert store.points("b") == ()
        assert store.points("c") is None
        assert store.get("integers", "key") == {"accuracy": 91.5}
        assert store.get("integers", "other") is None
        assert store.all("integers") == {"key": {"accuracy": 91.5}}


def test_a_writer_that_ends_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "points.sqlite"
    store = Store(path)
    store.finish("a", [DESIGN])
    store.connection.execute("BEGIN IMMEDIATE")
    store.connection.execute("INSERT INTO tasks VALUES ('b', 'now')")
    store.connection.close()  # as the kernel does for a process that is killed
    with Store(path) as again:
        assert again.points("a") == (DESIGN,)
        assert again.points("b") is None


def test_a_full_disk_loses_nothing_that_is_finished(tmp_path: Path) -> None:
    with Store(tmp_path / "points.sqlite") as store:
        store.finish("a", [DESIGN])
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(OSError, match="the disk is full; what is finished is kept") as error:
            store.finish("b", [replace(DESIGN, refused="x" * 100_000)])
        assert error.value.errno == errno.ENOSPC
        store.connection.execute("PRAGMA max_page_count = 1000000")
        assert store.points("a") == (DESIGN,)
        assert store.points("b") is None
        store.finish("b", [REFUSED])
        assert store.points("b") == (REFUSED,)


def test_tables_of_another_version_are_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "points.sqlite"
    old = sqlite3.connect(path)
    old.executescript('CREATE TABLE tasks (a); CREATE TABLE "odd "" name" (b); PRAGMA user_version = 7')
    old.close()
    with Store(path) as store:
        assert store.replaced, "the progress says so"
        assert store.points("a") is None
        store.finish("a", [DESIGN])
        assert store.points("a") == (DESIGN,)
    with Store(path) as store:
        assert not store.replaced
        assert store.points("a") == (DESIGN,)


def test_a_file_that_is_no_table_is_named(tmp_path: Path) -> None:
    path = tmp_path / "points.sqlite"
    path.write_text("something else " * 100)
    with pytest.raises(HwflowError, match="must be a table of explored designs, and is damaged; delete it") as error:
        Store(path)
    assert error.value.where == str(path)
