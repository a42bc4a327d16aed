"""The operators that hwflow evaluates: one file per family, all of them in one table.

The families are imported when the first operator is looked up: who only reads or writes files does not wait for them.
"""

from __future__ import annotations

import functools

from hwflow.onnx.ops.base import Operator, Table

__all__ = ["MAX_OPSET", "MIN_OPSET", "OPERATORS", "find_operator"]

#: Versions of the default operator set whose meaning the kernels follow.
MIN_OPSET, MAX_OPSET = 1, 28

#: (domain, operator) to its versions, oldest first; made at the first use.
OPERATORS: Table


@functools.cache
def _operators() -> Table:
    from hwflow.onnx.ops import (
        activation,
        arithmetic,
        attention,
        bitwise,
        cast,
        compare,
        constant,
        control,
        convolution,
        deform,
        detection,
        einsum,
        gather,
        grid,
        images,
        indexing,
        layout,
        losses,
        matrix,
        ml,
        normalization,
        optional,
        pad,
        pieces,
        pooling,
        quantization,
        quantized_matrix,
        random,
        recurrent,
        reduction,
        regions,
        resize,
        scatter,
        sequence,
        sequence_mixing,
        signal,
        slice,
        softmax,
        sort,
        standardize,
        text,
        tfidf,
        training,
        transposed,
        trigonometry,
        unpool,
    )
    from hwflow.onnx.ops.custom import microsoft, qonnx

    return {
        **control.OPERATORS,
        **optional.OPERATORS,
        **sequence.OPERATORS,
        **activation.OPERATORS,
        **trigonometry.OPERATORS,
        **softmax.OPERATORS,
        **compare.OPERATORS,
        **bitwise.OPERATORS,
        **arithmetic.OPERATORS,
        **cast.OPERATORS,
        **constant.OPERATORS,
        **convolution.OPERATORS,
        **training.OPERATORS,
        **signal.OPERATORS,
        **sequence_mixing.OPERATORS,
        **attention.OPERATORS,
        **quantized_matrix.OPERATORS,
        **transposed.OPERATORS,
        **deform.OPERATORS,
        **standardize.OPERATORS,
        **recurrent.OPERATORS,
        **indexing.OPERATORS,
        **layout.OPERATORS,
        **matrix.OPERATORS,
        **einsum.OPERATORS,
        **normalization.OPERATORS,
        **pooling.OPERATORS,
        **quantization.OPERATORS,
        **reduction.OPERATORS,
        **gather.OPERATORS,
        **pad.OPERATORS,
        **pieces.OPERATORS,
        **scatter.OPERATORS,
        **slice.OPERATORS,
        **sort.OPERATORS,
        **random.OPERATORS,
        **losses.OPERATORS,
        **text.OPERATORS,
        **tfidf.OPERATORS,
        **ml.OPERATORS,
        **qonnx.OPERATORS,
        **resize.OPERATORS,
        **grid.OPERATORS,
        **regions.OPERATORS,
        **detection.OPERATORS,
        **unpool.OPERATORS,
        **microsoft.OPERATORS,
        **images.OPERATORS,
    }


def __getattr__(name: str) -> Table:
    if name == "OPERATORS":
        return _operators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def find_operator(domain: str, op_type: str, opset: int) -> Operator | None:
    """The version of an operator that a model with this operator set means; None where there is none."""
    versions = [v for v in _operators().get((domain, op_type), ()) if v.since <= opset]
    return versions[-1] if versions else None
