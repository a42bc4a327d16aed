"""Make the virtual environment and install hwflow into it, once; `make` calls this before every target.

    python3 tools/bootstrap.py [--venv DIR] [--extras synth,dev] [--compiler] [--constraints FILE | --upgrade]

The versions are those of constraints.txt, with which the tests passed; --upgrade takes the newest ones that
pyproject.toml allows and writes that file anew.

Says at once what is missing on the machine.  What was installed is noted in the environment last of all, so that an
interrupted installation is done again by the next call (from pip's cache), and a finished one costs no time until
pyproject.toml or the constraints change, the checkout moves, or another extra is asked for.

This file runs on whatever `python3` is, so it keeps to the syntax of old ones until it has checked the version.
"""

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

OLDEST = (3, 11)
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROJECT = os.path.join(ROOT, "pyproject.toml")
CONSTRAINTS = os.path.join(ROOT, "constraints.txt")
NOTE = "hwflow-installed.json"
#: Is there while an installation runs; found later, it tells of one that was killed and may have left half a package.
MARK = "hwflow-installing"
#: What each program is for, and the Debian package that brings it.
COMPILER = {"g++": "compiles the simulation", "make": "compiles the simulation", "perl": "starts Verilator"}


def fail(message):
    print("error: " + message, file=sys.stderr)
    sys.exit(2)


def check_machine(compiler):
    """Refuse an old Python, a Python without venv, and with `compiler` a machine that cannot compile a simulation."""
    if sys.version_info[:2] < OLDEST:
        found = "{}.{}".format(*sys.version_info[:2])
        fail(
            f"python3 must be 3.11 or newer, not {found} ({sys.executable}); "
            "name a newer one: make PYTHON=/path/to/python3.12 ..."
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        fail(
            f"the Python modules venv and ensurepip must be there, and {sys.executable} lacks them; "
            "on Debian and Ubuntu: apt-get install python3-venv"
        )
    missing = [name for name in COMPILER if compiler and not shutil.which(name)]
    if missing:
        reasons = ", ".join(f"{name} ({COMPILER[name]})" for name in missing)
        packages = " ".join(missing)
        fail(f"programs must be on PATH and are not: {reasons}; on Debian and Ubuntu: apt-get install {packages}")


def python_of(venv):
    return os.path.join(venv, "bin", "python")


def works(venv):
    """True where the environment was made at this very place, its Python and pip start, and no installation died."""
    if os.path.exists(os.path.join(venv, MARK)):
        return False
    activate = os.path.join(venv, "bin", "activate")
    try:
        with open(activate) as file:
            here = venv in file.read()
        return here and subprocess.call([python_of(venv), "-m", "pip", "--version"], stdout=subprocess.DEVNULL) == 0
    except OSError:
        return False


def fingerprint(venv, constraints):
    """Changes with the dependencies, their versions, the place of the checkout and the place of the environment."""
    with open(PROJECT, "rb") as project, open(constraints, "rb") as versions:
        parts = [project.read(), versions.read(), ROOT.encode(), venv.encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def installed(venv, constraints):
    """The extras that are installed, or None where nothing is, or something older or half."""
    try:
        with open(os.path.join(venv, NOTE)) as file:
            note = json.load(file)
        if note["fingerprint"] == fingerprint(venv, constraints) and os.access(python_of(venv), os.X_OK):
            return set(note["extras"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def make_environment(venv):
    if os.path.isdir(venv) and os.listdir(venv) and not os.path.exists(os.path.join(venv, "pyvenv.cfg")):
        fail(f"the folder {venv} must be a virtual environment or empty, for it would be emptied; name another one")
    print(f"making the virtual environment {venv}", file=sys.stderr)
    if subprocess.call([sys.executable, "-m", "venv", "--clear", venv]) != 0:
        fail(f"the virtual environment {venv} could not be made; see above")


def write_constraints(venv, path):
    """Note the versions of everything that is installed, but for hwflow itself."""
    frozen = subprocess.check_output([python_of(venv), "-m", "pip", "freeze", "--exclude-editable"], text=True)
    lines = sorted((line for line in frozen.splitlines() if re.fullmatch(r"[\w.-]+==[\w.+!]+", line)), key=str.lower)
    with open(path + ".new", "w") as file:
        file.write("# The versions with which the tests passed.  `make upgrade` writes this file anew.\n")
        file.writelines(line + "\n" for line in lines)
    os.replace(path + ".new", path)


def install(venv, extras, lock, constraints, upgrade=False):
    """Make the environment where there is none that works, install, and note it.

    With `upgrade` the newest versions are installed and written to `constraints`, otherwise those that it names.

    pip inherits the open file `lock`: where this process is killed and pip lives on, the next call waits for it.
    """
    if not works(venv):
        make_environment(venv)
    mark, note = os.path.join(venv, MARK), os.path.join(venv, NOTE)
    open(mark, "w").close()
    names = ",".join(sorted(extras))
    print(f"installing hwflow{names and ' with ' + names}: once, a few minutes", file=sys.stderr)
    pip = [python_of(venv), "-m", "pip", "install", "--disable-pip-version-check", "--no-input"]
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    versions = ["--upgrade", "--upgrade-strategy", "eager"] if upgrade else ["--constraint", constraints]
    project = f"{ROOT}[{names}]" if extras else ROOT
    if subprocess.call([*pip, *quiet, *versions, "--editable", project], stdout=2, pass_fds=[lock]) != 0:
        fail("pip could not install hwflow; see above. When the cause (network? disk?) is mended, call again")
    if upgrade:
        write_constraints(venv, constraints)
    with open(note + ".new", "w") as file:
        json.dump({"fingerprint": fingerprint(venv, constraints), "extras": sorted(extras)}, file)
    os.replace(note + ".new", note)
    os.remove(mark)


def wait_for(lock):
    """Take `lock`; two calls at once take turns."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print("waiting for another installation to end", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)


def main():
    parser = argparse.ArgumentParser(description="Make the virtual environment and install hwflow into it, once.")
    parser.add_argument("--venv", default=os.path.join(ROOT, ".venv"), help="where the environment is (.venv)")
    parser.add_argument("--extras", default="", help="extras of pyproject.toml, separated by commas")
    parser.add_argument("--constraints", default=CONSTRAINTS, help="the versions to install (constraints.txt)")
    parser.add_argument("--upgrade", action="store_true", help="install the newest versions, and write the constraints")
    parser.add_argument("--compiler", action="store_true", help="check for g++, make and perl as well")
    arguments = parser.parse_args()
    check_machine(arguments.compiler)
    venv = os.path.abspath(arguments.venv)
    constraints = os.path.abspath(arguments.constraints)
    wanted = {extra for extra in arguments.extras.split(",") if extra}
    with open(PROJECT) as lock:
        wait_for(lock)
        have = installed(venv, constraints)
        if arguments.upgrade or have is None or not wanted <= have:
            install(venv, wanted | (have or set()), lock.fileno(), constraints, arguments.upgrade)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        print("interrupted; the next call continues", file=sys.stderr)
        sys.exit(130)
