"""Stages that change the order of the words of a frame: slices, pads, repeats, transposes."""
