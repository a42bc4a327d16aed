"""Pictures as sources: decoded, resized and cut by Pillow, in the layout of the model's input."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import PIL.Image
from hwflow_base.errors import HwflowError

from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array

from .files import files_of
from .source import Input, Layout, Preparation, Progress, Source, require_room

#: The endings of files that are pictures, and their formats as Pillow calls them; no other decoder sees a file.
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "PPM", "TIFF", "WEBP")
#: What a picture becomes for so many channels, as Pillow calls it.
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
_NAMES = {1: "grey", 3: "RGB", 4: "RGBA"}
#: Modes with more than 8 bits a channel, which Pillow would clip.
_DEEP = ("I", "F", "I;16", "I;16B", "I;16L")


@dataclass(frozen=True)
class Frame:
    """Where the pixels of a picture are in a row."""

    channels: int
    height: int
    width: int
    layout: Layout
    #: [height, width, channels] becomes rows of this shape.
    shape: tuple[int, ...]

    def place(self, pixels: Array) -> Array:
        """[height, width, channels] in the order of the row."""
        ordered = pixels.transpose(2, 0, 1) if self.layout is Layout.NCHW else pixels
        return ordered.reshape(self.shape)


@dataclass
class Pictures(Source):
    """One file a row."""

    paths: tuple[Path, ...] = ()
    how: Preparation = field(default_factory=Preparation)
    frame: Frame | None = None
    target: Input | None = None
    limits: Limits = field(default_factory=Limits)

    def read(self, chosen: Sequence[int], progress: Progress) -> Array:
        assert self.frame is not None
        assert self.target is not None
        require_room(len(chosen), self.frame.shape, self.target.dtype, self.limits, str(self.paths[0].parent))
        rows = np.empty((len(chosen), *self.frame.shape), self.target.dtype)
        for k, row in enumerate(chosen):
            path = self.paths[row]
            pixels = decoded(path, self.frame.channels, self.how, self.limits)
            if self.how.crop:
                pixels = _middle(pixels, self.frame)
            if pixels.shape[:2] != (self.frame.height, self.frame.width):
                raise _wrong_size(path, pixels.shape[:2], self.frame)
            scaled = self.how.apply(pixels[:, :, ::-1] if self.how.bgr else pixels, str(path))
            rows[k] = self.target.numbers(self.frame.place(scaled), str(path))
            progress(k + 1, len(chosen))
        return rows


def picture_source(place: Path, target: Input, how: Preparation, limits: Limits) -> Source:
    """The pictures of a folder.

    HwflowError where the shape of the input is not that of a picture, or the user does not say how pixels are scaled.
    """
    files = files_of(place, PICTURES, how, "pictures")
    if target.dtype.kind == "f" and how.scale is None:
        raise HwflowError("--scale must be given for pictures, as in the training of the model",
                          "--scale 255 for pixels from 0 to 1; --scale 1 for pixels from 0 to 255, where the model has "
                          "a layer that scales them")
    frame = _frame(files.paths[0], target, how, limits)
    if how.bgr and frame.channels != 3:
        raise HwflowError(f"--bgr must be given for three channels, not for {frame.channels}")
    order = f"{frame.layout.value.upper()}, {'BGR' if how.bgr else _NAMES[frame.channels]}"
    size = "" if how.resize is None else f", resized to {_size_text(how.resize)} ({how.interpolation.value})"
    size += f", the middle {frame.width}x{frame.height} of each" * how.crop
    notes = [f"{len(files.paths)} pictures{size}; {order}; pixels {how.formula}"]
    notes += [f"{files.others} other files are left out"] if files.others else []
    return Pictures(len(files.paths), files.labels, files.classes, files.names, notes, files.paths, how, frame, target,
                    limits)


def _size_text(resize: tuple[int, int] | int) -> str:
    return f"{resize[0]}x{resize[1]}" if isinstance(resize, tuple) else f"a shorter side of {resize}"


def _frame(first: Path, target: Input, how: Preparation, limits: Limits) -> Frame:
    """The picture that the input takes; sizes that it leaves open are those of the first picture."""
    shape = target.shape
    sizes: tuple[int | None, ...]
    if len(shape) == 3:
        layout = how.layout or _layout(target)
        sizes = shape if layout is Layout.NCHW else (shape[2], *shape[:2])
    elif len(shape) == 2:
        layout, sizes = Layout.NHWC, (1, *shape)
    elif len(shape) == 1 and shape[0] is not None:
        return _flat(first, target, shape[0], how, limits)
    else:
        raise _no_picture(target)
    channels = sizes[0] or 3
    if channels not in _MODES:
        raise _no_picture(target)
    first_shape = decoded(first, channels, how, limits).shape
    height, width = sizes[1] or first_shape[0], sizes[2] or first_shape[1]
    pixels = (channels, height, width) if layout is Layout.NCHW else (height, width, channels)
    return Frame(channels, height, width, layout, pixels if len(shape) == 3 else (height, width))


def _layout(target: Input) -> Layout:
    """Where a shape of three sizes has the channels: at the end that is 1 or 3, or else 4."""
    ends = next(([target.shape[k] in sizes for k in (0, 2)] for sizes in ((1, 3), (4,))
                 if target.shape[0] in sizes or target.shape[2] in sizes), [])
    if sum(ends) != 1:
        raise HwflowError(f"--layout must say where the model's input '{target.name}' {target.shown} has its channels",
                          "--layout nchw, as PyTorch has it, or --layout nhwc, as Keras")
    return Layout.NCHW if ends[0] else Layout.NHWC


def _flat(first: Path, target: Input, size: int, how: Preparation, limits: Limits) -> Frame:
    """A picture for an input of one axis, whose size is that of the first picture."""
    height, width = decoded(first, 1, how, limits).shape[:2]
    channels = size // (height * width)
    if channels not in _MODES or channels * height * width != size:
        raise HwflowError(f"the pictures must have {size} pixels, or a third of it, for the model's input "
                          f"'{target.name}' {target.shown}, not {width}x{height}", "give --resize WIDTHxHEIGHT",
                          where=str(first))
    if channels > 1 and how.layout is None:
        raise HwflowError(f"--layout must say in which order the model's input '{target.name}' {target.shown} has the "
                          f"{channels} channels", "--layout nchw for one channel after another, --layout nhwc for one "
                          "pixel after another")
    return Frame(channels, height, width, how.layout or Layout.NHWC, (size,))


def _no_picture(target: Input) -> HwflowError:
    return HwflowError(f"the model's input '{target.name}' {target.shown} must have the shape of a picture with 1, 3 "
                       "or 4 channels to take a folder of pictures",
                       "compute what it takes as in the training, and save it with numpy.savez (docs/data-files.md)")


def _middle(pixels: Array, frame: Frame) -> Array:
    """The middle of a picture that is larger than the input takes, as torchvision.transforms.CenterCrop cuts it."""
    top, left = (max(0, round((have - want) / 2)) for have, want in
                 zip(pixels.shape, (frame.height, frame.width), strict=False))
    return pixels[top : top + frame.height, left : left + frame.width]


def _wrong_size(path: Path, shape: Sequence[int], frame: Frame) -> HwflowError:
    """Height and width that are not those of the input."""
    larger = shape[0] >= frame.height and shape[1] >= frame.width
    first = "" if larger else f"--resize {max(frame.width, frame.height)} "
    return HwflowError(f"the picture must be {frame.width}x{frame.height} for the model's input, not "
                       f"{shape[1]}x{shape[0]}",
                       f"give --resize {frame.width}x{frame.height}, which stretches it, or "
                       f"{first}--crop, which keeps its middle", where=str(path))


def decoded(path: Path, channels: int, how: Preparation, limits: Limits) -> Array:
    """uint8 [height, width, channels], resized as the user says and not cut."""
    try:
        # Pillow warns of large pictures; here the limits judge them, by the size in the header, before it decodes.
        with warnings.catch_warnings(action="ignore"), PIL.Image.open(path, formats=_FORMATS) as picture:
            require_room(1, (picture.height, picture.width, 4), np.dtype(np.uint8), limits, str(path))
            if picture.mode in _DEEP:
                raise HwflowError(f"the picture must have 8 bits a channel, not the mode '{picture.mode}'",
                                  "convert it, or save its numbers with numpy.savez", where=str(path))
            resized = _resized(picture.convert(_MODES[channels]), how)
            return np.asarray(resized).reshape(resized.height, resized.width, channels)
    except HwflowError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # of damaged files, for which Pillow has no list of errors
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise HwflowError(f"the picture must be a file that Pillow reads ({reason})", where=str(path)) from None


def _resized(picture: PIL.Image.Image, how: Preparation) -> PIL.Image.Image:
    if how.resize is None:
        return picture
    size = how.resize
    if isinstance(size, int):  # the shorter side, as torchvision.transforms.Resize(size) has it
        shorter = min(picture.size)
        size = (int(size * picture.width / shorter), int(size * picture.height / shorter))
    return picture.resize(size, PIL.Image.Resampling[how.interpolation.name])
