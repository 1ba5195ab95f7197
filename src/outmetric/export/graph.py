"""An ONNX graph under construction, and kernel values in it.

Coefficients are large numbers that almost cancel, so everything is computed in double precision. Sums over features are loops,
whose memory is that of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, reduce
from typing import Any

import numpy as np

from outmetric.foundation import Array

# The first version of the operators in which all that is used here has its present form.
LEAST_OPSET = 13
# What one feature adds to a sum over features, from x (n, 1) and z (1, m).
SHARES = {
    "manhattan": "difference = Sub (x, z) share = Abs (difference)",
    "squares": "difference = Sub (x, z) share = Mul (difference, difference)",
    "gaussians": "difference = Sub (x, z) square = Mul (difference, difference) exponent = Neg (square) share = Exp (exponent)",
    # The sum of two numbers >= 0 is zero only if their difference is.
    "chi2": """difference = Sub (x, z) square = Mul (difference, difference) both = Add (x, z)
               least = Constant <value = double {1e-300}> () divisor = Max (both, least) share = Div (square, divisor)""",
}


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
            if element_type(variable) == TensorProto.STRING:
                raise ValueError(f"the input {variable.raw_name!r} holds strings where the model takes numbers: change X.")
        return self.beside([self.double(variable.full_name) for variable in variables])

    def beside(self, names: list[str]) -> str:
        return names[0] if len(names) == 1 else self("Concat", *names, axis=1)

    def sum(self, names: list[str]) -> str:
        """One after the other, as NumPy adds arrays: what is equal there stays equal."""
        return reduce(lambda one, other: self("Add", one, other), names)

    def store(self, name: str, variable: Any) -> None:
        """What was computed becomes the value of a variable, in its type."""
        self._add("Cast", [name], [variable.full_name], to=element_type(variable))

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
        """The sum of what each feature adds for every row and point, shape (n, n_points); a name or a text as in `SHARES`."""
        zeros = self("Mul", self("Gather", rows, np.array([0]), axis=1), np.zeros((1, len(points))))
        body = f"""sum (double[n, m] before, double[n, 1] x, double[1, m] z) => (double[n, m] after) {{
            {SHARES.get(share, share)} after = Add (before, share)
        }}"""
        return self.loop(body, [zeros], [self.by_feature(rows), points.T[:, None, :]])

    def kernel_values(self, rows: str, points: Array) -> KernelValues:
        """The values of kernels between rows and points."""
        return KernelValues(self, rows, points)


class KernelValues:
    """What kernels need to compute their values between rows and points; what several have in common is computed once.

    Numbers are to be multiplied into matrices: onnxruntime would round those beside a product of matrices to single precision.

    Parameters
    ----------
    graph : Graph
    rows : str
        The name of the rows, shape (n, d).
    points : array of shape (n_points, d)
    """

    def __init__(self, graph: Graph, rows: str, points: Array) -> None:
        self.graph, self.rows, self.points = graph, rows, points

    def products(self, points: Array) -> str:
        """Inner products of the rows with some points."""
        return self.graph("MatMul", self.rows, points.T)

    @cached_property
    def squares(self) -> str:
        """Squared distances, from an origin in the midst of the points, for little round-off."""
        graph, origin = self.graph, np.median(self.points, axis=0)
        rows, points = graph("Sub", self.rows, origin), self.points - origin
        norms = graph("ReduceSum", graph("Mul", rows, rows), np.array([1]))
        others = graph("Add", graph("MatMul", rows, -2 * points.T), np.sum(points**2, axis=1))
        return graph("Max", graph("Add", others, norms), 0.0)

    @cached_property
    def manhattan(self) -> str:
        """Sums of absolute differences."""
        return self.graph.sum_over_features("manhattan", self.rows, self.points)

    @cached_property
    def chi2(self) -> str:
        """Sums of (x - z)^2 / (x + z)."""
        return self.graph.sum_over_features("chi2", self.rows, self.points)


def element_type(variable: Any) -> int:
    """ONNX's number for the type of what a variable holds."""
    return int(variable.type.to_onnx_type().tensor_type.elem_type)
