"""Models in the ONNX format, for programs in other languages."""

from outmetric.export.converters import register, to_onnx
from outmetric.export.graph import Graph
from outmetric.foundation import exportable

__all__ = [
    "Graph",
    "exportable",
    "register",
    "to_onnx",
]
