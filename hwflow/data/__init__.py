"""Rows of data: files, arrays, and what they say of a model's inputs."""
