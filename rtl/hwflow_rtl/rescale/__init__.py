"""From a wide, exact sum to a narrow element: by multiplication, rounding and clamp, or by thresholds."""
