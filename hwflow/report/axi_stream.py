"""The ports of a design with AXI4-Stream: which tensor passes each of them, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hwflow_rtl.core import port_names

from ..hls import Plan
from ..layers.base import LayerGraph
from ..synth import ends_of
from .console import Console

__all__ = ["port_facts", "show_ports"]


def port_facts(graph: LayerGraph, plan: Plan) -> list[dict[str, Any]]:
    """Of every port: its prefix, the tensor, what a beat and a frame of it are."""
    ends, facts = ends_of(plan), []
    for letter, names, group in (("s", graph.inputs, ends.inputs), ("m", graph.outputs, ends.outputs)):
        for port, name, end in zip(port_names(letter, len(names)), names, group, strict=True):
            tensor, size = graph.tensors[name], -(-end.width // 8)
            facts.append({
                "port": f"{port}_axis", "tensor": name, "frame": str(tensor.frame), "format": str(tensor.format),
                "scale": tensor.scale, "zero_point": tensor.zero_point, "bytes_of_element": size,
                "elements_of_beat": end.lanes, "tdata_bits": 8 * size * end.lanes,
                "beats_of_frame": end.elements // end.lanes})
    return facts


def show_ports(console: Console, facts: Sequence[dict[str, Any]]) -> None:
    heads = ("port", "tensor", "frame", "format", "scale", "zero point", "TDATA", "elements a beat", "beats a frame")
    console.table("AXI4-Stream ports", heads, [
        (each["port"], each["tensor"], each["frame"], each["format"], f"{each['scale']:.6g}", str(each["zero_point"]),
         f"{each['tdata_bits']} bits", str(each["elements_of_beat"]), str(each["beats_of_frame"])) for each in facts],
        second=6)
