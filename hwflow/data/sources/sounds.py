"""Recordings as sources: decoded by libsndfile (soundfile), brought to another rate by libsoxr (soxr)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
import soxr
from hwflow_base.errors import HwflowError

from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array

from .files import files_of
from .source import Input, Preparation, Progress, Source, require_room

#: The endings of files that are recordings.
SOUNDS = (".wav", ".flac", ".ogg", ".mp3", ".aif", ".aiff")


@dataclass
class Sounds(Source):
    """One file a row: its first samples, with silence after a shorter one."""

    paths: tuple[Path, ...] = ()
    how: Preparation = field(default_factory=Preparation)
    samples: int = 0
    rate: int = 0
    target: Input | None = None
    shape: tuple[int, ...] = ()
    limits: Limits = field(default_factory=Limits)

    def read(self, chosen: Sequence[int], progress: Progress) -> Array:
        assert self.target is not None
        require_room(len(chosen), self.shape, self.target.dtype, self.limits, str(self.paths[0].parent))
        rows, cut, filled = np.empty((len(chosen), *self.shape), self.target.dtype), 0, 0
        for k, row in enumerate(chosen):
            path = self.paths[row]
            wave = decoded(path, self.rate, self.how.rate is not None, self.limits)
            cut, filled = cut + (len(wave) > self.samples), filled + (len(wave) < self.samples)
            wave = np.pad(wave[: self.samples], (0, max(0, self.samples - len(wave))))
            scaled = self.how.apply(wave[:, None], str(path))
            rows[k] = self.target.numbers(scaled.reshape(self.shape), str(path))
            progress(k + 1, len(chosen))
        if cut or filled:
            self.notes.append(f"{cut} of {len(chosen)} rows are the first {self.samples} samples of longer recordings, "
                              f"{filled} have silence after a shorter one")
        return rows


def sound_source(place: Path, target: Input, how: Preparation, limits: Limits) -> Source:
    """The recordings of a folder, mixed down to one channel, as numbers from -1 to 1.

    HwflowError for an input that has more than one axis of more than one element: it takes spectra or other features,
    which only the training of the model defines.
    """
    files = files_of(place, SOUNDS, how, "recordings")
    rate = how.rate or info(files.paths[0]).samplerate
    long = [size for size in target.shape if size != 1]
    if len(long) != 1:
        raise HwflowError(f"the model's input '{target.name}' {target.shown} must be samples, with one axis that is "
                          "not 1, to take a folder of recordings",
                          "compute its features as in the training, and save them with numpy.savez "
                          "(docs/data-files.md)")
    samples = long[0] or int(info(files.paths[0]).frames * rate / info(files.paths[0]).samplerate)
    shape = tuple(samples if size != 1 else 1 for size in target.shape)
    again = f"resampled to {rate} Hz" if how.rate else f"{rate} Hz as they are"
    notes = [f"{len(files.paths)} recordings, {again}, one channel; {samples} samples; from -1 to 1, {how.formula}"]
    notes += [f"{files.others} other files are left out"] if files.others else []
    return Sounds(len(files.paths), files.labels, files.classes, files.names, notes, files.paths, how, samples, rate,
                  target, shape, limits)


def info(path: Path) -> Any:
    """The header of a recording."""
    try:
        return soundfile.info(str(path))
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> HwflowError:
    reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
    return HwflowError(f"the recording must be a file that libsndfile reads ({reason})", where=str(path))


def decoded(path: Path, rate: int, resample: bool, limits: Limits) -> Array:
    """The samples of a recording, float32 from -1 to 1, the mean of its channels, at `rate` Hz."""
    header = info(path)
    if header.samplerate != rate and not resample:
        raise HwflowError(f"the recording must have {rate} samples a second like the first one, not "
                          f"{header.samplerate}", f"give --rate {rate} to resample those that differ", where=str(path))
    require_room(header.frames, (max(1, header.channels),), np.dtype(np.float32), limits, str(path))
    try:
        wave, _ = soundfile.read(str(path), dtype="float32", always_2d=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise _unreadable(path, error) from None
    mixed = wave.mean(axis=1)
    return np.asarray(mixed if header.samplerate == rate else soxr.resample(mixed, header.samplerate, rate))
