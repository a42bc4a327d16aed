"""`board.stream`: results in order while more go out, however long; and what is left of a stream that ended early."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.host
from hwflow import golden
from hwflow.host import LinkFailed, OpenBoard
from tests.e2e.networks import rows_for, small_network
from tests.host.board import Line, MemoryPort
from tests.host.models import Terminal, board_with, require_equal, require_golden

#: More than the queue of the reference board (512 bytes) holds of frames of 32 bytes, and what waits in front of it.
MOST_UNDER_WAY = 2 * 512 // 32 + 2

Batches = list[Mapping[str, np.ndarray]]


@pytest.fixture
def port(quantized, design) -> MemoryPort:
    return MemoryPort(board_with(quantized, design))


@pytest.fixture
def board(port, design) -> OpenBoard:
    return hwflow.host.open(port, design=design, clock=port.clock)


def batches(sizes: list[int]) -> Batches:
    rows = rows_for(small_network(), sum(sizes))
    ends = list(itertools.accumulate(sizes))
    return [{name: array[end - size:end] for name, array in rows.items()}
            for size, end in zip(sizes, ends, strict=True)]


@pytest.mark.parametrize("there, back", [(None, None), (Line(1, bits=1e-3), Line(2, bits=1e-3))])
def test_each_item_has_its_result_in_order(quantized, design, there, back):
    port = MemoryPort(board_with(quantized, design), there, back)
    with hwflow.host.open(port, design=design, clock=port.clock) as board:
        items = batches([1, 30, 0, 7, 1, 1, 64, 2])
        source = itertools.chain.from_iterable((None, item) for item in items)
        made = list(board.stream(source))
        assert len(made) == len(items)
        for item, outputs in zip(items, made, strict=True):
            require_equal(outputs, golden.as_batch(golden.predict(quantized, item)))
        assert (board.statistics.losses > 0) == (there is not None)
        require_golden(quantized, board, rows_for(small_network(), 9))  # the board goes on without another start
        assert port.board.resets == 2


def test_integers_and_bytes(quantized, board):
    frames = golden.run_prologue(quantized, rows_for(small_network(), 5))
    expected = golden.run(quantized, frames, keep=False)
    require_equal(next(board.stream_integers([frames])), {name: expected[name] for name in quantized.graph.outputs})
    facts = board.design.facts
    assert [len(made) for made in board.stream_bytes([bytes(3 * facts.bytes_in), b""])] == [3 * facts.bytes_out, 0]


def test_an_endless_source_is_read_as_the_board_has_room_and_takes_no_memory(board, port):
    facts, taken, held = board.design.facts, 0, []

    def endless() -> Iterator[bytes]:
        nonlocal taken
        for number in itertools.count():
            taken += 1
            yield number.to_bytes(facts.bytes_in, "little")

    port.board.network = lambda frame: frame[:facts.bytes_out]
    with board.stream_bytes(endless()) as stream:
        for number, made in enumerate(itertools.islice(stream, 6000)):
            assert made == number.to_bytes(facts.bytes_out, "little")
            assert taken - number <= MOST_UNDER_WAY
            if number == 1000:
                tracemalloc.start()
            elif number > 1000 and number % 1000 == 0:
                held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
        assert held[-1] - held[0] < 4000, held
        assert stream.throughput.frames == 6000


def test_who_takes_his_time_loses_nothing(quantized, board, port):
    """Neither a source nor a reader is the board's silence."""
    def slow() -> Iterator[Mapping[str, np.ndarray]]:
        for item in items:
            port.time += 100
            yield item

    items = batches([20] * 6)
    for item, made in zip(items, board.stream(slow()), strict=True):
        port.time += 1000
        require_equal(made, golden.as_batch(golden.predict(quantized, item)))
    assert board.statistics.polls == board.statistics.losses == 0


def leave_by_close(board: OpenBoard) -> None:
    stream = board.stream(itertools.repeat(batches([3])[0]))
    next(stream)
    stream.close()
    stream.close()
    assert list(stream) == []


def leave_by_break(board: OpenBoard) -> None:
    for _ in board.stream(itertools.repeat(batches([3])[0])):
        break


def leave_by_the_source(board: OpenBoard) -> None:
    def source() -> Iterator[Mapping[str, np.ndarray]]:
        yield from batches([40, 40])
        raise KeyError("no more")

    with pytest.raises(KeyError, match="no more"):
        list(board.stream(source()))


def leave_by_a_wrong_item(board: OpenBoard) -> None:
    with pytest.raises(HwflowError, match=r"x for the input 'x' must be float32 \[n, 1, 2, 4, 4\], not float64 \[3\]"):
        list(board.stream([*batches([40, 40]), np.zeros(3)]))


def leave_by_another_call(board: OpenBoard) -> None:
    stream = board.stream(itertools.repeat(batches([3])[0]))
    next(stream)
    board.run(batches([5])[0])
    with pytest.raises(HwflowError, match="a stream must end before the next call on the same board begins"):
        next(stream)


def leave_by_a_call_of_the_source(board: OpenBoard) -> None:
    def source() -> Iterator[Mapping[str, np.ndarray]]:
        for item in batches([40, 40]):
            yield item
            board.run(item)

    with pytest.raises(HwflowError, match="a stream must end before the next call on the same board begins"):
        list(board.stream(source()))


@pytest.mark.parametrize("leave", [leave_by_close, leave_by_break, leave_by_the_source, leave_by_a_wrong_item,
                                   leave_by_another_call, leave_by_a_call_of_the_source])
def test_a_stream_that_ends_early_leaves_a_board_that_works(quantized, board, leave: Callable[[OpenBoard], None]):
    leave(board)
    require_golden(quantized, board, rows_for(small_network(), 9))
    item = batches([30])[0]
    require_equal(next(board.stream([item])), golden.as_batch(golden.predict(quantized, item)))


def test_an_unplugged_board_ends_the_stream(quantized, design):
    with Terminal(board_with(quantized, design)) as terminal, hwflow.host.open(terminal.port, design=design) as board:
        stream = board.stream(itertools.repeat(batches([3])[0]))
        next(stream)
        terminal.unplug()
        with pytest.raises(LinkFailed, match="is gone"):
            list(stream)


def test_what_the_time_went_for(quantized, board, port):
    """The line of the test takes time only for bytes, and so do turns of the source here."""
    def source() -> Iterator[Mapping[str, np.ndarray]]:
        for item in batches([10] * 20):
            port.time += 0.25
            yield item

    stream = board.stream(source())
    assert stream.throughput.facts() == {"frames": 0, "seconds": 0.0, "frames_per_second": 0.0, "line": 0.0,
                                         "core": 0.0, "host": 0.0}
    before, began = board.statistics.bytes_sent, port.time
    assert len(list(stream)) == 20
    found, facts = stream.throughput, board.design.facts
    assert found.frames == 200
    assert found.seconds == pytest.approx(port.time - began)
    assert found.host_seconds == pytest.approx(20 * 0.25)
    assert found.core_seconds == 200 * facts.interval / 25e6
    assert found.line_seconds == (board.statistics.bytes_sent - before) * 10 / 115_200
    assert found.rate == pytest.approx(200 / found.seconds)
