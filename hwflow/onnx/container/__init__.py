"""ONNX files: protobuf messages, memory-mapped weights, text format, external data, operator set documents."""
