"""Stages that need a whole row before its first result: softmax, normalization, and the largest channels of a pixel."""
