"""TensorFlow Lite files: the flatbuffer is read, checked, and written as an ONNX model in QDQ form.

Everything after `read_tflite` sees an ordinary `Model`; docs/tflite.md says where its meaning differs by a rounding.
"""
