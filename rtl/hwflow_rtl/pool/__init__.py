"""Pooling, with a line buffer or with partial results."""
