"""ONNX files: protobuf messages, weights that stay in their file, text, external data, operator set documents."""
