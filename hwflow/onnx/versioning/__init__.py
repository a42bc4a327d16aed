"""Versions: ONNX's releases, semantic versions of models, and the part of a version that a change must increase."""
