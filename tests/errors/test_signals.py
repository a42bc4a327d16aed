"""A signal to end arrives, also where Python drops exceptions, and does not disturb the cleaning up."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.command import environment

START = """
import ctypes, gc, os, signal, time, weakref
from hwflow.cli.interrupts import Interrupted, interruptible
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup starts programs that ignore it, and hwflow leaves that so

def strike(number=signal.SIGINT):
    os.kill(os.getpid(), number)
    time.sleep(0.001)

class Strikes:
    def __del__(self):
        strike()

class Plain:
    pass

def in_del():
    Strikes()

def in_del_again_and_again():
    for _ in range(100):
        Strikes()

def in_the_callback_of_a_weak_reference():
    plain = Plain()
    reference = weakref.ref(plain, lambda _: strike())
    del plain
    return reference

def in_the_callback_of_the_collector():
    gc.callbacks.append(lambda *_: strike())
    gc.collect()
    gc.callbacks.clear()

def in_a_callback_of_c():
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    numbers = (ctypes.c_int * 2)(1, 2)
    ctypes.CDLL(None).qsort(numbers, 2, 4, kind(lambda *_: strike() or 0))

def caught_by_a_library():
    try:
        strike()
    except BaseException:
        pass

def in_plain_code():
    strike()

def run(body):
    try:
        with interruptible():
            body()
            end = time.monotonic() + 10
            while time.monotonic() < end:
                pass
            print("went on")
    except Interrupted as error:
        print(error.signal.name)
"""

BODIES = ("in_plain_code", "in_del", "in_del_again_and_again", "in_the_callback_of_a_weak_reference",
          "in_the_callback_of_the_collector", "in_a_callback_of_c", "caught_by_a_library")


def say(script: str) -> str:
    """What a process with this script prints; it must print no error and end well."""
    done = subprocess.run([sys.executable, "-c", START + script], env=environment(), capture_output=True, text=True,
                          timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("body", BODIES)
def test_it_arrives(body: str) -> None:
    assert say(f"run({body})") == "SIGINT\n"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_the_signal_is_known(name: str) -> None:
    assert say(f"run(lambda: strike(signal.{name}))") == f"{name}\n"


def test_cleaning_up_is_left_alone() -> None:
    """By further signals and by the timer, in a finally, in a context manager and behind an error in there."""
    assert say("""
import contextlib
@contextlib.contextmanager
def cleaned():
    try:
        yield
    finally:
        strike(signal.SIGTERM)
        time.sleep(0.1)
        try:
            open("/nowhere/at/all")
        except OSError:
            time.sleep(0.1)
            print("clean")
def body():
    with cleaned():
        try:
            strike()
        finally:
            time.sleep(0.1)
            print("finally")
run(body)
""") == "finally\nclean\nSIGINT\n"


AT = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)

class At:
    def find_spec(self, name, path=None, target=None):
        if name == {!r}:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, At())
sys.argv = ["hwflow", "info", "nowhere.onnx", *{!r}]
from hwflow.cli import main
main()
"""


@pytest.mark.quick(5)
@pytest.mark.parametrize(("module", "words"), [(module, words) for module in (
    "amaranth.hdl", "click.core", "numpy", "numpy._core.numeric", "numpy.exceptions", "numpy.lib", "ml_dtypes",
    "hwflow.onnx.dtypes", "hwflow.options", "rich.console") for words in ((), ("--json",))[:1 + (module[0] == "a")]])
def test_during_the_imports(module: str, words: tuple[str, ...]) -> None:
    """What was half imported cannot be imported anew in the same process; the message needs nothing of it."""
    done = subprocess.run([sys.executable, "-c", AT.format(module, words)], env=environment(), capture_output=True,
                          text=True, timeout=60)
    message = "interrupted; nothing is half-written, and the next run goes on from what was finished"
    assert (done.returncode, done.stderr) == (130, f"error: {message}\n")
    assert done.stdout == (json.dumps({"error": message, "exit_code": 130}) + "\n" if words else "")


@pytest.mark.parametrize("end", ["raise ValueError", "raise SystemExit(0)", "return"])
def test_no_other_end_hides_it(end: str) -> None:
    assert say(f"""
def body():
    with interruptible():
        try:
            strike()
        except BaseException:
            {end}
try:
    body()
except Interrupted as error:
    print(error.signal.name)
""") == "SIGINT\n"


def test_what_is_ignored_stays_ignored_and_nothing_is_heard_after_the_work() -> None:
    assert say("""
signal.signal(signal.SIGHUP, signal.SIG_IGN)
with interruptible():
    strike(signal.SIGHUP)
for number in signal.SIGHUP, signal.SIGINT, signal.SIGTERM:
    strike(number)
print("done")
""") == "done\n"


def test_other_errors_in_del_are_still_reported() -> None:
    script = START + """
class Wrong:
    def __del__(self):
        raise ValueError("lost")
with interruptible():
    Wrong()
"""
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert "ValueError: lost" in done.stderr
