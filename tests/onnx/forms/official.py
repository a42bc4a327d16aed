"""The converter of the package onnx in a process of its own: it may crash on a model without taking us along."""

from __future__ import annotations

from tests.onnx.child import Child, Crashed, Failure, serve


class OfficialConverter(Child):
    """A child process that converts."""

    def __init__(self) -> None:
        super().__init__("tests.onnx.forms.official")

    def convert(self, model: bytes, version: int) -> bytes | str:
        """The model in this version of the default operator set, or the reason why not."""
        try:
            answer = self.ask((model, version))
        except Failure as failure:
            return str(failure)
        except Crashed:
            return "it crashed"
        assert isinstance(answer, bytes)
        return answer


def main() -> None:
    import onnx
    import onnx.version_converter

    def converted(question: tuple[bytes, int]) -> bytes:
        data, version = question
        return bytes(onnx.version_converter.convert_version(onnx.load_from_string(data), version).SerializeToString())

    serve(converted)


if __name__ == "__main__":
    main()
