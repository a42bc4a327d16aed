"""Calibration: the range of each tensor of a float model, measured on data, and the scale of its integers."""
