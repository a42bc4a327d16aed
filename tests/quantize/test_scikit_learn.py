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
    "SVC": "sklearn.svm"}
EXPORT = """
import importlib, sys, warnings
import numpy as np
from sklearn import datasets
from skl2onnx import to_onnx
warnings.simplefilter("ignore")
name, module, options = sys.argv[1], sys.argv[2], eval(sys.argv[3])
for data in ("iris", "wine"):
    x, y = getattr(datasets, f"load_{data}")(return_X_y=True)
    x, y = x.astype(np.float32), np.array(["first", "second", "third"])[y] if data == "iris" else y
    made = getattr(importlib.import_module(module), name)(**options).fit(x, y)
    open(f"{data}.onnx", "wb").write(to_onnx(made, x[:1]).SerializeToString())
    np.savez(f"{data}.npz", in_X=x, calib_X=x, labels=made.predict(x))
"""


def exported(name: str, folder: Path) -> None:
    python = python_with(NEEDS["scikit-learn"])
    if python is None:
        pytest.skip("needs scikit-learn and skl2onnx, here or in a Python that HWFLOW_EXPORTERS names")
    options = "{'kernel': 'linear'}" if name == "SVC" else "{}"
    done = subprocess.run([python, "-c", EXPORT, name, CLASSIFIERS[name], options], cwd=folder, capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_class_is_the_library_s_in_every_row(name: str, tmp_path: Path) -> None:
    exported(name, tmp_path)
    for data in ("iris", "wine"):
        model = hwflow.load(tmp_path / f"{data}.onnx")
        rows = hwflow.read_data(tmp_path / f"{data}.npz", model)
        label = next(iter(hwflow.run_golden(hwflow.quantize_model(model, rows), rows).values()))
        assert rows.labels is not None
        assert np.array_equal(label.ravel(), rows.labels), data


@pytest.mark.slow
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_the_simulation_is_equal(name: str, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    done = cli("sim", "iris.onnx", "--data", "iris.npz")
    assert done.code == 0, done.err
    assert "bit for bit" in done.out
