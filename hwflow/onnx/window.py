"""Windows along one axis, as Conv, pools and their like say them: padding by a name, and sizes that are rounded up."""

from __future__ import annotations

#: The words of `auto_pad`.
AUTO_PADS = ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER")


def extent_of(kernel: int, dilation: int) -> int:
    """Elements from the first to the last that a kernel meets."""
    return (kernel - 1) * dilation + 1


def same_pads(size: int, extent: int, stride: int, auto_pad: str) -> tuple[int, int]:
    """Padding for SAME_UPPER and SAME_LOWER, where the output has ceil(size / stride) elements."""
    return halves(max(0, (-(-size // stride) - 1) * stride + extent - size), auto_pad)


def halves(total: int, auto_pad: str) -> tuple[int, int]:
    """Begin and end of `total` elements: an odd one goes to the end with SAME_UPPER, else to the front."""
    small, large = total // 2, total - total // 2
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


def count_of(size: int, extent: int, stride: int, pads: tuple[int, int], ceil: bool) -> int:
    """How many windows there are, with `ceil` one more where a rest is left; below 1 where the kernel does not fit."""
    room = size + sum(pads) - extent
    if not ceil or room < 0:
        return room // stride + 1
    count = -(-room // stride) + 1
    # A window must start on the input or its padding in front, not in the padding behind.
    return count - 1 if (count - 1) * stride >= size + pads[0] else count
