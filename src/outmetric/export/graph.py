"""What fitted models compute, as nodes of an ONNX graph: maps, neighbour votes, and the preparations of `MetricClassifier`.

Coefficients are large numbers that almost cancel, so everything is computed in double precision. Sums over features are loops,
whose memory is that of the sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from outmetric.estimators import LinearMetric
from outmetric.foundation import Array, to_array
from outmetric.kernels import Diagonal, MatrixKernel, Scalar, Separable, Sum

# The first version of the operators in which all that is used here has its present form.
LEAST_OPSET = 13
KERNELS = ("rbf", "laplacian", "additive", "linear", "poly", "polynomial", "sigmoid", "cosine", "chi2", "additive_chi2")
# Intervals between quantiles that are no wider have no slope in double precision.
NO_WIDTH = 1e-300
# What one feature adds to a sum over features, from x (n, 1) and z (1, m).
SHARES = {
    "manhattan": "difference = Sub (x, z) share = Abs (difference)",
    "squares": "difference = Sub (x, z) share = Mul (difference, difference)",
    "gaussians": "difference = Sub (x, z) square = Mul (difference, difference) exponent = Neg (square) share = Exp (exponent)",
    # The sum of two numbers >= 0 is zero only if their difference is.
    "chi2": """difference = Sub (x, z) square = Mul (difference, difference) both = Add (x, z)
               least = Constant <value = double {1e-300}> () divisor = Max (both, least) share = Div (square, divisor)""",
}
# The sum over intervals of how far x is through each, from 0 to 1.
LEVELS = """levels (double[n, 1] x, double[1, k] start, double[1, k] slope, double[1, k] shift) => (double[n, 1] level) {
    difference = Sub (x, start) product = Mul (difference, slope) passed = Add (product, shift)
    least = Constant <value = double {0}> () most = Constant <value = double {1}> () axes = Constant <value = int64[1] {1}> ()
    clipped = Clip (passed, least, most) level = ReduceSum (clipped, axes)
}"""


class Graph:
    """Adds nodes to a graph under construction, and hands out the names of what they compute.

    Parameters
    ----------
    scope, container
        skl2onnx's: of unique names, and of nodes.
    """

    def __init__(self, scope: Any, container: Any) -> None:
        if container.target_opset_onnx < LEAST_OPSET:
            raise ValueError(f"target_opset={container.target_opset_onnx} is too old; at least {LEAST_OPSET} is needed.")
        self.scope = scope
        self.container = container

    def __call__(self, operation: str, *inputs: Any, n_outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        """The name of the last output of a new node; inputs that are no names become constants."""
        names = [value if isinstance(value, str) else self.constant(value) for value in inputs]
        outputs = [self.scope.get_unique_variable_name(operation.lower()) for _ in range(n_outputs)]
        self._add(operation, names, outputs, op_domain=domain, **attributes)
        return str(outputs[-1])

    def _add(self, operation: str, names: list[str], outputs: list[str], **attributes: Any) -> None:
        self.container.add_node(operation, names, outputs, name=self.scope.get_unique_operator_name(operation), **attributes)

    def constant(self, value: Any) -> str:
        """A number, or an array of numbers or strings."""
        from onnx import TensorProto, numpy_helper

        name = self.scope.get_unique_variable_name("constant")
        values = np.asarray(value)
        if values.dtype.kind == "U":
            self.container.add_initializer(name, TensorProto.STRING, values.shape, [text.encode() for text in values.tolist()])
        else:
            # Indices are int64 in ONNX, which is not NumPy's integer everywhere.
            values = np.require(values, np.int64 if values.dtype.kind == "i" else None, "C")
            self.container.add_initializer(name, None, values.shape, numpy_helper.from_array(values))
        return str(name)

    def double(self, name: str) -> str:
        from onnx import TensorProto

        return self("Cast", name, to=TensorProto.DOUBLE)

    def rows(self, variables: Sequence[Any]) -> str:
        """Variables that hold numbers, side by side, in double precision."""
        from onnx import TensorProto

        for variable in variables:
            if _element_type(variable) == TensorProto.STRING:
                raise ValueError(f"the input {variable.raw_name!r} holds strings where the model takes numbers: change X.")
        return self.beside([self.double(variable.full_name) for variable in variables])

    def beside(self, names: list[str]) -> str:
        return names[0] if len(names) == 1 else self("Concat", *names, axis=1)

    def sum(self, names: list[str]) -> str:
        """One after the other, as NumPy adds arrays: what is equal there stays equal."""
        return reduce(lambda one, other: self("Add", one, other), names)

    def store(self, name: str, variable: Any) -> None:
        """What was computed becomes the value of a variable, in its type."""
        self._add("Cast", [name], [variable.full_name], to=_element_type(variable))

    def loop(self, body: str, states: list[str], inputs: list[Any]) -> str:
        """Run the body for each entry of the inputs along their first axis."""
        import onnx.compose
        import onnx.parser

        # Names inside must differ from those outside.
        prefix = f"{self.scope.get_unique_variable_name('loop')}_"
        graph = onnx.compose.add_prefix_graph(onnx.parser.parse_graph(body), prefix)
        return self("Scan", *states, *inputs, body=graph, num_scan_inputs=len(inputs))

    def by_feature(self, rows: str) -> str:
        """(n, d) becomes (d, n, 1)."""
        return self("Unsqueeze", self("Transpose", rows, perm=[1, 0]), np.array([2]))

    def sum_over_features(self, share: str, rows: str, points: Array) -> str:
        """The sum of what each feature adds for every row and point, shape (n, n_points)."""
        zeros = self("Mul", self("Gather", rows, np.array([0]), axis=1), np.zeros((1, len(points))))
        body = f"""sum (double[n, m] before, double[n, 1] x, double[1, m] z) => (double[n, m] after) {{
            {SHARES[share]} after = Add (before, share)
        }}"""
        return self.loop(body, [zeros], [self.by_feature(rows), points.T[:, None, :]])


class KernelValues:
    """Kernel values between rows and points, for several kernels; what they have in common is computed once."""

    def __init__(self, graph: Graph, rows: str, points: Array) -> None:
        self.graph, self.rows, self.points = graph, rows, points

    def times(self, scalar: Scalar, weights: Array) -> str:
        """The values of one kernel, shape (n, n_points), times a matrix.

        Numbers are multiplied into the matrices: onnxruntime would round those beside a product of matrices to single precision.
        """
        graph, params = self.graph, scalar.params or {}
        if scalar.function not in KERNELS:
            given = "its values" if scalar.function == "precomputed" else "a Python function"
            raise ValueError(f"a kernel that is given by {given} cannot become an ONNX graph; use one of {', '.join(KERNELS)}.")
        gamma = params.get("gamma")
        if gamma is None:
            gamma = 1.0 if scalar.function == "chi2" else 1 / self.points.shape[1]
        if scalar.has_bandwidth:
            gamma = 1 / float(scalar.bandwidth) if scalar.function == "laplacian" else 0.5 / float(scalar.bandwidth) ** 2
        match scalar.function:
            case "rbf":
                values = graph("Exp", graph("Mul", self._squares, -gamma))
            case "laplacian":
                values = graph("Exp", graph("Mul", self._manhattan, -gamma))
            case "chi2":
                values = graph("Exp", graph("Mul", self._chi2, -gamma))
            case "additive_chi2":
                values, weights = self._chi2, -weights
            case "additive":
                scale, n_features = np.sqrt(gamma), self.points.shape[1]
                values = graph.sum_over_features("gaussians", graph("Mul", self.rows, scale), scale * self.points)
                weights = weights / n_features
            case "linear":
                values = self._products(self.points)
            case "cosine":
                lengths = graph("Sqrt", graph("ReduceSum", graph("Mul", self.rows, self.rows), np.array([1])))
                # Zeros have no direction: their products are zero, whatever they are divided by.
                lengths = graph("Where", graph("Equal", lengths, 0.0), 1.0, lengths)
                values = graph("Div", self._products(normalize(self.points)), lengths)
            case _:
                shifted = graph("Add", self._products(gamma * self.points), float(params.get("coef0", 1)))
                degree = float(params.get("degree", 3))
                values = graph("Tanh", shifted) if scalar.function == "sigmoid" else graph("Pow", shifted, degree)
        return graph("MatMul", values, weights)

    def _products(self, points: Array) -> str:
        return self.graph("MatMul", self.rows, points.T)

    @cached_property
    def _squares(self) -> str:
        """Squared distances, from an origin in the midst of the points, for little round-off."""
        graph, origin = self.graph, np.median(self.points, axis=0)
        rows, points = graph("Sub", self.rows, origin), self.points - origin
        norms = graph("ReduceSum", graph("Mul", rows, rows), np.array([1]))
        others = graph("Add", graph("MatMul", rows, -2 * points.T), np.sum(points**2, axis=1))
        return graph("Max", graph("Add", others, norms), 0.0)

    @cached_property
    def _manhattan(self) -> str:
        return self.graph.sum_over_features("manhattan", self.rows, self.points)

    @cached_property
    def _chi2(self) -> str:
        return self.graph.sum_over_features("chi2", self.rows, self.points)


def coordinates(graph: Graph, model: Any, variables: Sequence[Any]) -> str:
    """What a fitted metric's `transform` returns."""
    metric, rows = model.metric_, graph.rows(variables)
    factor = metric.metric_factor.T
    if isinstance(metric, LinearMetric):
        return graph("MatMul", rows, factor)
    terms = list(_terms(metric.kernel, metric.coefficients))
    values = KernelValues(graph, rows, to_array(metric.points))
    products = [values.times(scalar, weights @ factor) for scalar, weights in terms]
    return graph.sum([*products, graph.constant(metric.offset @ factor)])


def _terms(kernel: MatrixKernel, coefficients: Array) -> Iterator[tuple[Scalar, Array]]:
    """Scalar kernels k and weights W such that f(x) is the sum of k(x)' W over them."""
    if isinstance(kernel, Separable):
        yield kernel.kernel, coefficients if kernel.output_matrix is None else coefficients @ kernel.output_matrix
    elif isinstance(kernel, Diagonal):
        for output, scalar in enumerate(kernel.kernels):
            yield scalar, coefficients * (np.arange(coefficients.shape[1]) == output)
    elif isinstance(kernel, Sum):
        for part, weight in zip(kernel.kernels, kernel.weights or (), strict=True):
            yield from ((scalar, weight * weights) for scalar, weights in _terms(part, coefficients))
    else:
        raise ValueError(
            f"a matrix kernel of type {type(kernel).__name__} cannot become an ONNX graph; use Separable, Diagonal and Sum "
            f"with one of {', '.join(KERNELS)}."
        )


def smoothed_votes(graph: Graph, rows: str, voters: KNeighborsClassifier) -> str:
    """(votes + 1/2) / (n_neighbors + classes/2); of points at the same distance the first vote."""
    distances = graph.sum_over_features("squares", rows, np.asarray(voters._fit_X, dtype=np.float64))
    nearest = graph("TopK", distances, np.array([voters.n_neighbors]), n_outputs=2, largest=0)
    ballots = np.eye(len(voters.classes_))[voters._y]
    votes = graph("ReduceSum", graph("Gather", ballots, nearest, axis=0), np.array([1]), keepdims=0)
    return graph("Div", graph("Add", votes, 0.5), voters.n_neighbors + len(voters.classes_) / 2)


def weighted(graph: Graph, model: Any, variables: Sequence[Any]) -> str:
    """`FeatureWeights`."""
    return graph("Mul", graph.rows(variables), model.weights_.astype(np.float64))


def imputed(graph: Graph, model: SimpleImputer, variables: Sequence[Any]) -> str:
    """`SimpleImputer` of numbers, with indicators if it has them."""
    rows = graph.rows(variables)
    missing = graph("IsNaN", rows) if np.isnan(model.missing_values) else graph("Equal", rows, float(model.missing_values))
    filled = graph("Where", missing, model.statistics_.astype(np.float64), rows)
    parts = [graph("Gather", filled, imputed_columns(model), axis=1)]
    if model.indicator_ is not None:
        parts.append(graph("Gather", graph.double(missing), model.indicator_.features_, axis=1))
    return graph.beside(parts)


def imputed_columns(model: SimpleImputer) -> Array:
    """Those that the imputer does not leave out for want of values."""
    return np.flatnonzero(~np.isnan(model.statistics_.astype(np.float64)))


def one_hot(graph: Graph, model: Any, variables: Sequence[Any]) -> str:
    """`OneHotEncoder` that ignores unknown categories; a missing string is ''."""
    from onnx import TensorProto

    columns = [
        (graph("Gather", variable.full_name, np.array([column]), axis=1), _element_type(variable) == TensorProto.STRING)
        for variable in variables
        for column in range(variable.type.shape[1])
    ]
    parts = []
    for (column, holds_strings), categories in zip(columns, model.categories_, strict=True):
        # None and NaN are both None here.
        known = [None if category is None or category != category else category for category in categories.tolist()]
        parts.append((_one_of_strings if holds_strings else _one_of_numbers)(graph, column, known))
    return graph.beside([graph.double(part) for part in parts])


def _one_of_strings(graph: Graph, column: str, categories: list[Any]) -> str:
    names = ["" if category is None else str(category) for category in categories]
    if len(set(names)) < len(names):
        raise ValueError(f"the categories {names[:20]} are not distinct as strings, where a missing value is ''.")
    numbers = list(range(len(names)))
    number = graph("LabelEncoder", column, domain="ai.onnx.ml", keys_strings=names, values_int64s=numbers, default_int64=-1)
    return graph("Equal", number, np.array(numbers))


def _one_of_numbers(graph: Graph, column: str, categories: list[Any]) -> str:
    words = [category for category in categories if isinstance(category, str)]
    if words:
        raise ValueError(f"a column with categories such as {words[0]!r} would get numbers: give some rows of the table as X.")
    number = graph.double(column)
    missing = np.array([category is None for category in categories])
    equal = graph("Equal", number, np.array([np.nan if category is None else float(category) for category in categories]))
    return graph("Or", equal, graph("And", graph("IsNaN", number), missing))


def quantile_levels(graph: Graph, model: Any, variables: Sequence[Any]) -> str:
    """`QuantileTransformer` to a uniform distribution: the mean over intervals of how far a value is through each, from 0 to 1.

    At a value that many training points share there are intervals of no width. There scikit-learn is half through them; but not at
    all at the smallest value, and wholly at the largest.
    """
    rows = graph.rows(variables)
    quantiles = model.quantiles_
    start, width = quantiles[:-1], np.diff(quantiles, axis=0)
    within = np.where(start == quantiles[0], 0.0, np.where(start == quantiles[-1], 1.0, 0.5))
    slope, shift = 1 / np.maximum(width, NO_WIDTH), np.where(width > NO_WIDTH, 0.0, within)
    intervals = [values.T[:, None, :] for values in (start, slope, shift)]
    levels = graph.loop(LEVELS, [], [graph.by_feature(rows), *intervals])
    levels = graph("Squeeze", graph("Transpose", levels, perm=[1, 0, 2]), np.array([2]))
    # Missing values stay.
    return graph("Where", graph("IsNaN", rows), rows, graph("Div", levels, float(max(1, len(start)))))


def _element_type(variable: Any) -> int:
    return int(variable.type.to_onnx_type().tensor_type.elem_type)
