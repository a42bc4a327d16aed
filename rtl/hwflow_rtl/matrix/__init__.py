"""Convolution and dense layers: an array of multipliers with its weights, which takes one word of activations a cycle."""
