"""Styles: what can make the products of a stage.  Plain data: who reads a plan or a design needs no Amaranth."""

from __future__ import annotations

from enum import Enum


class MultiplierStyle(Enum):
    """The style of what makes the products of a stage whose operands are wider than two bits."""

    #: The family's multiplier blocks, each as many products as it has multipliers.
    BLOCKS = "blocks"
    #: Multiplier blocks that add their products up, two in a cycle.
    MACS = "macs"
    #: Multiplier blocks that make the products of one element with two narrow weights at once.
    PAIRS = "pairs"
    #: Tables and carry chains.
    LOGIC = "logic"
