"""The packages of the wheel: every folder with an `__init__.py`, under four roots; the rest is in pyproject.toml."""

from setuptools import find_packages, setup

FOLDERS = {
    "hwflow": "hwflow",
    "hwflow_base": "base/hwflow_base",
    "hwflow_rtl": "rtl/hwflow_rtl",
    "hwflow_sim": "sim/hwflow_sim",
    "hwflow_boards": "boards",
    "hwflow_models": "models",
}

setup(
    package_dir=FOLDERS,
    packages=[name for package, folder in FOLDERS.items()
              for name in (package, *(f"{package}.{inner}" for inner in find_packages(folder)))],
)
