"""Classical models of ai.onnx.ml: trees with integer features and votes, linear models as Gemm."""
