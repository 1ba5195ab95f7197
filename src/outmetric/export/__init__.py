"""Models in the ONNX format, for programs in other languages."""

from outmetric.export.converters import register, to_onnx

__all__ = [
    "register",
    "to_onnx",
]
