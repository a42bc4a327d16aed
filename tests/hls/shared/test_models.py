"""The models of the folder of third-party models in a shared stage: every tensor."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.synthetic import squeeze_excite
from hwflow import api, golden
from hwflow.layers import LayerGraph
from hwflow.quantize import quantize
from tests.e2e.networks import rows_for
from tests.hls.shared.machine import program_for, require_equal
from tests.strategies.layer_graphs import frames_for

pytestmark = pytest.mark.slow

COMPUTED = (
    "digits_brevitas_w4a4_qcdq", "digits_brevitas_w4a4_qonnx", "digits_cnn", "digits_cnn_int8_qdq",
    "digits_cnn_legacy", "digits_mlp", "digits_mlp_sklearn", "mnist_cntk", "mnist_resdw", "mnist_resdw_int8_qdq",
    "motions_conv1d", "onnx_light_shufflenet", "pypi_mtcnn_pnet", "qonnx_tfc_1w2a", "qonnx_tfc_2w2a",
    "tiny_ad_autoencoder_float", "tiny_ad_autoencoder_int8", "tiny_kws_dscnn_float", "tiny_kws_dscnn_int8",
    "tiny_resnet8_float", "tiny_resnet8_int8")


def graph_of(name: str, folder: Path) -> LayerGraph:
    path, = folder.rglob(f"{name}.onnx")
    data = next(found for found in folder.rglob("*.npz") if found.stem == name)
    model = api.load(path, data=data)
    return api.quantize_model(model, api.read_data(data, model)).graph


@pytest.mark.parametrize("name", COMPUTED)
def test_every_tensor(name: str, models_dir: Path) -> None:
    graph = graph_of(name, models_dir)
    values = golden.run(graph, frames_for(graph, 1))
    for columns in (4, 8):
        require_equal(program_for(graph, columns=columns), {key: frames[0] for key, frames in values.items()})


def test_squeeze_and_excitation() -> None:
    """A network as MobileNetV3: tables, and products of two tensors of which one has a single pixel."""
    graph = quantize(model := squeeze_excite(), rows_for(model, 4)).graph
    assert {"lookup", "multiply"} <= {layer.kind for layer in graph.layers}
    values = golden.run(graph, frames_for(graph, 1))
    for columns in (4, 8):
        require_equal(program_for(graph, columns=columns), {key: frames[0] for key, frames in values.items()})
