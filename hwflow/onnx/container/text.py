"""Models as text: protobuf's text format, which people read and version control compares.

Text is small or it is a mistake: 64 MiB at most.  Unknown fields have no names, so text cannot hold them.
"""

from __future__ import annotations

from pathlib import PurePath

from google.protobuf import text_format
from google.protobuf.message import EncodeError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.extras import has_unknown_fields
from hwflow.onnx.container.wire import TOO_DEEP
from hwflow.onnx.errors import FormatError, LimitError

#: How files with text are called.
TEXT_SUFFIXES = (".textproto", ".pbtxt", ".prototxt", ".txtpb", ".onnxtxt")

MAX_TEXT_BYTES = 64 << 20


def is_text(path: PurePath) -> bool:
    """True for a file that is named as one with text."""
    return path.suffix.lower() in TEXT_SUFFIXES


def parse_text(data: memoryview) -> bytes:
    """The binary form of a model in text, so that both go the same way from here.

    Raises FormatError for what is no ModelProto in text, LimitError for too much of it or too deep nesting.
    """
    if len(data) > MAX_TEXT_BYTES:
        raise LimitError(f"must be at most {MAX_TEXT_BYTES} bytes of text, not {len(data)}", "use the binary format")
    proto = pb.ModelProto()
    try:
        text_format.Parse(bytes(data).decode("utf-8"), proto)
        return proto.SerializeToString()
    except UnicodeDecodeError as error:
        wrong = bytes(data[error.start : error.end])
        raise FormatError(f"must be UTF-8 text, not {wrong!r}", "give a binary model the suffix .onnx") from None
    except text_format.ParseError as error:
        raise FormatError(f"must be a ModelProto in protobuf's text format, not: {error}", "export it again") from None
    except (RecursionError, EncodeError, ValueError):
        raise LimitError(*TOO_DEEP) from None


def format_text(proto: pb.ModelProto) -> bytes:
    """The text of a model.  Raises FormatError where it has fields without names."""
    if has_unknown_fields(proto):
        raise FormatError("a model with fields that hwflow does not know must be saved in binary form", "use .onnx")
    return text_format.MessageToString(proto, as_utf8=True).encode("utf-8")
