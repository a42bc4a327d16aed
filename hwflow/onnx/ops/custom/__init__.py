"""Operators of domains other than ONNX's own: those of quantized networks that other tools write."""
