"""How classes become nodes of an ONNX graph: each enters itself next to its definition, and whoever exports asks here.

What adds the nodes gets a ``graph``, the `outmetric.export.Graph` under construction, so it imports neither ONNX nor the exporter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)


@dataclass(frozen=True, eq=False)
class ExportedTransformer:
    """How a transformer becomes nodes.

    Attributes
    ----------
    emit : callable
        ``emit(graph, model, variables)`` adds what a fitted model computes of its inputs, and returns the result's name.
    width : callable
        ``width(model)`` is the number of columns of the result.
    output : str
        What the result is called if it is an output of the whole graph.
    suits : callable
        ``suits(model)`` tells whether this model can be exported so.
    """

    emit: Callable[[Any, Any, Sequence[Any]], str]
    width: Callable[[Any], int]
    output: str = "variable"
    suits: Callable[[Any], bool] = lambda model: True


@dataclass(frozen=True, eq=False)
class ExportedVotes:
    """How predictions in several maps become nodes: the maps by the steps that they are made of, then what each adds, summed up.

    Attributes
    ----------
    members : callable
        ``members(model)`` are pairs of a fitted map and its voters, best first; NotFittedError if there are none.
    emit : callable
        ``emit(graph, voters, coordinates)`` adds their share of the probabilities, or real targets, and returns its name.
    own_preparations : bool
        Whether what stands before the metric is the model's own choice, and so goes through our converters in double precision;
        otherwise it is converted as it would be without the model.
    """

    members: Callable[[Any], Sequence[tuple[Any, Any]]]
    emit: Callable[[Any, Any, str], str]
    own_preparations: bool = False


EXPORTED: dict[type, ExportedTransformer | ExportedVotes] = {}


def exportable(
    emit: Callable[[Any, Any, Sequence[Any]], str], width: Callable[[Any], int], *, output: str = "variable"
) -> Callable[[Class], Class]:
    """A decorator of transformers that can be exported; for the parameters see `ExportedTransformer`."""
    return _entered(ExportedTransformer(emit, width, output))


def exportable_votes(
    members: Callable[[Any], Sequence[tuple[Any, Any]]], emit: Callable[[Any, Any, str], str], *, own_preparations: bool = False
) -> Callable[[Class], Class]:
    """A decorator of classifiers and regressors that can be exported; for the parameters see `ExportedVotes`."""
    return _entered(ExportedVotes(members, emit, own_preparations))


def _entered(how: ExportedTransformer | ExportedVotes) -> Callable[[Class], Class]:
    def enter(kind: Class) -> Class:
        EXPORTED[kind] = how
        return kind

    return enter
