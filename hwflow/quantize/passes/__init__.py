"""Passes from an ONNX model to one of the same meaning that the rest of the quantizer reads."""
