"""Convolution and dense layers: an array of multipliers with its weights, fed one word of activations a cycle."""
