"""Versions: ONNX's releases, semantic versions of models, and what a change must bump."""
