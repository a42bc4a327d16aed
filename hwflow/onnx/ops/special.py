"""The error function, which numpy lacks: rational approximations, in whole arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hwflow.onnx.ops.base import Arr

# W. J. Cody, "Rational Chebyshev approximations for the error function", Mathematics of Computation 23 (1969):
# numerator and denominator, highest power first.  erf(x) = x P(x^2) / Q(x^2) below 0.46875.
_P_SMALL = (
    1.85777706184603153e-1, 3.16112374387056560e0, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3,
)  # fmt: skip
_Q_SMALL = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)

# 1 - erf(x) = exp(-x^2) P(x) / Q(x) from 0.46875 on; above 6 the difference from 1 is below half a unit of float64.
_P_LARGE = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594e0, 6.61191906371416295e1,
    2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_Q_LARGE = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip


def erf(x: Arr) -> Arr:
    """The error function in float64, to 1e-14 relative; any real x, not-a-number stays."""
    x = x.astype(np.float64)
    size = np.minimum(np.abs(x), 6.0)
    square = size * size
    inner = size * np.polyval(_P_SMALL, square) / np.polyval(_Q_SMALL, square)
    outer = 1.0 - np.exp(-square) * np.polyval(_P_LARGE, size) / np.polyval(_Q_LARGE, size)
    return np.asarray(np.copysign(np.where(size <= 0.46875, inner, outer), x))


def erf_inverse(y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The x with erf(x) = y, for -1 <= y <= 1, in float64; infinite at both ends.

    S. Winitzki's closed approximation (2008, error 2e-3), then three steps of Halley's method.
    """
    logarithm = np.log1p(-y * y)
    half = 2 / (np.pi * 0.147) + logarithm / 2
    x = np.copysign(np.sqrt(np.sqrt(half * half - logarithm / 0.147) - half), y)
    for _ in range(3):
        step = (erf(x) - y) * (np.sqrt(np.pi) / 2) * np.exp(x * x)
        x = x - step / (1 + x * step)
    return np.asarray(np.where(np.abs(y) == 1, np.copysign(np.inf, y), x))
