"""Classifiers of scikit-learn with default options, exported by skl2onnx with default options.

The Python that exports has both packages; HWFLOW_EXPORTERS names it.  Calibration has the rows of all classes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import hwflow
from tests.e2e.command import Cli
from tests.project.test_export_guide import NEEDS, python_with

#: What makes each, and the packages' parts it comes from.
CLASSIFIERS: Mapping[str, str] = {
    "LogisticRegression": "sklearn.linear_model", "DecisionTreeClassifier": "sklearn.tree",
    "RandomForestClassifier": "sklearn.ensemble", "ExtraTreesClassifier": "sklearn.ensemble",
    "GradientBoostingClassifier": "sklearn.ensemble", "AdaBoostClassifier": "sklearn.ensemble",
    "BaggingClassifier": "sklearn.ensemble", "GaussianNB": "sklearn.naive_bayes",
    "MLPClassifier": "sklearn.neural_network", "LinearSVC": "sklearn.svm", "SGDClassifier": "sklearn.linear_model",
    "RidgeClassifier": "sklearn.linear_model", "LinearDiscriminantAnalysis": "sklearn.discriminant_analysis",
    "QuadraticDiscriminantAnalysis": "sklearn.discriminant_analysis", "KNeighborsClassifier": "sklearn.neighbors",
    "SVC": "sklearn.svm", "SVC linear": "sklearn.svm"}
#: Distances of features of unlike scale are those of the largest: wine goes through a StandardScaler.
SCALED = ("KNeighborsClassifier",)
EXPORT = """
import importlib, sys, warnings
import numpy as np
from sklearn import datasets
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skl2onnx import to_onnx
warnings.simplefilter("ignore")
name, module, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
for data in ("iris", "wine"):
    x, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    x, y = x.astype(np.float32), np.array(["first", "second", "third"])[y] if data == "iris" else y
    made = getattr(importlib.import_module(module), name)(**options)
    made = (make_pipeline(StandardScaler(), made) if sys.argv[4] and data == "wine" else made).fit(x, y)
    open(f"{data}.onnx", "wb").write(to_onnx(made, x[:1]).SerializeToString())
    np.savez(f"{data}.npz", in_X=x, calib_X=x, labels=made.predict(x))
"""


def exported(name: str, folder: Path) -> None:
    python = python_with(NEEDS["scikit-learn"])
    if python is None:
        pytest.skip("needs scikit-learn and skl2onnx, here or in a Python that HWFLOW_EXPORTERS names")
    options = "{'kernel': 'linear'}" if name == "SVC linear" else "{}"
    run(python, EXPORT, [name.split()[0], CLASSIFIERS[name], options, "scaled" * (name in SCALED)], folder)


def run(python: str, program: str, arguments: list[str], folder: Path) -> None:
    done = subprocess.run([python, "-c", program, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def check_rows(folder: Path, data: str) -> None:
    """The golden model's class is the library's in every row of a data file."""
    model = hwflow.load(folder / f"{data}.onnx")
    rows = hwflow.read_data(folder / f"{data}.npz", model)
    label = next(iter(hwflow.run_golden(hwflow.quantize_model(model, rows), rows).values()))
    assert rows.labels is not None
    assert np.array_equal(label.ravel(), rows.labels), data


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_class_is_the_library_s_in_every_row(name: str, tmp_path: Path) -> None:
    exported(name, tmp_path)
    for data in ("iris", "wine"):
        check_rows(tmp_path, data)


#: Half of the rows are the training, one of ten numbers is missing; each library by its own exporter.
BOOSTERS: Mapping[str, tuple[str, str]] = {
    "xgboost": ("xgboost, onnxmltools", """
from xgboost import XGBClassifier
made = XGBClassifier(n_estimators=20).fit(x[::2], y[::2])
file = onnxmltools.convert_xgboost(made, initial_types=types).SerializeToString()"""),
    "lightgbm": ("lightgbm, onnxmltools", """
from lightgbm import LGBMClassifier
made = LGBMClassifier(n_estimators=20, verbose=-1).fit(x[::2], y[::2])
file = onnxmltools.convert_lightgbm(made, initial_types=types).SerializeToString()"""),
    "catboost": ("catboost, onnxmltools", """
from catboost import CatBoostClassifier
made = CatBoostClassifier(iterations=20, verbose=0).fit(x[::2], y[::2])
made.save_model("made.onnx", format="onnx")
file = open("made.onnx", "rb").read()"""),
}
BOOSTED = """
import numpy as np, onnxmltools
from onnxmltools.convert.common.data_types import FloatTensorType
from sklearn import datasets
for data in ("iris", "breast_cancer"):
    x, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    x = np.where(np.random.default_rng(1).random(x.shape) < 0.1, np.nan, x).astype(np.float32)
    types = [("X", FloatTensorType([None, x.shape[1]]))]
    exec(PART)
    open(f"{data}.onnx", "wb").write(file)
    np.savez(f"{data}.npz", **{NAME: x[1::2]}, labels=np.asarray(made.predict(x[1::2])).ravel())
"""


@pytest.mark.slow
@pytest.mark.parametrize("library", BOOSTERS)
def test_boosted_trees_with_missing_values(library: str, tmp_path: Path) -> None:
    needs, part = BOOSTERS[library]
    python = python_with(tuple(needs.split(", ")))
    if python is None:
        pytest.skip(f"needs {needs}, here or in a Python that HWFLOW_EXPORTERS names")
    feature = "features" if library == "catboost" else "X"
    run(python, f"PART, NAME = {part!r}, 'in_{feature}'\n{BOOSTED}", [], tmp_path)
    for data in ("iris", "breast_cancer"):
        check_rows(tmp_path, data)


#: Regressors, and how far a result may be from the library's, of the largest.
REGRESSORS: Mapping[str, tuple[str, float]] = {
    "LinearRegression": ("sklearn.linear_model", 1e-4), "Ridge": ("sklearn.linear_model", 1e-4),
    "Lasso": ("sklearn.linear_model", 1e-4), "HuberRegressor": ("sklearn.linear_model", 1e-4),
    "PoissonRegressor": ("sklearn.linear_model", 1e-4), "LinearSVR": ("sklearn.svm", 1e-4),
    "MLPRegressor": ("sklearn.neural_network", 1e-4), "SVR": ("sklearn.svm", 1e-3), "NuSVR": ("sklearn.svm", 1e-3),
    "KNeighborsRegressor": ("sklearn.neighbors", 1e-6), "RandomForestRegressor": ("sklearn.ensemble", 1e-5),
    "GradientBoostingRegressor": ("sklearn.ensemble", 1e-5)}
REGRESSED = """
import importlib, sys, warnings
import numpy as np
from sklearn import datasets
from sklearn.model_selection import train_test_split
from skl2onnx import to_onnx
warnings.simplefilter("ignore")
x, y = datasets.load_diabetes(return_X_y=True)
a, b, of_a, _ = train_test_split(x.astype(np.float32), y, test_size=0.5, random_state=0)
made = getattr(importlib.import_module(sys.argv[2]), sys.argv[1])().fit(a, of_a)
open("made.onnx", "wb").write(to_onnx(made, a[:1]).SerializeToString())
np.savez("made.npz", in_X=b)
np.save("wanted.npy", np.asarray(made.predict(b), np.float64).ravel())
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_is_near_the_library_also_beyond_the_calibration(name: str, tmp_path: Path) -> None:
    """Half of the rows are the training; of the other half the first 100 are the calibration."""
    python = python_with(NEEDS["scikit-learn"])
    if python is None:
        pytest.skip("needs scikit-learn and skl2onnx, here or in a Python that HWFLOW_EXPORTERS names")
    module, limit = REGRESSORS[name]
    run(python, REGRESSED, [name, module], tmp_path)
    model = hwflow.load(tmp_path / "made.onnx")
    rows, wanted = hwflow.read_data(tmp_path / "made.npz", model), np.load(tmp_path / "wanted.npy")
    (found,) = hwflow.run_golden(hwflow.quantize_model(model, rows), rows).values()
    assert np.abs(found.ravel() - wanted).max() < limit * np.abs(wanted).max()


ISOLATED = """
import numpy as np
from sklearn import datasets
from sklearn.ensemble import IsolationForest
from skl2onnx import to_onnx
x = datasets.load_iris().data.astype(np.float32)
made = IsolationForest(n_estimators=30, random_state=0).fit(x[::2])
opset = {"": 18, "ai.onnx.ml": 3}
open("iris.onnx", "wb").write(to_onnx(made, x[:1], target_opset=opset).SerializeToString())
np.savez("iris.npz", in_X=x, labels=made.predict(x))
"""


@pytest.mark.slow
def test_an_isolation_forest_is_one_layer(tmp_path: Path) -> None:
    python = python_with(NEEDS["scikit-learn"])
    if python is None:
        pytest.skip("needs scikit-learn and skl2onnx, here or in a Python that HWFLOW_EXPORTERS names")
    run(python, ISOLATED, [], tmp_path)
    check_rows(tmp_path, "iris")
    assert len(hwflow.quantize_model(hwflow.load(tmp_path / "iris.onnx")).graph.layers) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_simulation_is_equal(name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    done = cli("sim", "iris.onnx", "--data", "iris.npz")
    assert done.code == 0, done.err
    assert "bit for bit" in done.out
