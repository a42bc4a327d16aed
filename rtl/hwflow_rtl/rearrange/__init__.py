"""Words of a frame in another order: slices, pads, repeats, transposes."""
