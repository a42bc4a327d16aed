"""From an exact sum to a quantized element: multiplication and shift, or thresholds."""
