"""Some seconds of fuzzing, always the same inputs (`python -m bench.fuzz` has many more), and the harness."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from bench import fuzz
from bench.mutate import mutate
from tests.onnx.rules.protos import errors, model, value

COUNT = 400


@pytest.fixture(scope="module")
def corpus() -> list[bytes]:
    """Small models in code only: the same on every machine."""
    return [data for _, data in sorted(fuzz.own_models().items()) if len(data) < 2_000]


def test_damaged_models(corpus: list[bytes]) -> None:
    tally = fuzz.run(corpus, seed=20, count=COUNT, jobs=2, progress=False)
    assert tally.failures == {}
    assert sum(tally.outcomes.values()) == COUNT
    # Inputs that all end at the first hurdle would test nothing.
    assert tally.outcomes["evaluated"] > COUNT // 40
    assert tally.outcomes["check: findings"] > COUNT // 10
    assert tally.outcomes["read: FormatError"] > COUNT // 50


def test_inputs_depend_on_seed_and_number_only(corpus: list[bytes]) -> None:
    made = [fuzz.damaged(corpus, 1, number) for number in range(50)]
    assert made == [fuzz.damaged(corpus, 1, number) for number in range(50)]
    assert made != [fuzz.damaged(corpus, 2, number) for number in range(50)]
    assert len(set(made)) > 40


def test_an_edit_changes_something(corpus: list[bytes]) -> None:
    rng = random.Random(5)
    changed = sum(mutate(data, corpus, rng) != data for data in corpus for _ in range(5))
    assert changed > 4 * len(corpus)


def bug(data: bytes, **_: Any) -> Any:
    raise KeyError("a bug")


def crash(data: bytes, **_: Any) -> Any:
    import faulthandler
    import os

    faulthandler.disable()  # this end is meant; its traceback would stand among the results
    os.abort()


def hang(data: bytes, **_: Any) -> Any:
    time.sleep(600)


def greedy(data: bytes, **_: Any) -> Any:
    raise AssertionError(len(bytearray(1 << 34)))


@pytest.mark.parametrize(
    "fault, kind", [(bug, "KeyError in "), (crash, "crash"), (hang, "hang"), (greedy, "MemoryError in ")]
)
def test_faults_are_seen(
    monkeypatch: pytest.MonkeyPatch, corpus: list[bytes], tmp_path: Path, fault, kind: str
) -> None:
    """One bad input of six does not keep the others from being run."""
    real = fuzz.read_bytes
    bad = fuzz.damaged(corpus, 1, 2)

    def faulty(data: bytes, **more: Any) -> Any:
        return fault(data) if data == bad else real(data, **more)

    monkeypatch.setattr(fuzz, "read_bytes", faulty)
    monkeypatch.setattr(fuzz, "DEADLINE", 1.0)
    tally = fuzz.run(corpus, seed=1, count=6, jobs=1, progress=False)
    ((name, found),) = tally.failures.items()
    assert name.startswith(kind)
    assert [number for number, _ in found] == [2]
    assert sum(tally.outcomes.values()) == 6
    (line,) = fuzz.save(tally, corpus, 1, tmp_path / "failures")
    assert kind in line
    assert (tmp_path / "failures" / "1-2.onnx").read_bytes() == bad


# What fuzzing has found.


def test_an_output_without_a_name() -> None:
    proto = model(outputs=[value("")])
    assert "graph/output[0]: the output must have a name, not none; export the model again [GR-14]" in errors(proto)
    assert fuzz.verdict(proto.SerializeToString()) == ("check: findings", "")
