"""The table of everything that was found about a design space: an SQLite database with one writer.

It is a database and no file of `hwflow_base.files.state`, because tasks are finished in any order, thousands of them,
while others read.  A task is written in one transaction, with the key of all its inputs.  So a run that is killed loses
the tasks that were not finished and nothing else, and the next one goes on.  Results of other versions of hwflow, or of
another model, have other keys: they are never used.
"""

from __future__ import annotations

import contextlib
import errno
import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from hwflow_base.errors import HwflowError
from hwflow_base.files.target import create_folder

from .point import Judgement, Point, point_of

#: What the data decides, and no plan: it is kept once for all designs of the same widths, by `put`.
OF_WIDTHS = tuple(field.name for field in fields(Judgement))
COLUMNS = tuple(field.name for field in fields(Point) if field.name not in OF_WIDTHS)
TABLES = f"""
CREATE TABLE tasks (key TEXT PRIMARY KEY, made TEXT NOT NULL);
CREATE TABLE points (task TEXT NOT NULL, number INTEGER NOT NULL, {", ".join(COLUMNS)}, PRIMARY KEY (task, number));
CREATE TABLE facts (kind TEXT NOT NULL, key TEXT NOT NULL, made TEXT NOT NULL, facts TEXT NOT NULL,
                    PRIMARY KEY (kind, key));
"""
#: The table of everything that was found, in the folder of an exploration.
STORE = "points.sqlite"
#: The version of the tables; those of another one are made anew.
VERSION = zlib.crc32(TABLES.encode()) >> 1


class Store:
    """The tables in the file `path`, which is made where it is not there.  One process writes at a time.

    HwflowError where the file is something else or damaged; OSError where the disk is full.
    """

    def __init__(self, path: Path):
        self.path = path
        create_folder(path.parent)
        with self.explained():
            self.connection = sqlite3.connect(path, isolation_level=None)
            (version,) = self.connection.execute("PRAGMA user_version").fetchone()
            #: Whether another version of hwflow wrote what was in the file, which is not read.
            self.replaced = version not in (0, VERSION)
            if version != VERSION:
                self.make_tables()

    def make_tables(self) -> None:
        """Empty ones, in place of those of another version."""
        with self.transaction():
            named = self.connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (name,) in named:
                self.connection.execute('DROP TABLE "{}"'.format(name.replace('"', '""')))
            for statement in TABLES.split(";\n"):
                self.connection.execute(statement)
            self.connection.execute(f"PRAGMA user_version = {VERSION}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.connection.close()

    def points(self, task: str) -> tuple[Point, ...] | None:
        """The points of a task, in its order; None where it is not finished."""
        with self.explained():
            if self.connection.execute("SELECT 1 FROM tasks WHERE key = ?", (task,)).fetchone() is None:
                return None
            rows = self.connection.execute(
                f"SELECT {', '.join(COLUMNS)} FROM points WHERE task = ? ORDER BY number", (task,)).fetchall()
        return tuple(point_of(dict(zip(COLUMNS, row, strict=True))) for row in rows)

    def finish(self, task: str, points: Sequence[Point]) -> None:
        """Write what a task found; all of it, or nothing."""
        values = [(task, number, *(getattr(point, name) for name in COLUMNS)) for number, point in enumerate(points)]
        places = ", ".join("?" * (len(COLUMNS) + 2))
        with self.explained(), self.transaction():
            self.connection.execute("DELETE FROM points WHERE task = ?", (task,))
            self.connection.executemany(f"INSERT INTO points VALUES ({places})", values)
            self.connection.execute("INSERT OR REPLACE INTO tasks VALUES (?, ?)", (task, now()))

    def get(self, kind: str, key: str) -> Any | None:
        """The plain data that `put` wrote; None where there is none."""
        with self.explained():
            row = self.connection.execute("SELECT facts FROM facts WHERE kind = ? AND key = ?", (kind, key)).fetchone()
        return None if row is None else json.loads(row[0])

    def put(self, kind: str, key: str, facts: Mapping[str, Any]) -> None:
        """Keep plain data under a key that says all that it depends on, in place of what was there."""
        text = json.dumps(facts, allow_nan=False)
        with self.explained(), self.transaction():
            self.connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?, ?, ?)", (kind, key, now(), text))

    def all(self, kind: str) -> dict[str, object]:
        """Everything of a kind, by key."""
        with self.explained():
            rows = self.connection.execute("SELECT key, facts FROM facts WHERE kind = ? ORDER BY key", (kind,))
            return {key: json.loads(text) for key, text in rows}

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """All of the statements inside, or none of them."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):  # SQLite has taken it back by itself, as where the disk is full
                self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of SQLite into those that the user is told."""
        try:
            yield
        except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code == sqlite3.SQLITE_FULL:
                raise OSError(errno.ENOSPC, "the disk is full; what is finished is kept", str(self.path)) from None
            if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
                raise HwflowError("must be a table of explored designs, and is damaged",
                                  "delete it: the next run makes it anew", where=str(self.path)) from None
            raise HwflowError(f"must be readable and writable: {error}", "choose another folder with --build",
                              where=str(self.path)) from None


def now() -> str:
    """The time in UTC, ISO 8601."""
    return datetime.now(UTC).isoformat(timespec="seconds")
