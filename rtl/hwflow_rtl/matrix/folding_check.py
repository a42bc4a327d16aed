"""Which foldings a matrix stage can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..multiply.style import MultiplierStyle
from .banks import pairs_rows

if TYPE_CHECKING:
    from .shape import MatrixShape


def check_folding(shape: MatrixShape) -> None:
    """Refuse rows, lanes, styles and sources that do not fit the layer or each other; ValueError."""
    if shape.rows < 1 or shape.lanes < 1:
        raise ValueError(f"rows and lanes of a matrix stage must be at least 1, not {shape.rows} and {shape.lanes}")
    if shape.parallel == 1:
        if shape.rows > shape.outputs or shape.lanes > shape.depth:
            raise ValueError(f"rows and lanes of a matrix stage must be at most the {shape.outputs} outputs and "
                             f"{shape.depth} inputs of a group, not {shape.rows} and {shape.lanes}")
    elif not 1 < shape.parallel <= shape.frame.groups:
        raise ValueError(f"parallel groups of a matrix stage must be 1 to {shape.frame.groups}, not {shape.parallel}")
    elif (shape.rows, shape.lanes) != (shape.parallel * shape.outputs, shape.parallel * shape.depth):
        raise ValueError(f"rows and lanes of a matrix stage must be the {shape.parallel * shape.outputs} outputs and "
                         f"{shape.parallel * shape.depth} inputs of its {shape.parallel} groups, not {shape.rows} and "
                         f"{shape.lanes}")
    if shape.out_lanes < 1 or shape.rows % shape.out_lanes or shape.span % shape.out_lanes:
        raise ValueError(f"out_lanes of a matrix stage must divide its {shape.rows} rows and {shape.span} outputs, "
                         f"not {shape.out_lanes}")
    if shape.bipolar_weight and shape.parallel == 1 and shape.depth % shape.lanes:
        raise ValueError(f"lanes of a matrix stage must divide the {shape.depth} inputs of a group where no weight "
                         f"is 0, not {shape.lanes}")
    together = shape.rows // shape.parallel
    if shape.style is MultiplierStyle.PAIRS and not pairs_rows(shape.rows, shape.out_lanes, together):
        raise ValueError(f"style of a matrix stage must be blocks or logic with {shape.rows} rows, {together} of a "
                         f"group, and {shape.out_lanes} results at once, not pairs: two rows must be of one group "
                         "and in one bank")
    if shape.style is MultiplierStyle.MACS and shape.cols % 2:
        raise ValueError(f"style of a matrix stage must be blocks or logic with {shape.cols} products of a row in a "
                         "cycle, not macs: they are added up in twos")
    if shape.source.arriving_rows:
        check_arriving(shape)
    elif shape.passes != 1:
        raise ValueError(f"passes of a matrix stage must be 1 where its weights do not arrive, not {shape.passes}")


def check_arriving(shape: MatrixShape) -> None:
    """Refuse foldings that a stage with streamed weights cannot have."""
    if shape.pixels != 1 and shape.tiles != 1 and not shape.source.whole:
        raise ValueError(f"output pixels of a matrix stage must be 1 where its weights are streamed and a pixel takes "
                         f"{shape.tiles} tiles of them, not {shape.pixels}: its order of blocks would read each weight "
                         "once for each pixel; use a TiledStage")
    if shape.rows % shape.source.arriving_rows:
        raise ValueError(f"rows of a StreamSource must divide the {shape.rows} rows of the matrix stage, not "
                         f"{shape.source.arriving_rows}")
    if not shape.possible_banks:
        raise ValueError(f"rows of a StreamSource must be a multiple of the rows that share a multiplier block and "
                         f"are in one bank, not {shape.source.arriving_rows}; choose another style, or more rows")
