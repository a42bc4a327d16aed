"""Stages with several inputs: sums and products of streams, element by element, and concatenation."""
