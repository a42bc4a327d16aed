"""Stages with several inputs: sums, products and concatenations of streams."""
