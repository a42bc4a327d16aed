"""From a float model and calibration data to integers: ranges, scales, weights, and where quantizers go."""
