"""Passes that rewrite other forms of quantized models (QOperator, QONNX) as QDQ models with the same meaning."""
