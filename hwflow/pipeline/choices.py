"""From the options of the quantization to its settings."""

from __future__ import annotations

from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import read_text

from ..onnx.model import Model
from ..options import QuantizationOptions
from ..quantize.settings import QuantizationSettings, settings_of_bits, with_options
from ..quantize.settings_file import settings_from_yaml


def settings_of(given: QuantizationOptions, model: Model) -> QuantizationSettings:
    """The settings file, or widths for all layers, or the defaults.  HwflowError where both are given."""
    if given.settings is None:
        choices = QuantizationSettings() if given.bits is None else settings_of_bits(*given.bits)
    elif given.bits is not None:
        raise HwflowError("--bits and --settings must not be given together", "write the widths into the file")
    else:
        choices = settings_from_yaml(read_text(given.settings), str(given.settings), model)
    return with_options(choices, given.rescale_bits, given.hardware_argmax)
