"""Convolution and dense layers: an array of multipliers with its weights; it takes one word of activations a cycle."""
