"""Which ranges of reals the integers of a float model's tensors cover, measured on data."""
