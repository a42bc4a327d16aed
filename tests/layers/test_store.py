"""A layer graph survives its files, and damaged files are refused."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.layers import (
    KINDS,
    Add,
    AveragePool,
    Concat,
    Conv,
    Dense,
    Embedding,
    Frame,
    Interpolate,
    IntFormat,
    LayerGraph,
    Lookup,
    MatMul,
    MaxPool,
    Multiply,
    Normalize,
    Rearrange,
    Requantize,
    RunningSum,
    Softmax,
    Tensor,
    TopK,
    Trees,
    WriteRow,
)
from hwflow.layers.rearrange import picked
from hwflow.layers.store import load_graph, save_graph
from tests.layers.recurrent_cases import random_layer
from tests.layers.segment_cases import random_segments

INT8, UINT4 = IntFormat(8, True), IntFormat(4, False)


def every_kind() -> LayerGraph:
    rng = np.random.default_rng(0)

    def q(channels: int) -> Requantize:
        return Requantize(
            rng.integers(-9, 9, channels),
            rng.integers(1, 2**18, channels),
            rng.integers(0, 40, channels),
            -3,
            -128,
            127,
        )

    w, frame = rng.integers(-127, 128, (4, 3, 3, 1)), Frame(4, 8, 4)
    layers = (
        Conv("conv/1", ("x",), "a", w, INT8, UINT4, q(4), (2, 1), (1, 2), (1, 2, 1, 2), 2),
        Lookup("relu", ("a",), "b", INT8, rng.integers(-128, 128, 256)),
        MaxPool("max", ("b",), "c", INT8, (2, 2), (1, 1), (1, 1), (0, 0, 1, 1)),
        AveragePool("mean", ("c",), "d", INT8, q(4), (4, 8), row_classes=(0,), column_classes=(0,)),
        Concat("cat", ("c", "c"), "e"),
        Add("add", ("c", "d"), "f", (-(2**18 - 1), 3 << 20), 17, 2, -100, 127),
        Multiply("gate", ("f", "d"), "g", 2**17 + 1, 30, -4, -128, 9),
        Dense("fc", ("d",), "y", rng.integers(-8, 8, (3, 4)), IntFormat(4, True), INT8, q(3)),
        Rearrange("move", ("g",), "h", INT8, *picked(frame, [0, 3, -1], range(8), [2, 2]), -7),
        Embedding("rows", ("x",), "r", UINT4, rng.integers(-128, 128, (16, 3))),
        random_segments(rng, "curve", "g", "u", INT8, INT8),
        TopK("best", ("g",), "k", INT8, 2, largest=False, last_index=True),
        RunningSum("sums", ("g",), "s", INT8, exclusive=True),
        MatMul("scores", ("g", "h"), "m", 2, 16, 4, 6, False, "hkn", Frame(2, 16, 6), q(1)),
        replace(random_layer(rng, cell="lstm", hidden=1, y=INT8, sums=INT8), inputs=("d",), output="l"),
        Trees("trees", ("d",), "t", INT8, *(np.array(values) for values in (
            [3, 1], [-4, 7], [0, 1], [[1, -1], [-3, -2]], [0], rng.integers(-9, 9, (3, 2)))), "max"),
        WriteRow("write", ("f", "d", "v"), "w", 4, 32),
        Interpolate("resize", ("g",), "i", INT8, q(4), np.array([0, 2, 1]), np.array([0, 3, 4]), 4, np.array([5]),
                    np.array([0]), 1),
    )
    scores, row = Tensor("c", frame, INT8, 1 / 3, 7), rng.normal(size=(1, 4))
    layers += (
        Softmax.of("softmax", scores, Tensor("p", frame, INT8, 1 / 3, 7)),
        Normalize.of("norm", scores, Tensor("n", frame, INT8, 1 / 3, 7), centred=True, mean=True, epsilon=1e-5,
                     gamma=row, beta=row),
    )
    frames = dict.fromkeys("abcfgnpu", frame)
    frames |= {"h": Frame(3, 8, 2), "x": Frame(8, 8, 2), "d": Frame(1, 1, 4), "e": Frame(4, 8, 8), "y": Frame(1, 1, 3)}
    frames |= {"k": Frame(4, 8, 2), "r": Frame(8, 8, 6), "m": Frame(2, 16, 6), "l": Frame(1, 1, 1),
               "t": Frame(1, 1, 2), "v": Frame(1, 1, 1), "w": frame, "i": Frame(3, 1, 4)}
    tensors = {n: Tensor(n, f, UINT4 if n in "xv" else INT8, 1 / 3, 7) for n, f in frames.items()}
    tensors["s"] = Tensor("s", frame, RunningSum.sums_of(tensors["g"]), 1 / 3, 0)
    graph = LayerGraph("every kind", tensors, layers, ("x", "v"), tuple("yehkrmpnltswiu"))
    graph.check()
    return graph


def test_every_kind_survives(tmp_path: Path) -> None:
    graph = every_kind()
    assert {type(layer) for layer in graph.layers} == set(KINDS)
    save_graph(graph, tmp_path)
    assert load_graph(tmp_path) == graph


def test_the_same_graph_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        save_graph(every_kind(), tmp_path / name)
    for file in ("graph.yaml", "arrays.npz"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def pipe(file: Path) -> None:
    """One that would wait for ever."""
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("graph.yaml", Path.unlink),
        ("graph.yaml", truncate),
        ("graph.yaml", lambda f: f.write_text("just a text")),
        ("graph.yaml", lambda f: f.write_text(f.read_text().replace("kind: dense", "kind: thick"))),
        ("graph.yaml", lambda f: f.write_text(f.read_text().replace("groups: 2", "groups: 3"))),
        ("graph.yaml", lambda f: f.write_text(f.read_text().replace("shift: 17", "shift: 17.5"))),
        ("graph.yaml", lambda f: f.write_text(f.read_text().replace("shift: 17", f"shift: {10**40}"))),
        ("graph.yaml", lambda f: f.write_text(f.read_text().replace("zero_point: 2", "zero_point: .inf"))),
        ("graph.yaml", lambda f: f.write_text(f.read_text().replace("pads: [0, 0, 1, 1]", "pads: [0, 0]"))),
        ("graph.yaml", lambda f: f.write_text(f.read_text().replace("strides: [1, 1]", "strides: [0, 1]"))),
        ("arrays.npz", Path.unlink),
        ("arrays.npz", truncate),
        ("arrays.npz", pipe),
        ("graph.yaml", pipe),
    ],
)
def test_damage_is_refused(tmp_path: Path, file: str, damage) -> None:
    save_graph(every_kind(), tmp_path)
    whole = (tmp_path / file).read_bytes()
    damage(tmp_path / file)
    assert not (tmp_path / file).is_file() or (tmp_path / file).read_bytes() != whole
    with pytest.raises(HwflowError, match=r"must hold a layer graph .* delete the folder and quantize again"):
        load_graph(tmp_path)
