"""Knobs of nextpnr's placer: as a user writes them, as nextpnr reads them, and what is refused."""

from __future__ import annotations

import pytest
from hwflow_base.errors import HwflowError

from hwflow.synth.options import AS_IT_IS, Placer, placer_of


def test_says_what_is_not_nextpnrs_own() -> None:
    placer = placer_of("critexp=3, beta=0.85")
    assert placer == Placer(beta=0.85, critexp=3)
    assert placer.arguments() == ["--placer-heap-beta", "0.85", "--placer-heap-critexp", "3"]
    assert str(placer) == "beta=0.85,critexp=3"
    assert placer_of(str(placer)) == placer
    assert placer_of("") == AS_IT_IS
    assert AS_IT_IS.arguments() == []


@pytest.mark.parametrize(("text", "message"), [
    ("crit=3", "knobs of the placer must be among beta, critexp, timingweight, not 'crit'; did you mean critexp?"),
    ("beta", "beta must be a number, not ''"),
    ("beta=nan", "beta must be a number, not 'nan'"),
    ("beta=1.5", "beta must be a number above 0 and up to 1, not 1.5"),
    ("critexp=0", "critexp must be a whole number from 1 to 10, not 0"),
    ("timingweight=2.5", "timingweight must be a whole number, not '2.5'"),
    ("beta=0.8,beta=0.9", "beta must be given once"),
])
def test_refuses_what_it_is_not(text: str, message: str) -> None:
    with pytest.raises(HwflowError) as refused:
        placer_of(text)
    assert str(refused.value) == message
