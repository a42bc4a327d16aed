"""Pooling: with a line buffer, or, for windows that do not overlap, with partial results."""
