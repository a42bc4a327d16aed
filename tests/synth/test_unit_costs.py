"""What units say that they cost, against the netlist: shapes to which no constant of a cost was fitted."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hwflow_rtl.vendor.fitted import fits

from hwflow.synth import load_board
from tests.rtl import test_window
from tests.synth.conftest import need
from tests.synth.side_by_side import used_by
from tests.synth.unit_samples import key_of, sample_of

#: What a unit may be off, in cells or as a part of what it takes; all of them together are within the last.
CELLS, SHARE, ALL = 32, 0.25, 0.12

Shape = dict[str, Any]
FEW_QUEUES: tuple[Shape, ...] = tuple(
    {"unit": "Queue", "width": width, "depth": depth} for width in (8, 40) for depth in (3, 12, 60))
AROUND_A_CORE: tuple[Shape, ...] = tuple(
    {"streams": streams, "lanes": lanes, "elements": elements}
    for streams, lanes, elements in ((1, 2, 500), (2, 1, 90), (2, 4, 64), (3, 2, 300)))
HELD_OUT: dict[str, tuple[Shape, ...]] = {
    "few queues": FEW_QUEUES,
    "queues": tuple({"unit": "Queue", "width": width, "depth": depth}
                    for width in (4, 8, 16, 40) for depth in (2, 3, 4, 7, 12, 30, 60)),
    "gearboxes": tuple({"unit": "Gearbox", "width": 8, "lanes_in": lanes_in, "lanes_out": lanes_out}
                       for lanes_in, lanes_out in ((1, 2), (1, 4), (2, 4), (1, 8), (2, 1), (4, 1), (4, 2), (8, 1))),
    "windows": tuple({"unit": "LineBuffer", **asdict(shape)} for shape in test_window.SHAPES.values()),
    "pools": tuple({"unit": "FoldMaxPoolStage", "size": size, "words": words, "kernel": kernel, "lanes": lanes}
                   for size, words, kernel, lanes in ((8, 8, 2, 1), (16, 4, 2, 4), (12, 16, 3, 1), (32, 8, 2, 1),
                                                      (14, 2, 7, 2), (4, 16, 2, 1))),
    "memories": tuple({"unit": "SdramController", "banks": 4, "rows": rows, "columns": columns, "width": width,
                       "clock_mhz": mhz} for rows, columns, width, mhz in ((8192, 512, 16, 66), (4096, 512, 32, 48),
                                                                           (1024, 256, 8, 100))) + tuple(
        {"unit": "WeightMemory", "width": 8, "lanes": lanes, "beats": 5001} for lanes in (1, 2, 4, 9)),
    "shared memories": tuple(
        {"unit": "WeightMemory", "width": 8, "lanes": lanes, "beats": 5001, "streams": streams, "domain": domain}
        for lanes, streams, domain in ((4, 2, "sync"), (9, 3, "memory"), (2, 5, "memory"))),
    "flashes": (
        *({"unit": "SealedController", "board": board, "words": words}
          for board, words in (("icebreaker", 48_000), ("upduino3", 700), ("icesugar", 1_500_000))),
        *({"unit": "SealCheck", "words": words} for words in (2000, 200_000)),
        *({"unit": "HostLink", "bytes_in": bytes_in, "bytes_out": bytes_out, "payload": 128, "room": 512,
           "image_bytes": 50_000, "memory": "SEALED"} for bytes_in, bytes_out in ((64, 1), (27648, 1000)))),
    "weights in a flash": tuple(
        {"unit": "Flash weights", "board": board, "beats": beats, "lanes": lanes} for board, beats, lanes in (
            ("icebreaker", (122880, 36864, 36864), 1), ("icebreaker", (192000,), 1), ("icebreaker", (48000,), 4),
            ("icebreaker", (300, 90001), 1), ("upduino3", (20000, 7000, 3000, 777, 12345), 1),
            ("upduino3", (20000, 7000, 3000), 2), ("icebreaker", (50000, 50000, 50000, 50000), 1))),
    "rescalers": (
        *({"unit": "Requantizer", "channels": channels, "bits": bits, "style": style, "interval": interval,
           "shifts": shifts} for channels, bits, style, interval, shifts in (
               (32, 18, "dsp", 1, 3), (48, 14, "dsp", 2, 1), (20, 26, "dsp", 4, 20), (20, 16, "fabric", 2, 2))),
        *({"unit": "Requantizer", "channels": 40, "bits": bits, "style": style, "interval": interval, "shifts": 3,
           "factor_bits": factor_bits} for bits, style, interval, factor_bits in (
               (20, "dsp", 1, 26), (20, "dsp", 2, 30), (22, "dsp", 4, 22), (16, "dsp", 1, 32), (16, "dsp", 3, 24),
               (20, "fabric", 4, 26))),
        *({"unit": "Requantizer", "channels": 24, "bits": 20, "style": style, "interval": interval, "outward": 1 << 16}
          for style, interval in (("dsp", 1), ("fabric", 4))),
        *({"unit": "Requantizer", "channels": channels, "bits": 15, "rows": rows, "columns": columns}
          for channels, rows, columns in ((6, (0, 1, 1, 2), (0, 1, 1, 1, 2)), (24, (0, 1, 1, 1, 1, 1), (0, 0, 0, 1)))),
        *({"unit": "Thresholder", "channels": channels, "levels": levels, "bits": bits, "style": style,
           "interval": interval} for channels, levels, bits, style, interval in (
               (32, 3, 10, "comparators", 1), (20, 31, 13, "search", 1), (100, 7, 12, "search", 4)))),
    "shared rescalers": (
        *({"unit": "SharedRequantizer", "bits": bits, "style": style, "interval": interval, "extra": extra}
          for bits, style, interval, extra in ((18, "dsp", 1, 9), (26, "dsp", 4, 20), (18, "fabric", 2, 5))),
        {"unit": "SharedRequantizer", "bits": 20, "style": "dsp", "interval": 2, "extra": 10, "outward": 1 << 17}),
    "joins": (
        *({"unit": "JoinStage", "beats": beats, "lanes": lanes, "words": words, "factors": factors, "shift": shift}
          for beats, lanes, words, factors, shift in (
              (32, 2, (32, 32), (7, 9), 5), (20, 1, (20, 20), (1, 3), 2), (40, 1, (40, 8), (3, 1), 3),
              (12, 4, (12, 1), (21, 11), 6))),
        *({"unit": "Replay", "width": width, "words": words, "repeats": repeats}
          for width, words, repeats in ((12, 12, 20), (24, 40, 6), (8, 300, 4))),
        *({"unit": "Hold", "width": width, "repeats": repeats} for width, repeats in ((10, 25), (24, 1000)))),
    "concats": tuple({"unit": "ConcatStage", "lanes": lanes, "words": words, "bits": bits}
                     for lanes, words, bits in ((3, (3, 4), 8), (1, (2, 6, 7), 8), (4, (12, 12, 20, 4, 4), 4),
                                                (8, (2, 6), 8))),
    "row writers": tuple({"unit": "WriteRowStage", "blocks": blocks, "rows": rows, "words": words, "lanes": lanes}
                         for blocks, rows, words, lanes in ((4, 256, 2, 8), (1, 100, 16, 4), (2, 64, 1, 2))),
    "averages": tuple(
        {"unit": unit, "size": size, "words": words, "kernel": kernel, "lanes": lanes, "out_lanes": out_lanes}
        for unit, size, words, kernel, lanes, out_lanes in (
            ("AveragePoolStage", 8, 1, 2, 4, 2), ("AveragePoolStage", 12, 8, 3, 2, 1),
            ("FoldAveragePoolStage", 4, 8, 4, 4, 1), ("FoldAveragePoolStage", 9, 2, 3, 2, 1),
            ("FoldAveragePoolStage", 14, 16, 7, 2, 1), ("FoldAveragePoolStage", 8, 4, 8, 2, 2))),
    "moves": tuple(
        {"unit": unit, "operation": operation, "height": height, "width": width, "words": words, "lanes": lanes}
        for unit, operation, height, width, words, lanes in (
            ("RearrangeStage", "flip", 12, 10, 1, 2), ("RearrangeStage", "transpose", 16, 16, 2, 1),
            ("RearrangeStage", "upsample", 7, 7, 3, 2), ("RearrangeStage", "pad", 10, 10, 4, 1),
            ("SelectionStage", "crop", 14, 14, 1, 2), ("SelectionStage", "thin", 16, 16, 4, 1))),
    "interpolations": tuple(
        {"unit": "InterpolateStage", "height": height, "width": width, "factor": factor, "channels": channels,
         "lanes": lanes, "out_lanes": out_lanes} for height, width, factor, channels, lanes, out_lanes in (
             (12, 12, 2, 4, 4, 2), (5, 16, 4, 8, 2, 1), (20, 20, 3, 2, 1, 1))),
    "links": (
        *({"unit": "HostLink", "bytes_in": bytes_in, "bytes_out": bytes_out, "payload": payload, "room": room,
           "settings": settings} for bytes_in, bytes_out, payload, room, settings in (
               (64, 1, 128, 512, False), (27648, 1000, 512, 2048, False), (300, 200, 512, 2048, True))),
        *({"unit": "RegisterSlice", "width": width} for width in (9, 40))),
    "tables": (
        *({"unit": "LookupStage", "bits_in": bits_in, "bits_out": bits_out, "lanes": lanes}
          for bits_in, bits_out, lanes in ((5, 8, 1), (8, 4, 2), (7, 8, 8))),
        *({"unit": "SegmentsStage", "bits_in": bits_in, "bits_out": bits_out, "lanes": lanes, "form": form}
          for bits_in, bits_out, lanes, form in ((15, 16, 1, "direct"), (16, 8, 2, "zoomed"), (30, 16, 1, "octaves"))),
        *({"unit": "EmbeddingStage", "rows": rows, "width": width, "lanes": lanes}
          for rows, width, lanes in ((40, 8, 8), (100, 24, 2), (500, 32, 4))),
        *({"unit": "TopKStage", "channels": channels, "lanes": lanes, "k": k}
          for channels, lanes, k in ((20, 1, 1), (16, 4, 1), (50, 1, 2), (1000, 2, 1))),
        *({"unit": "RunningSumUnit", "channels": channels, "lanes": lanes, "bits": bits}
          for channels, lanes, bits in ((24, 3, 6), (200, 1, 8), (12, 6, 8)))),
    "loops": tuple(
        {"unit": "RecurrentStage", "cell": cell, "hidden": hidden, "rows": rows, "cols": cols, "lanes": lanes,
         "after": after} for cell, hidden, rows, cols, lanes, after in (
             ("rnn", 24, 4, 4, 2, False), ("gru", 32, 8, 2, 2, True), ("gru", 16, 4, 2, 1, False),
             ("lstm", 24, 2, 4, 1, False))),
    "AXI4-Stream ports": tuple({"unit": "AxiStreamTop", **sizes} for sizes in AROUND_A_CORE),
    "frames of bytes": tuple({"unit": "FrameBytes", **sizes} for sizes in AROUND_A_CORE),
    "tile fillers": tuple({"unit": "TileFiller", "beats": beats, "banks": banks, "rows": rows, "together": together}
                          for beats, banks, rows, together in ((24, 6, 1, 2), (100, 3, 1, 1), (5, 2, 4, 4))),
    "products": tuple(
        {"unit": "MatMulStage", "heads": heads, "rows": rows, "depth": depth, "columns": columns, "order": order,
         "together": together, "cols": cols, "zero_point": zero_point}
        for heads, rows, depth, columns, order, together, cols, zero_point in (
            (4, 64, 16, 64, "nhk", 4, 4, 0), (4, 64, 64, 16, "khn", 4, 4, -128), (1, 16, 24, 16, "hnk", 2, 3, 5),
            (2, 32, 12, 8, "hkn", 8, 2, 0))),
    "trees": (
        *({"unit": "ParallelTrees", "trees": trees, "depth": depth, "channels": channels, "bits": bits,
           "targets": targets, "cols": cols, "lanes": lanes} for trees, depth, channels, bits, targets, cols, lanes in (
               (7, 3, 12, 5, 1, 12, 1), (5, 5, 8, 7, 2, 4, 1), (12, 3, 10, 4, 3, 5, 3))),
        *({"unit": "WalkedTrees", "trees": trees, "depth": depth, "channels": channels, "bits": bits,
           "targets": targets, "cols": cols, "lanes": lanes, "rows": rows}
          for trees, depth, channels, bits, targets, cols, lanes, rows in (
              (20, 4, 12, 7, 1, 1, 1, 1), (30, 3, 16, 5, 4, 2, 1, 3), (40, 5, 10, 8, 1, 2, 1, 2)))),
    "small matrix stages": tuple(
        {"unit": "Conv", "size": size, "channels": channels, "outputs": outputs, "kernel": kernel, "rows": rows,
         "cols": cols, "bits": bits, "style": style}
        for size, channels, outputs, kernel, rows, cols, bits, style in (
            (9, 8, 4, 3, 2, 8, 8, "blocks"), (7, 16, 8, 1, 4, 8, 4, "logic"), (16, 4, 16, 3, 4, 4, 8, "blocks"))),
    "streamed weights": tuple(
        {"unit": "Streamed dense", "inputs": inputs, "outputs": 64, "rows": rows, "cols": cols, "together": together}
        for inputs, rows, cols, together in ((256, 4, 4, 4), (256, 4, 4, 2), (64, 2, 1, 2), (32, 8, 4, 1),
                                             (8, 4, 8, 4))),
    "tiled stages": tuple(
        {"unit": "Tiled conv", "size": size, "channels": channels, "outputs": outputs, "kernel": kernel, "rows": rows,
         "cols": cols, "groups": groups, "together": together}
        for size, channels, outputs, kernel, rows, cols, groups, together in (
            (8, 32, 64, 3, 4, 4, 1, 4), (7, 64, 48, 1, 4, 8, 1, 2), (9, 24, 40, 1, 2, 4, 2, 2),
            (6, 16, 30, 3, 4, 2, 1, 1), (14, 48, 60, 1, 4, 6, 1, 4), (7, 256, 160, 1, 4, 8, 1, 4))),
    "matrix stages": tuple(
        {"unit": "Conv", "size": 12, "channels": 16, "outputs": 16, "kernel": 3, "rows": rows, "cols": cols,
         "bits": bits, "style": style}
        for rows, cols, bits, style in ((4, 8, 4, "logic"), (2, 24, 4, "logic"), (4, 8, 8, "blocks"))),
}
#: What the flip-flops of a matrix stage may be off, as a part of what it takes.
FLIP_FLOPS = 0.04


@pytest.mark.parametrize("name", HELD_OUT)
def test_no_constant_is_fitted_to_what_is_tested(name: str) -> None:
    fitted = {key_of(shape) for fit in fits().values() for shape in fit.shapes}
    assert fitted
    assert not fitted & {key_of(shape) for shape in HELD_OUT[name]}


@pytest.mark.parametrize(("name", "board"), [
    ("few queues", "ulx3s_85f"),
    *(pytest.param(name, board, marks=pytest.mark.slow) for board in ("ulx3s_85f", "tangnano9k")
      for name in ("queues", "gearboxes", "windows", "pools", "rescalers", "joins", "concats", "moves",
                   "interpolations", "tables", "trees", "small matrix stages", "links", "averages",
                   "AXI4-Stream ports", "frames of bytes", "tiled stages", "loops")),
    # A controller of a Gowin takes up to a third more tables than its cost says, which is one for all families.
    *(pytest.param(name, "ulx3s_85f", marks=pytest.mark.slow)
      for name in ("memories", "shared memories", "shared rescalers", "streamed weights")),
    *(pytest.param(name, "icebreaker", marks=pytest.mark.slow) for name in ("flashes", "weights in a flash")),
    # Carry chains of an ECP5 take a sixth more.
    pytest.param("tile fillers", "tangnano9k", marks=pytest.mark.slow)])
def test_a_unit_takes_what_it_says(name: str, board: str, tmp_path: Path) -> None:
    target = load_board(board)
    need(target.family)
    technology = target.technology()
    samples = [sample_of(shape, technology) for shape in HELD_OUT[name]]
    used = used_by([sample.unit() for sample in samples], target, tmp_path)
    planned = [technology.placed(sample.cost()) for sample in samples]
    wrong = [f"{key_of(shape)}: {plan} instead of {part}"
             for shape, plan, part in zip(HELD_OUT[name], planned, used, strict=True) if plan.ram != part.ram
             or abs(plan.lut - part.lut) > max(CELLS, SHARE * part.lut)]
    assert not wrong, "\n".join(wrong)
    assert abs(sum(plan.lut for plan in planned) / sum(part.lut for part in used) - 1) < ALL


@pytest.mark.slow
def test_flip_flops_of_matrix_stages(tmp_path: Path) -> None:
    """Those of products in logic are most of a full chip; rows of a bank share the registers of their elements."""
    board = load_board("ulx3s_85f")
    need(board.family)
    samples = [sample_of(shape, board.technology()) for shape in HELD_OUT["matrix stages"]]
    used = used_by([sample.unit() for sample in samples], board, tmp_path)
    errors = [sample.cost().ff / part.ff - 1 for sample, part in zip(samples, used, strict=True)]
    assert max(map(abs, errors)) < FLIP_FLOPS, errors
