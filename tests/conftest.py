"""Options and fixtures shared by all tests.

`--models DIR` (or the environment variable HWFLOW_MODELS) names a folder of third-party models with a `manifest.yaml`.
It is no part of the project; tests that need it are skipped, and say so, where it is absent.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.e2e.command import Cli

pytest_plugins = ["tests.resume", "tests.random_cases"]

MANIFEST = "manifest.yaml"

# Tests run side by side: more threads would only wait for each other.  numpy reads these when it is imported.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Hundreds of tests start Python: with compiled modules it starts in half the time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# Messages are as wide as a test says, not as the terminal is that the tests run in.
os.environ.pop("COLUMNS", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--models",
        metavar="DIR",
        default=os.environ.get("HWFLOW_MODELS"),
        help="folder of third-party models with a manifest.yaml (default: $HWFLOW_MODELS)",
    )


def _models(config: pytest.Config) -> tuple[Path | None, str]:
    """The folder, or None; and one sentence that says which."""
    given = config.getoption("--models")
    if not given:
        return None, "no third-party models: pass --models DIR or set HWFLOW_MODELS"
    folder = Path(given).resolve()
    if not (folder / MANIFEST).is_file():
        return None, f"no third-party models: {folder} has no {MANIFEST}"
    return folder, f"third-party models from {folder}"


def pytest_configure(config: pytest.Config) -> None:
    # Behind `&` and nohup a shell starts programs that ignore Ctrl-C, and so would those that the tests interrupt.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)
    folder, sentence = _models(config)
    if config.getoption("--models") and folder is None:
        raise pytest.UsageError(f"--models (or HWFLOW_MODELS) must name a folder of models; {sentence}")


@pytest.hookimpl(tryfirst=True)  # before `-m` looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Quick tests come first: a long run soon shows what `make test` would."""
    mark_all_but_a_few(items)
    items.sort(key=lambda item: item.get_closest_marker("slow") is not None)


def mark_all_but_a_few(items: list[pytest.Item]) -> None:
    """`quick(count)`: of the cases of a test that are not slow so many stay quick, spread over their list."""
    cases = defaultdict(list)
    for item in items:
        mark = item.get_closest_marker("quick")
        if mark is not None and item.get_closest_marker("slow") is None:
            cases[item.nodeid.partition("[")[0], mark.args[0]].append(item)
    for (_, count), group in cases.items():
        few = {number * len(group) // count for number in range(count)}
        for number, item in enumerate(group):
            if number not in few:
                item.add_marker("slow")


def pytest_collection_finish() -> None:
    """What there is now lives as long as the tests: the garbage collector need not look at it again and again.

    Twenty thousand tests are some millions of objects; without this a tenth of the processor's time goes there.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 50)


def pytest_report_header(config: pytest.Config) -> str:
    return _models(config)[1]


@pytest.fixture(scope="session")
def models_dir(request: pytest.FixtureRequest) -> Path:
    """The folder of third-party models; the test is skipped where it is absent."""
    folder, sentence = _models(request.config)
    if folder is None:
        pytest.skip(sentence)
    return folder


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line, called in an empty folder: messages name files as the user did."""
    from tests.e2e.command import Cli  # not before numpy's threads are counted

    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled simulations of this run of the tests, also of its other processes: what they share is compiled once."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "simulations"
    folder.mkdir(exist_ok=True)
    return folder
