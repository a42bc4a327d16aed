"""Options of the tests of the RTL units."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    # A test that asks a unit for its cost or its model, or wants it refused, never elaborates it.
    config.addinivalue_line("filterwarnings", "ignore::amaranth.hdl.UnusedElaboratable")
