"""A simulated board of any design: driver, transport and RTL together give what the golden model gives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden, hls, onnx
from hwflow.pipeline.simulated_board import SimulatedDesign, compile_design
from hwflow.quantize import Quantized, quantize, save_quantized
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from hwflow.synth.design import Design
from tests.e2e.networks import Chain, rows_for, small_network
from tests.e2e.test_weights_outside import design_of
from tests.host.models import require_golden

pytestmark = pytest.mark.slow  # Verilator and a compiler


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    model = small_network()
    return quantize(onnx.simplify(model), rows_for(model, 20))


def compiled(design: Design, quantized: Quantized, folder: Path) -> SimulatedDesign:
    def keep() -> None:
        (folder / "quantized").mkdir()
        save_quantized(quantized, folder / "quantized")

    return compile_design(design, folder, folder / "cache", quantized="quantized", keep=keep)


def inside(quantized: Quantized, board: str = "ulx3s_85f") -> Design:
    """A design with all weights in the FPGA."""
    graph, place = quantized.graph, load_board(board)
    foldings = [next(iter(stage_of(graph, layer).foldings())) for layer in graph.layers]
    return Design(graph, hls.make_plan(graph, foldings, place.technology()), place)


@pytest.mark.parametrize("board", ["ulx3s_12f", "icebreaker", "tangnano9k"])
def test_weights_in_an_sdram_a_flash_and_a_user_flash(quantized: Quantized, tmp_path: Path, board: str) -> None:
    made = compiled(design_of(quantized.graph, board), quantized, tmp_path)
    with made.open() as driver:
        assert driver.filled == (board == "ulx3s_12f")
        require_golden(quantized, driver, rows_for(small_network(), 40))
        assert driver.statistics.losses == driver.statistics.polls == 0


def test_roms_of_one_word(tmp_path: Path) -> None:
    """Weights that stand beside their multipliers take no address; what is undefined is of several seeds."""
    model = Chain((4,), 0, name="tiny").dense(3, name="first").node("Relu", name="relu").dense(2, name="second").model()
    quantized = quantize(onnx.simplify(model), rows_for(model, 60))
    graph, place = quantized.graph, load_board("ulx3s_85f")
    foldings = [min(stage.foldings(), key=lambda each, stage=stage: stage.schedule(each, place.technology()).interval)
                for stage in (stage_of(graph, layer) for layer in graph.layers)]
    made = compiled(Design(graph, hls.make_plan(graph, foldings, place.technology()), place), quantized, tmp_path)
    assert min(len(path.read_text().splitlines()) for path in made.compiled.folder.glob("*weights*.hex")) == 1
    x = rows_for(model, 60)
    for seed in (1, 2, 3):
        with made.open(seed=seed) as driver:
            for name, values in driver.run(x).items():
                np.testing.assert_array_equal(values, golden.predict(quantized, x)[name])


@pytest.mark.parametrize("board, transport", [("ulx3s_85f", "spi"), ("colorlight_i5", "udp")])
def test_other_ways_to_the_board(quantized: Quantized, tmp_path: Path, board: str, transport: str) -> None:
    design = inside(quantized, board)
    design = replace(design, board=design.board.with_transport(transport))
    with compiled(design, quantized, tmp_path).open() as driver:
        assert driver.transport.kind == transport
        require_golden(quantized, driver, rows_for(small_network(), 200))
        assert driver.statistics.resent == driver.statistics.gaps == driver.statistics.polls == 0


def test_the_line_is_kept_full(tmp_path: Path) -> None:
    """512 bytes in and 3 out at 3 Mbaud: the line carries bytes in 95 % of the time, and nothing is asked for twice."""
    chain = Chain((2, 16, 16), 0, name="wide")
    chain.conv(channels=2, kernel=(3, 3), strides=(4, 4), pads=(1, 1, 1, 1), name="conv").dense(3, name="fc")
    model = chain.model()
    quantized = quantize(onnx.simplify(model), rows_for(model, 20))
    made = compiled(inside(quantized), quantized, tmp_path)
    x = rows_for(model, 60)["x"]
    with made.open() as driver:
        with driver.stream(x[k:k + 5] for k in range(0, 60, 5)) as stream:
            results = list(stream)
        (name,) = results[0]
        np.testing.assert_array_equal(np.concatenate([each[name] for each in results]),
                                      golden.as_batch(golden.predict(quantized, {"x": x}))[name])
        found, facts = stream.throughput, driver.design.facts
        assert driver.transport.bytes_per_second == 300_000
        assert found.frames == 60
        assert 0.95 < found.line <= 1
        assert found.rate > 0.95 * 300_000 / 512
        assert found.core == pytest.approx(60 * facts.interval / 25e6 / found.seconds)
        assert found.host == pytest.approx(0, abs=1e-9)
        assert driver.statistics.losses == driver.statistics.polls == 0


def test_a_simulation_that_ends_is_an_unplugged_board(quantized: Quantized, tmp_path: Path) -> None:
    made = compiled(inside(quantized), quantized, tmp_path)
    with made.open(name="board 7") as driver:
        require_golden(quantized, driver, rows_for(small_network(), 3))
        process = driver.link.port.board._child._process
        process.kill()
        process.wait()
        with pytest.raises(HwflowError, match="the simulated board ended"):
            require_golden(quantized, driver, rows_for(small_network(), 3))
    with made.open(seed=5) as driver:
        require_golden(quantized, driver, rows_for(small_network(), 3))
