"""What a script may give: rows in every form that is natural, and one message for whatever else it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwflow_sim import StallPattern

import hwflow
import hwflow.api
from hwflow import onnx
from hwflow.data.dataset import Dataset
from hwflow.hls import Plan
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized
from hwflow.synth import load_board
from tests.e2e.networks import small_network, write_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("arguments")
    onnx.save(small_network(), folder / "small.onnx")
    write_data(folder / "small.npz", small_network(), rows=6, labels=np.arange(6) % 3)
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return hwflow.load(folder / "small.onnx")


@pytest.fixture(scope="module")
def data(folder: Path, model: Model) -> Dataset:
    return hwflow.read_data(folder / "small.npz", model)


@pytest.fixture(scope="module")
def quantized(model: Model, data: Dataset) -> Quantized:
    return hwflow.quantize_model(model, data)


@pytest.fixture(scope="module")
def plan(quantized: Quantized) -> Plan:
    return hwflow.make_plan(quantized)


FORMS: dict[str, Callable[[Any], object]] = {
    "a dictionary": lambda x: {"x": x},
    "a dictionary of lists": lambda x: {"x": x.tolist()},
    "the names of a file": lambda x: {"in_x": x},
    "an array": lambda x: x,
    "wider numbers": lambda x: x.astype(np.float64),
    "no batch": lambda x: x[:, 0],
    "a list of arrays": list,
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_rows_in_every_form(form: Callable[[Any], object], model: Model, data: Dataset, quantized: Quantized) -> None:
    rows: Any = form(data.inputs["x"])
    assert np.array_equal(hwflow.run_golden(quantized, rows)["fc_out"], hwflow.run_golden(quantized, data)["fc_out"])
    assert hwflow.quantize_model(model, rows).graph == quantized.graph
    assert hwflow.measure_layers(quantized, rows) == hwflow.measure_layers(quantized, data)
    plain = hwflow.measure_accuracy(model, quantized, rows)
    assert (plain.metrics, plain.snr_db) == ((), hwflow.measure_accuracy(model, quantized, data).snr_db)


class Loader:
    """What torch.utils.data.DataLoader is to hwflow: it can be iterated again and again, and gives batches."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return (tuple(array[k:k + 4] for array in self.arrays) for k in range(0, len(self.arrays[0]), 4))


def test_batches(model: Model, data: Dataset) -> None:
    x, labels = data.inputs["x"], data.labels
    assert labels is not None
    read = hwflow.read_data(Loader(x[:, 0], labels), model)
    assert np.array_equal(read.inputs["x"], x)
    assert np.array_equal(read.labels, labels)
    assert read.calibration_is_input
    whole = hwflow.quantize_model(model, x)
    loaded = list(Loader(x, labels))
    assert [len(part) for part, _ in loaded] == [4, 2]
    for rows in (Loader(x, labels), Loader(x), iter([x]), ({"x": row[None]} for row in x), ([row[None]] for row in x),
                 loaded, tuple(loaded), list(Loader(x)), [{"x": part, "labels": y} for part, y in loaded],
                 [list(batch) for batch in loaded], [part for part, _ in loaded], [part[:, 0] for part, _ in loaded],
                 [part for (part,) in Loader(x[:, 0])], list(x[:, 0]), list(x), [row.tolist() for row in x]):
        assert hwflow.quantize_model(model, rows).graph == whole.graph


@pytest.mark.parametrize("batches, message", [
    ([], "there must be at least one batch, not none$"),
    ([(1, 2, 3)], "a batch must be a tuple of x and, if there are any, the labels, not 3 arrays$"),
    ([np.zeros((2, 3)), np.zeros((2, 4))], r"'x' of batch 1 must be an array of rows like the first one's, "
                                           r"float64\[2, 3\], not float64\[2, 4\]$"),
    ([{"x": np.zeros(2)}, {"y": np.zeros(2)}], "batch 1 must have x like the first one, not y$"),
    ([np.zeros((9, 3, 3))], r"array 'x' must have the shape \[rows, 1, 2, 4, 4\] for the model's input 'x', not "),
])
def test_wrong_batches(batches: list[Any], message: str, model: Model) -> None:
    with pytest.raises(hwflow.HwflowError, match=f"^the given arrays: {message}"):
        hwflow.read_data(iter(batches), model)


def test_wrong_batches_of_a_list(model: Model) -> None:
    with pytest.raises(hwflow.HwflowError, match=r"^the given arrays: batch 1 must have x, labels like the first one, "
                                                 r"not x$"):
        hwflow.read_data([(X, np.zeros(2, int)), (X,)], model)


def test_all_rows_of_an_array_calibrate(model: Model) -> None:
    """A file's first 100 stand in for others; what is given as an array is meant whole."""
    x = np.random.default_rng(0).standard_normal((120, 1, 2, 4, 4)).astype(np.float32)
    x[110:] *= 20
    whole, some = hwflow.quantize_model(model, x), hwflow.quantize_model(model, x[:100])
    name = whole.graph.inputs[0]
    assert whole.graph.tensors[name].scale > 2 * some.graph.tensors[name].scale
    both = hwflow.quantize_model(model, {"x": x[:3], "calib_x": x})
    assert both.graph == whole.graph


def test_calibration_stays_whole(model: Model, data: Dataset, quantized: Quantized) -> None:
    assert hwflow.quantize_model(model, data.first(1)).graph == quantized.graph
    assert hwflow.quantize_model(model, data.inputs["x"][:1]).graph != quantized.graph


def test_labels_may_stand_beside_the_rows(model: Model, data: Dataset, quantized: Quantized) -> None:
    given = {"x": data.inputs["x"], "labels": data.labels}
    assert hwflow.measure_accuracy(model, quantized, given) == hwflow.measure_accuracy(model, quantized, data)


X = np.zeros((2, 1, 2, 4, 4), np.float32)
GIVEN = r"^the given arrays: "


@pytest.mark.parametrize("rows, message", [
    ("small.npz", r"^rows must be a Dataset of hwflow\.read_data, an array, or a dictionary of arrays by name \('x'\), "
                  r"not a str 'small\.npz'$"),
    (None, r"^rows must be a Dataset .* not None$"),
    ({}, GIVEN + r"there must be an array 'in_x' or 'x' for the model's input 'x'; it has nothing$"),
    ({"y": X}, GIVEN + r"array 'y' must be named like an input of the model: 'x'"),
    ({"x": X, "label": [1, 2]}, GIVEN + r"array 'label' must be named .*; did you mean 'labels'\?$"),
    ({"x": X[:, :, :1]}, GIVEN + r"array 'x' must have the shape \[rows, 1, 2, 4, 4\] for the model's input 'x', not "
                         r"\[2, 1, 1, 4, 4\]$"),
    ({"x": X[:0]}, GIVEN + r"array 'x' must have at least one row, not none$"),
    ({"x": X > 0, "labels": [1]}, GIVEN + r"labels must be one integer or text per input row, int64\[2\], "),
    ({"x": X * np.nan}, GIVEN + r"array 'x' must hold finite numbers, not nan at \[0, 0, 0, 0, 0\] \(64 such "),
    ({"x": X.astype(str)}, GIVEN + r"array 'x' must hold float32, not <U"),
    ([[1, 2], [3]], GIVEN + r"'x' must be an array, which it does not become \("),
], ids=lambda value: "" if isinstance(value, str) else None)
def test_wrong_rows_are_one_message(rows: Any, message: str, model: Model, quantized: Quantized, plan: Plan,
                                    tmp_path: Path) -> None:
    uses: tuple[Callable[[], object], ...] = (
        lambda: hwflow.run_golden(quantized, rows), lambda: hwflow.measure_layers(quantized, rows),
        lambda: hwflow.measure_accuracy(model, quantized, rows),
        lambda: hwflow.simulate(quantized, plan, rows, folder=tmp_path),
        lambda: hwflow.quantize_model(model, rows))
    for use in uses[: -1 if rows is None else None]:
        with pytest.raises(hwflow.HwflowError, match=message):
            use()


def test_several_inputs_go_by_name() -> None:
    b = Builder("two")
    names, weights = ("left", "right"), b.constant("w", np.ones((2, 2, 1, 1), np.float32))
    b.output(b.node("Add", *(b.node("Conv", b.input(name, np.float32, (1, 2, 3, 3)), weights) for name in names)))
    x = np.random.default_rng(0).standard_normal((5, 1, 2, 3, 3)).astype(np.float32)
    quantized = hwflow.quantize_model(onnx.simplify(onnx.infer(b.model())), {"left": x, "right": -x})
    with pytest.raises(hwflow.HwflowError, match=r"^rows of a model with 2 inputs must be a dictionary of arrays by "
                                                 r"name \('left' and 'right'\), not \[array"):
        hwflow.run_golden(quantized, [x, x])
    with pytest.raises(hwflow.HwflowError, match=r"same number of rows; 'left' has 5, 'right' has 4$"):
        hwflow.run_golden(quantized, {"left": x, "right": x[:4]})


#: What nobody should give anywhere.
ODD = (3, -1, 2.5, float("nan"), 10**30, True, "", "\0", b"x", [], {}, set(), object(), X, np.zeros(0), (1,), (0, 0),
       ("a", "b"), {"a": 1}, {"x": (1, "y")}, [X, X], len)


def test_nothing_but_errors_of_hwflow(folder: Path, model: Model, data: Dataset, quantized: Quantized, plan: Plan,
                                      tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every argument of every function, replaced by every odd value and by every object of another kind.

    Compilers and synthesis would begin behind the checks that are meant, and take long.
    """
    for work in ("compile_plan", "write_rtl", "synthesize_design", "compile_design", "evaluate", "write_page"):
        monkeypatch.setattr(hwflow.api, work, begins)
    path = folder / "small.onnx"
    calls: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "load": ((path, None), {"data": None}), "check": ((path,), {}),
        "read_data": ((path.with_suffix(".npz"), model), {}),
        "quantize_model": ((model, data), {"bits": None, "settings": None}),
        "export_model": ((quantized, tmp_path / "out.onnx"), {}), "measure_accuracy": ((model, quantized, data), {}),
        "measure_layers": ((quantized, data), {}), "run_golden": ((quantized, data), {}),
        "make_plan": ((quantized, "icebreaker", 9999), {
            "logic_multipliers": False, "stream_weights": False, "execution": "auto", "frames_per_second": None}),
        "generate": ((quantized, plan, tmp_path), {}),
        "explore": ((model, data), {
            "boards": [load_board("icebreaker")], "bits": [8], "intervals": 1, "frames": 1.0, "execution": "auto",
            "logic_multipliers": False, "stream_weights": False, "objectives": [], "workers": 1, "scheduler": None,
            "folder": tmp_path}),
        "report": ((path, None, "icebreaker"), {"bits": 8, "settings": None, "plan": None, "build": tmp_path,
                                                "output": None}),
        "simulate": ((quantized, plan, data), {"folder": tmp_path, "stalls": None}),
        "simulated_board": ((quantized, plan, "ulx3s_85f", tmp_path), {"transport": None}),
        "synthesize": ((quantized, plan, "ulx3s_85f", tmp_path), {"seed": 1, "seeds": 1, "jobs": 1, "clock": "board"}),
    }
    assert set(calls) == set(hwflow.api.__all__)
    messages: list[str] = []
    for name, (given, named) in calls.items():
        for place in (*range(len(given)), *named):
            for odd in (*ODD, path, model, data, quantized, plan):
                arguments, options = list(given), dict(named)
                if isinstance(place, int):
                    arguments[place] = odd
                else:
                    options[place] = odd
                try:
                    getattr(hwflow, name)(*arguments, **options)
                except hwflow.HwflowError as error:
                    messages.append(str(error))
    assert [message for message in messages if not message or "\n" in message] == []


def begins(*_: object, **__: object) -> None:
    raise hwflow.HwflowError("the arguments are right")


@pytest.mark.parametrize("arguments", [("x", 0, 1), (0, None, 1), (True, 0, 1), (0.99, 0, 1), (0, 0, 1.5)])
def test_stalls_are_probabilities(arguments: tuple[Any, Any, Any]) -> None:
    with pytest.raises(hwflow.HwflowError, match=r" must be (0 to 0\.98|a whole number), not "):
        StallPattern(*arguments)


@pytest.mark.parametrize("count", [0, -3, 1.5, "all", None])
def test_a_number_of_rows(count: Any, data: Dataset) -> None:
    with pytest.raises(hwflow.HwflowError, match="the number of rows must be a whole number above 0, not "):
        data.first(count)
