"""Train the example models on scikit-learn's handwritten digits and write `digits_{cnn,mlp}.{onnx,npz}`.

Needs the extra `[train]` (scikit-learn, torch); takes half a minute on one core:

    python models/train_digits.py [FOLDER]

Pixels stay as the data set has them, 0 to 16; the network's first weights absorb the scale.  A quarter of the images
(450, stratified) is the test set, which training never sees and which decides nothing: the number of epochs is fixed.
The weights depend on the seed and on the release of torch, so a second run on another machine gives equal accuracy,
not equal bytes.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import hwflow.onnx
from hwflow.onnx.model import Array, Attribute, Graph, Model, Node, TensorType, Value

SEED = 7
EPOCHS = 120
BATCH = 32
TEST_IMAGES = 450
CALIBRATION_IMAGES = 128
FULL_SCALE = 16.0  # the brightest pixel of the data set

FloatArray = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]

METADATA = {
    "author": "the hwflow authors",
    "license": "Apache-2.0",
    "training_data": "Optical Recognition of Handwritten Digits (UCI, Alpaydin and Kaynak 1998), CC BY 4.0, "
    "as distributed with scikit-learn",
    "script": "models/train_digits.py",
}


@dataclass(frozen=True)
class Split:
    """Images float32[n, 1, 8, 8] from 0 to 16, and labels int64[n]."""

    train_images: FloatArray
    train_labels: Labels
    test_images: FloatArray
    test_labels: Labels


def load() -> Split:
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None]
    train, test, train_labels, test_labels = train_test_split(
        images, digits.target.astype(np.int64), test_size=TEST_IMAGES, random_state=SEED, stratify=digits.target
    )
    return Split(train, train_labels, test, test_labels)


class Scale(torch.nn.Module):
    """Pixels to 0..1, for training only; `scaled` moves the factor into the first weights."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images / FULL_SCALE


def cnn() -> torch.nn.Sequential:
    """1 906 numbers; channels in powers of two, so that many foldings divide."""
    return torch.nn.Sequential(
        Scale(),
        torch.nn.Conv2d(1, 8, 3, padding=1, bias=False),
        torch.nn.BatchNorm2d(8),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.MaxPool2d(2),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 10),
    )


def mlp() -> torch.nn.Sequential:
    return torch.nn.Sequential(
        Scale(),
        torch.nn.Flatten(),
        torch.nn.Linear(64, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 32),
        torch.nn.ReLU(),
        torch.nn.Linear(32, 10),
    )


def moved(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each image turned by up to 0.15 rad and moved by up to 0.6 pixels, as another hand might write it."""
    count = len(images)
    angle = (torch.rand(count, generator=generator) - 0.5) * 0.3
    move = (torch.rand(count, 2, generator=generator) - 0.5) * 0.3  # in half widths, that is, in 4 pixels
    cosine, sine = torch.cos(angle), torch.sin(angle)
    matrix = torch.stack([cosine, -sine, move[:, 0], sine, cosine, move[:, 1]], dim=1).view(-1, 2, 3)
    grid = torch.nn.functional.affine_grid(matrix, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid, align_corners=False)


def train(network: torch.nn.Sequential, split: Split) -> None:
    """Adam with one learning-rate cycle and label smoothing; leaves the network in evaluation mode."""
    generator = torch.Generator().manual_seed(SEED)
    images, labels = torch.from_numpy(split.train_images), torch.from_numpy(split.train_labels)
    steps = EPOCHS * (len(images) // BATCH)
    optimizer = torch.optim.AdamW(network.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=steps)
    loss = torch.nn.CrossEntropyLoss(label_smoothing=0.05)
    network.train()
    for _ in range(EPOCHS):
        order = torch.randperm(len(images), generator=generator)
        for batch in order[: len(images) // BATCH * BATCH].view(-1, BATCH):
            optimizer.zero_grad()
            loss(network(moved(images[batch], generator)), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    network.eval()


class Builder:
    """Collects the nodes and weights of one ONNX graph; every layer reads the layer before it."""

    def __init__(self, value: str) -> None:
        self.value = value
        self.nodes: list[Node] = []
        self.weights: dict[str, Array] = {}

    def add(self, op_type: str, name: str, weights: dict[str, Array], attributes: dict[str, Attribute]) -> None:
        names = {f"{name}.{key}": array for key, array in weights.items()}
        self.weights |= names
        self.nodes.append(Node(op_type, (self.value, *names), (name,), attributes, name))
        self.value = name


def add_layer(builder: Builder, layer: torch.nn.Module, name: str, factor: float) -> None:
    """Append the ONNX node for one torch layer; weights are multiplied by `factor`."""

    def array(tensor: torch.Tensor) -> FloatArray:
        return tensor.detach().numpy().astype(np.float32)

    match layer:
        case torch.nn.Conv2d() | torch.nn.Linear():
            weights = {"weight": array(layer.weight) * np.float32(factor)}
            if layer.bias is not None:
                weights["bias"] = array(layer.bias)
            if isinstance(layer, torch.nn.Linear):
                builder.add("Gemm", name, dict(weights), {"transB": 1})
            else:
                builder.add("Conv", name, dict(weights), {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)})
        case torch.nn.BatchNorm2d(running_mean=torch.Tensor() as mean, running_var=torch.Tensor() as variance):
            named = {"scale": layer.weight, "bias": layer.bias, "mean": mean, "variance": variance}
            builder.add("BatchNormalization", name, {k: array(v) for k, v in named.items()}, {"epsilon": layer.eps})
        case torch.nn.ReLU():
            builder.add("Relu", name, {}, {})
        case torch.nn.MaxPool2d():
            builder.add("MaxPool", name, {}, {"kernel_shape": (2, 2), "strides": (2, 2)})
        case torch.nn.Flatten():
            builder.add("Flatten", name, {}, {})
        case _:
            raise NotImplementedError(type(layer).__name__)


def to_onnx(network: torch.nn.Sequential, name: str) -> Model:
    """The trained network as an ONNX model: `image` float32[1, 1, 8, 8] -> `logits` float32[1, 10]."""
    builder = Builder("image")
    counts: dict[str, int] = {}
    factor = 1.0 / FULL_SCALE
    layers = [layer for layer in network if not isinstance(layer, Scale)]
    for layer in layers:
        kind = {"Conv2d": "conv", "Linear": "dense", "BatchNorm2d": "norm", "MaxPool2d": "pool"}.get(
            type(layer).__name__, type(layer).__name__.lower()
        )
        counts[kind] = counts.get(kind, 0) + 1
        label = "logits" if layer is layers[-1] else f"{kind}{counts[kind]}"
        add_layer(builder, layer, label, factor)
        if isinstance(layer, torch.nn.Conv2d | torch.nn.Linear):
            factor = 1.0
    graph = Graph(
        name=name,
        nodes=tuple(builder.nodes),
        inputs=(Value("image", TensorType(np.dtype(np.float32), (1, 1, 8, 8))),),
        outputs=(Value("logits", TensorType(np.dtype(np.float32), (1, 10))),),
        initializers=builder.weights,
    )
    return Model(graph, ir_version=8, opsets={"": 17}, producer_name="hwflow train_digits.py", metadata=METADATA)


def write(network: torch.nn.Sequential, name: str, split: Split, folder: Path) -> None:
    """Write the model and its data, each frame as the model takes it (batch dimension kept); print the accuracy."""
    with torch.no_grad():
        logits = network(torch.from_numpy(split.test_images)).numpy()
    accuracy = float((logits.argmax(axis=1) == split.test_labels).mean())
    hwflow.onnx.save(to_onnx(network, name), folder / f"{name}.onnx")
    np.savez_compressed(
        folder / f"{name}.npz",
        in_image=split.test_images[:, None],
        out_logits=logits[:, None],
        labels=split.test_labels,
        calib_image=split.train_images[:CALIBRATION_IMAGES, None],
    )
    parameters = sum(p.numel() for p in network.parameters())
    print(f"{name}: {parameters} parameters, {accuracy:.2%} of {len(logits)} test images")


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the example models on scikit-learn's digits.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent, help="where to write them")
    folder = parser.parse_args().folder
    torch.set_num_threads(1)  # sums in one order: the same weights on every run of one machine
    torch.use_deterministic_algorithms(True)
    split = load()
    for name, make in (("digits_cnn", cnn), ("digits_mlp", mlp)):
        torch.manual_seed(SEED)
        network = make()
        train(network, split)
        write(network, name, split, folder)


if __name__ == "__main__":
    main()
