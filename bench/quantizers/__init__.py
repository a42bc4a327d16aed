"""How much signal quantizers leave: hwflow beside onnxruntime, AIMET and Brevitas, on the same models and rows."""
