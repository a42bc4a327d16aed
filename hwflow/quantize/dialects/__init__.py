"""Other ways to write a quantized model (QOperator, QONNX), rewritten as a QDQ model of the same meaning."""
