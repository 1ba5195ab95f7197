"""Fitted models as ONNX, to run without Python: converters for skl2onnx, and its conversion with our own preparations."""

from __future__ import annotations

import copy
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import joblib
import numpy as np
from numpy.typing import DTypeLike
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from outmetric import __version__
from outmetric.columns import content, held
from outmetric.export.graph import Graph
from outmetric.export.preparations import REPLACED
from outmetric.foundation import EXPORTED, Array, ExportedTransformer, ExportedVotes

if TYPE_CHECKING:
    import onnx
# Versions of the operators that onnxruntime has known since 1.14.
OPSET = 18
LEARNING_OPSET = 3
OUTPUTS = ("classes", "coordinates", "both")


def to_onnx(
    model: Any,
    X: Any = None,
    *,
    dtype: DTypeLike | None = None,
    outputs: Literal["classes", "coordinates", "both"] = "classes",
    target_opset: int = OPSET,
) -> onnx.ModelProto:
    """A fitted estimator, or a pipeline that has some of ours in it, as an ONNX model.

    Parameters
    ----------
    model : fitted estimator
        One of ours, or a pipeline of ours and of what skl2onnx converts, such as scalers and `KNeighborsClassifier`. Kernels must
        have a name (other than "precomputed"); their diagonals and sums will do.
    X : array or DataFrame, optional
        Some rows like those that will come, for their types. An array makes one input "X" of shape (n, d), float32 or float64. A
        table makes an input of shape (n, 1) for each column, named like it, with "_" for characters that ONNX does not allow:
        float32, float64, int64, bool or string. Missing numbers are NaN, missing categories the string "". Truth values may come as
        bool, as numbers (1, 0), or as strings: "true", "True", "TRUE", "1", and "false" likewise. Dates are float64: the seconds
        from the beginning of 1970 to what calendar and clock show in the time zone of the training dates, NaN for missing ones.
        Default: an array.
    dtype : float32 or float64, optional
        Of all inputs that are numbers. Default: as in X, or float64. Seconds are always float64.
    outputs : "classes", "coordinates" or "both"
        For `MetricSearchCV` and `MetricClassifier`: "label" and "probabilities", or "coordinates" (of `transform`), or all three.
        Real targets are "variable", in the place of classes: those of `MetricRegressor`, and of searches that learned such.
        Other metrics have "coordinates".
    target_opset : int
        The version of ONNX's operators, at least 13.

    Returns
    -------
    onnx.ModelProto
        For any number of rows. Floats come out in single precision if they went in so; inside all of ours is in double precision.
        The metadata have "feature_names", and "dates", those of them that are dates, as JSON, where they are known.

    Raises
    ------
    ValueError
        If the kernel, or a step of the pipeline, cannot be converted.

    Notes
    -----
    Of points at the same distance those that come first in the training data vote; in scikit-learn it depends on the search. What
    `transform` refuses (NaN, negative numbers for "chi2") is not refused.

    `skl2onnx.to_onnx` converts the same pipelines after `register`, except for these, which it converts in its own way or not at
    all: `SimpleImputer` with indicators, and in double precision; `OneHotEncoder` with missing values; `QuantileTransformer` with
    constant features; `ColumnTransformer` by names that are not those of the inputs.

    Examples
    --------
    >>> from outmetric import LearnedKernelMetric
    >>> from outmetric.export import to_onnx
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> graph = to_onnx(LearnedKernelMetric().fit(X, y), X)
    >>> [output.name for output in graph.graph.output]
    ['coordinates']
    """
    register()
    import onnx
    from skl2onnx import convert_sklearn

    check_is_fitted(model)
    known: Any = getattr(model, "feature_names_in_", None)
    names = getattr(X, "columns", known)
    if known is not None and list(names) != list(known):
        raise ValueError(f"X has the columns {list(names)}; the model was fitted on {list(known)}, in this order.")
    try:
        converted: onnx.ModelProto = convert_sklearn(
            model,
            name=type(model).__name__,
            initial_types=_inputs(X, dtype, getattr(model, "n_features_in_", None)),
            target_opset={"": target_opset, "ai.onnx.ml": LEARNING_OPSET},
            options=_options(model, outputs),
            custom_parsers=_parsers(),
        )
    except RuntimeError as error:  # what skl2onnx raises
        raise ValueError(f"a step of this {type(model).__name__} cannot be converted. {str(error).splitlines()[0]}") from error
    converted.producer_name, converted.producer_version = "outmetric", __version__
    if names is not None:
        dates = [str(name) for name in getattr(X, "columns", ()) if held(X[name]) == "date"]
        known_names = {"feature_names": [str(name) for name in names], **({"dates": dates} if dates else {})}
        onnx.helper.set_model_props(converted, {key: json.dumps(value) for key, value in known_names.items()})
    onnx.checker.check_model(converted)
    return converted


def register() -> None:
    """Tell skl2onnx about our estimators, so that ``skl2onnx.to_onnx`` converts any pipeline that has some in it.

    So it does with all classes that are `exportable` when it is called.

    `MetricSearchCV` and `MetricClassifier` are classifiers there, with the option ``outputs`` of `to_onnx`. If another step of a
    pipeline follows, they need it: ``options={id(step): {"outputs": "coordinates"}}``.
    """
    try:
        import skl2onnx
        from skl2onnx.common._registration import register_converter, register_shape_calculator
    except ImportError as error:
        raise ImportError("models in ONNX need more packages: pip install 'outmetric[onnx]'") from error
    for room in ("baselines", "tuples"):  # whose classes enter themselves when they are loaded, as all do
        import_module(f"outmetric.{room}")
    for estimator in REPLACED:  # skl2onnx keeps its own; ours is found by its alias
        register_converter(_alias(estimator), _convert_step, overwrite=True)
        register_shape_calculator(_alias(estimator), _shape_step, overwrite=True)
    options = {"zipmap": [True, False], "nocl": [False], "outputs": list(OUTPUTS)}
    for estimator, how in EXPORTED.items():
        if isinstance(how, ExportedVotes):
            calls = {"shape_fct": _shape_votes, "convert_fct": _convert_votes, "parser": _parse_votes, "options": options}
        else:
            calls = {"shape_fct": _shape_step, "convert_fct": _convert_step, "parser": _parse_step}
        skl2onnx.update_registered_converter(estimator, _alias(estimator), **calls)


def _alias(estimator: type) -> str:
    return f"Outmetric{estimator.__name__}"


def _transformation(model: Any) -> ExportedTransformer:
    how = REPLACED.get(type(model)) or EXPORTED[type(model)]
    assert isinstance(how, ExportedTransformer)
    return how


def _votes(model: Any) -> ExportedVotes | None:
    """How it votes, if it does."""
    how = EXPORTED.get(type(model))
    return how if isinstance(how, ExportedVotes) else None


def _inputs(X: Any, dtype: DTypeLike | None, n_features: int | None) -> list[tuple[str, Any]]:
    """Names and types of the model's inputs."""
    from skl2onnx.common.data_types import BooleanTensorType, DoubleTensorType, FloatTensorType, Int64TensorType, StringTensorType

    if dtype is not None and np.dtype(dtype) not in (np.float32, np.float64):
        raise ValueError(f"dtype must be float32 or float64, not {dtype!r}.")

    def number(given: np.dtype[Any]) -> Any:
        return FloatTensorType if np.dtype(given if dtype is None else dtype) == np.float32 else DoubleTensorType

    def column(values: Any) -> Any:
        given, what = np.asarray(values).dtype, held(values)
        if what == "number":
            return Int64TensorType if given.kind in "iu" and dtype is None else number(given)
        # Single precision has no more than minutes for dates.
        return {"date": DoubleTensorType, "truth": BooleanTensorType}.get(what, StringTensorType)

    if X is None:
        if n_features is None:
            raise ValueError("the model does not say how many features it takes: give some rows as X.")
        return [("X", number(np.dtype(np.float64))([None, n_features]))]
    X = X if hasattr(X, "shape") else np.asarray(X)
    if len(X.shape) != 2 or n_features not in (None, X.shape[1]):
        raise ValueError(f"X has the shape {X.shape}; expected are rows with {n_features} features.")
    if hasattr(X, "columns"):
        return [(str(name), column(X[name])([None, 1])) for name in X.columns]
    if content(X) == "date":
        return [("X", DoubleTensorType([None, X.shape[1]]))]
    if content(X) not in ("number", "truth"):
        raise ValueError(f"X is an array of {X.dtype}; expected are numbers, or a table with a type for each column.")
    return [("X", number(X.dtype)([None, X.shape[1]]))]


def _options(model: Any, outputs: str) -> dict[int, dict[str, Any]]:
    """skl2onnx's options: which outputs classifiers have; probabilities are arrays, not dictionaries."""
    if outputs not in OUTPUTS:
        raise ValueError(f"outputs must be one of {', '.join(OUTPUTS)}, not {outputs!r}.")
    *before, last = _steps(model) if isinstance(model, Pipeline) else [model]
    options: dict[int, dict[str, Any]] = {id(step): {"outputs": "coordinates"} for step in before if _votes(step)}
    if _votes(last):
        return {**options, id(last): {"outputs": outputs, "zipmap": False}}
    if outputs != "classes":
        *others, voting = sorted(estimator.__name__ for estimator, how in EXPORTED.items() if isinstance(how, ExportedVotes))
        raise ValueError(f"outputs={outputs!r} is for {', '.join(others)} and {voting}; this is a {type(last).__name__}.")
    # Classifiers of tuples are exported as maps of points, which have no probabilities.
    has_probabilities = is_classifier(last) and type(last) not in EXPORTED
    return {**options, id(last): {"zipmap": False}} if has_probabilities else options


def _parsers() -> dict[type, Any]:
    return {Pipeline: _parse_pipeline, ColumnTransformer: _parse_columns, **dict.fromkeys(REPLACED, _parse_step)}


def _parse_step(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    from skl2onnx._parse import _parse_sklearn_simple_model

    check_is_fitted(model)
    step = _transformation(model)
    if not step.suits(model):
        return _parse_sklearn_simple_model(scope, model, inputs, custom_parsers)
    operator = scope.declare_local_operator(_alias(type(model)), model)
    operator.inputs = inputs
    operator.outputs.append(scope.declare_local_variable(step.output, _float_type(inputs)([None, step.width(model)])))
    return operator.outputs


def _shape_step(operator: Any) -> None:
    model = operator.raw_operator
    widths = [variable.type.shape[1] for variable in operator.inputs]
    expected = getattr(model, "n_features_in_", None)
    if None not in (expected, *widths) and sum(widths) != expected:
        raise ValueError(
            f"{type(model).__name__} was fitted on {expected} columns and gets {sum(widths)}. A step before it may add columns "
            "that skl2onnx leaves out, such as the indicators of SimpleImputer: use outmetric.export.to_onnx."
        )
    operator.outputs[0].type = _float_type(operator.inputs)([None, _transformation(model).width(model)])


def _convert_step(scope: Any, operator: Any, container: Any) -> None:
    graph, model = Graph(scope, container), operator.raw_operator
    graph.store(_transformation(model).emit(graph, model, operator.inputs), operator.outputs[0])


def _steps(pipeline: Pipeline) -> list[Any]:
    """Those that do something."""
    return [step for _, step in pipeline.steps if step is not None and not isinstance(step, str)]


def _parse_pipeline(scope: Any, model: Pipeline, inputs: Any, custom_parsers: Any = None) -> Any:
    """As skl2onnx does it, which does not know "passthrough"."""
    from skl2onnx._parse import _parse_sklearn

    for step in _steps(model):
        if is_classifier(step) and not {id(step), type(step)} & set(scope.options or ()):
            scope.add_options(id(step), scope.get_options(model, {"zipmap": True}))
        inputs = _parse_sklearn(scope, step, inputs, custom_parsers)
    return inputs


def _parse_columns(scope: Any, model: ColumnTransformer, inputs: Any, custom_parsers: Any = None) -> Any:
    """By position, since inputs need not have the names of the training table's columns."""
    from skl2onnx._parse import _parse_sklearn_column_transformer

    check_is_fitted(model)
    by_position = copy.copy(model)
    positions = model._transformer_to_input_indices
    by_position.transformers_ = [(name, step, [int(index) for index in positions[name]]) for name, step, _ in model.transformers_]
    return _parse_sklearn_column_transformer(scope, by_position, inputs, custom_parsers)


def _parse_votes(scope: Any, model: Any, inputs: Any, custom_parsers: Any = None) -> Any:
    """The maps first, by the parsers of their steps; then one operator for the votes in them."""
    from skl2onnx._parse import _apply_zipmap
    from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

    options = scope.get_options(model, {"zipmap": True, "outputs": "classes"})
    number = _float_type(inputs)
    maps = _parse_maps(scope, model, inputs, custom_parsers)
    outputs: list[Any] = []
    if options["outputs"] != "coordinates" and not is_classifier(model):
        operator = scope.declare_local_operator(_alias(type(model)), model)
        operator.inputs = maps
        operator.outputs.append(scope.declare_local_variable("variable", number([None, model.n_targets_])))
        outputs += operator.outputs
    elif options["outputs"] != "coordinates":
        operator = scope.declare_local_operator(_alias(type(model)), model)
        operator.inputs = maps
        label = StringTensorType if _labels(model).dtype.kind == "U" else Int64TensorType
        # A dictionary of probabilities for each row, as skl2onnx has it, is defined for single precision only.
        share = FloatTensorType if options["zipmap"] else number
        operator.outputs.append(scope.declare_local_variable("label", label([None])))
        operator.outputs.append(scope.declare_local_variable("probabilities", share([None, len(model.classes_)])))
        outputs += operator.outputs
        if options["zipmap"]:
            outputs = list(_apply_zipmap(options["zipmap"], scope, model, share(), outputs))
    if options["outputs"] != "classes":
        outputs.append(_cast(scope, maps[0], number, "coordinates"))
    return outputs


def _parse_maps(scope: Any, model: Any, inputs: Any, custom_parsers: Any) -> list[Any]:
    """The coordinates in each map that votes, best first."""
    from skl2onnx._parse import _parse_sklearn
    from skl2onnx.common.data_types import BooleanTensorType, DoubleTensorType, StringTensorType

    votes = _votes(model)
    assert votes is not None
    fitted = [each for each, _ in votes.members(model)]
    if not votes.own_preparations:
        return [variable for each in fitted for variable in _parse_sklearn(scope, each, inputs, custom_parsers)]
    words = (BooleanTensorType, StringTensorType)
    inputs = [variable if isinstance(variable.type, words) else _cast(scope, variable, DoubleTensorType) for variable in inputs]
    prepared: dict[str, Any] = {}
    mapped: dict[int, Any] = {}
    for each in fitted:
        # Members share most of their preparations, and those that differ only in how they are read the whole map.
        preparation, metric = each[:-1], each[-1]
        key = joblib.hash(preparation)
        if key not in prepared:
            prepared[key] = _parse_sklearn(scope, preparation, inputs, _parsers())
        if id(each) not in mapped:
            (mapped[id(each)],) = _parse_sklearn(scope, metric, prepared[key])
    return [mapped[id(each)] for each in fitted]


def _cast(scope: Any, variable: Any, kind: Any, name: str = "numbers") -> Any:
    operator = scope.declare_local_operator("SklearnCast")
    operator.inputs = [variable]
    operator.outputs.append(scope.declare_local_variable(name, kind(variable.type.shape)))
    return operator.outputs[0]


def _shape_votes(operator: Any) -> None:
    """The parser said it all."""


def _convert_votes(scope: Any, operator: Any, container: Any) -> None:
    graph, model = Graph(scope, container), operator.raw_operator
    how = _votes(model)
    assert how is not None
    members = zip(operator.inputs, how.members(model), strict=True)
    total = graph.sum([how.emit(graph, voters, graph.rows([own])) for own, (_, voters) in members])
    graph.store(total, operator.outputs[-1])
    if is_classifier(model):
        # What is added to logarithms before the largest is named is zero unless a model says otherwise.
        offsets = np.exp(getattr(model, "class_offsets_", np.zeros(len(model.classes_))))
        named = graph("ArgMax", graph("Mul", total, offsets), axis=1, keepdims=0)
        graph.store(graph("Gather", _labels(model), named), operator.outputs[0])


def _labels(model: Any) -> Array:
    """The classes as ONNX can have them: int64 or strings."""
    classes = np.asarray(model.classes_)
    if classes.dtype.kind in "iubf" and np.all(classes == classes.astype(np.int64)):
        return classes.astype(np.int64)
    if all(isinstance(name, str) for name in classes):
        return classes.astype(str)
    raise ValueError(f"labels in ONNX are whole numbers or strings, not such as {classes[0]!r}.")


def _float_type(variables: Any) -> Any:
    """Single precision if that is what comes in."""
    from skl2onnx.common.data_types import DoubleTensorType, FloatTensorType

    kinds = {type(variable.type) for variable in variables}
    return FloatTensorType if FloatTensorType in kinds and DoubleTensorType not in kinds else DoubleTensorType
