"""What a step of a program says of its addresses, against all addresses."""

from __future__ import annotations

import numpy as np

from tests.rtl.shared.steps import compute

#: Fields of a `Compute`, with the lowest and the highest number that they have here.
COUNTS = {**dict.fromkeys(("tiles", "height", "width", "outer", "inner", "words"), (1, 4)),
          **dict.fromkeys(("frame_height", "frame_width"), (3, 9))}
MOVES = {**dict.fromkeys(("read_tile", "read_row", "read_column", "read_outer", "read_inner"), (-9, 20)),
         **dict.fromkeys(("row_stride", "column_stride", "outer_rows", "outer_columns", "inner_rows", "inner_columns"),
                         (-2, 2)),
         **dict.fromkeys(("first_row", "first_column"), (-4, 4))}


def test_the_span_of_what_is_read() -> None:
    random, padding = np.random.default_rng(1), 0
    for slides in (False, True) * 500:
        fields = {name: int(random.integers(*ends, endpoint=True)) for name, ends in (COUNTS | MOVES).items()}
        step = compute(read_base=50, write_base=0, slides=slides, lead=2 * slides, **fields)
        addresses, inside = step.reads
        read = addresses[inside]
        assert step.read_span == ((read.min(), read.max()) if read.size else None)
        padding += not read.size
    assert 0 < padding < 500, "some windows are only padding, most are not"
