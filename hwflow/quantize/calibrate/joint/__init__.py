"""Weights and ranges of a whole network, changed together by the error of its results."""
