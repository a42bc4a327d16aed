"""Which board does it: the smallest one that is fast enough, and why smaller ones are not."""

from __future__ import annotations

from dataclasses import replace

from hwflow.search.exploration.exploration import answer
from hwflow.search.exploration.point import Point
from hwflow.synth import load_board

BOARDS = {name: load_board(name) for name in ("ulx3s_85f", "icebreaker", "ulx3s_12f", "ice40hx8k")}


def design(board: str, interval: int, *, asked: int | None = None, link: float = 1e6, filled: float = 0.5,
           accuracy: float = 90.0) -> Point:
    """At 100 MHz, so that 1 000 000 cycles are 100 frames a second."""
    return Point(board, "", "auto", False, False, asked, interval=interval, mhz=100.0, mhz_error=0.1, link=link,
                 filled=filled, accuracy=accuracy, reference=91.0, design=f"{board}{interval}")


def refused(board: str, why: str, asked: int | None = None) -> Point:
    return Point(board, "", "auto", False, False, asked, refused=f"'net' needs {why}", lacks=why)


def test_the_smallest_board_and_what_the_next_smaller_one_lacks() -> None:
    points = [
        design("ulx3s_85f", 10_000), refused("icebreaker", "9000 logic cells of 4000"),
        design("ice40hx8k", 5_000_000), refused("ice40hx8k", "40 multipliers of 0", 1_000_000),
        design("ulx3s_12f", 400_000, filled=0.9), design("ulx3s_12f", 950_000, asked=1_000_000, filled=0.3),
    ]
    found = answer(points, BOARDS, 100)
    assert [each.board for each in found.verdicts] == ["icebreaker", "ice40hx8k", "ulx3s_12f", "ulx3s_85f"]
    assert found.smallest is not None
    assert found.smallest.board == "ulx3s_12f"
    assert found.smallest.design is not None
    assert found.smallest.design.interval == 950_000
    assert [each.lacks for each in found.verdicts] == [
        "9000 logic cells of 4000", "20 frames/s at most; more take 40 multipliers of 0", "", ""]
    assert found.next_smaller is not None
    assert found.next_smaller.board == "ice40hx8k"
    assert found.is_close
    assert not answer([replace(point, mhz_error=0.01) for point in points], BOARDS, 100).is_close


def test_no_board_does_it() -> None:
    found = answer([design(name, 10_000_000) for name in BOARDS], BOARDS, 100)
    assert found.smallest is None
    assert not found.is_close
    assert found.next_smaller is not None
    assert found.next_smaller.board == "ulx3s_85f"
    assert found.next_smaller.lacks == "10 frames/s at most"


def test_the_smallest_of_all_has_no_smaller_one() -> None:
    found = answer([design(name, 1_000) for name in BOARDS], BOARDS, 100)
    assert found.smallest is not None
    assert found.smallest.board == "icebreaker"
    assert found.next_smaller is None


def test_a_line_that_is_too_slow_is_said() -> None:
    found = answer([design(name, 1_000, link=12.5) for name in BOARDS], BOARDS, 100)
    assert {each.lacks for each in found.verdicts} == {"no line to the host carries more than 12.5 frames/s"}


def test_designs_that_lose_too_much_do_not_count() -> None:
    points = [design("icebreaker", 1_000, accuracy=85.0), design("ulx3s_12f", 1_000)]
    boards = {name: BOARDS[name] for name in ("icebreaker", "ulx3s_12f")}
    assert answer(points, boards, 100, 2.0).smallest == answer(points, boards, 100).verdicts[1]
    assert answer(points, boards, 100, 2.0).verdicts[0].lacks == "no integers lose at most 2 of the accuracy"
