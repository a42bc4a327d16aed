"""The units of a product of two computed matrices, and what they say they cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from amaranth.hdl import signed, unsigned
from amaranth.lib import data
from hwflow_rtl.matmul.operand import OperandFiller, freed_after
from hwflow_rtl.matmul.stage import Centred, MatMulShape, MatMulStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.vendor import Technology

from tests.synth.sample import Sample, of_shape


def shape_of(heads: int, rows: int, depth: int, columns: int, order: str, together: int, cols: int,
             zero_point: int = 0) -> MatMulShape:
    operand = Centred(Operand(signed(8)), zero_point)
    return MatMulShape(
        heads=heads, rows=rows, depth=depth, columns=columns, interleaved=order[0] != "h", order=order,
        together=together, cols=cols, lanes=1, a=operand, b=operand, accumulator=signed(24), output=signed(8))


def operand_filler(technology: Technology, heads: int, rows: int, depth: int, columns: int, order: str, together: int,
                   cols: int) -> Sample:
    matrix = shape_of(heads, rows, depth, columns, order, together, cols).matrix
    source, words = matrix.source, matrix.bank_words(matrix.bank_rows(technology))
    return Sample(
        lambda: OperandFiller(shape=data.ArrayLayout(unsigned(8), matrix.weight_lanes), loops=source.loops,
                              tile=source.tile(words), copies=source.copies(words), freed_after=freed_after(words)),
        lambda: source.filler_cost(words, technology))


def matmul(technology: Technology, heads: int, rows: int, depth: int, columns: int, order: str, together: int,
           cols: int, zero_point: int = 0) -> Sample:
    shape = shape_of(heads, rows, depth, columns, order, together, cols, zero_point)
    rescaler = RequantizerConstants(
        bias=np.zeros(1, np.int64), multiplier=np.array([200_001]), shift=np.array([26]), zero_point=0, low=-128,
        high=127, style=RequantizerStyle.DSP)
    return of_shape(MatMulStageShape(product=shape, rescaler=rescaler), technology, "product")


MATMULS: Mapping[str, Callable[..., Sample]] = {"OperandFiller": operand_filler, "MatMulStage": matmul}
