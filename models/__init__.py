"""Example models that the project trains itself, and their test data.

`hwflow_models.PATH / "digits_cnn.onnx"` is the example that commands use if the user names no model.
"""

from pathlib import Path

__all__ = ["DEFAULT", "PATH"]

#: The folder that holds the models, in a checkout as in an installed wheel.
PATH = Path(__file__).parent

#: The example that `make sim` runs where no MODEL is given; its data is the `.npz` of the same name.
DEFAULT = PATH / "digits_cnn.onnx"
