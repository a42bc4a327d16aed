"""Passes that rewrite an ONNX model, without change of its meaning, into the form that the importer reads."""
