"""Stages that need a whole row before its first result: softmax and normalization of the channels of a pixel."""
