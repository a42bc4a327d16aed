"""The way of a model from its file to a design, lazily and with a cache."""
