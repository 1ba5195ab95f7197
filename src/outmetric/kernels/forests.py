"""Forest kernels: k(x, x') = share of the trees of a forest in which x and x' fall into the same leaf.

Each tree's share is a partition kernel, so k is positive semi-definite, with sparse features phi(x): 1 in the leaf of each tree. A
map f(x) = sum_j k(x, z_j) w_j is a sum over trees of a table with a row for each leaf, and costs no more than finding leaves.
"""

from __future__ import annotations

import collections.abc
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import LinearOperator
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    RandomTreesEmbedding,
)
from sklearn.utils.multiclass import type_of_target

from outmetric.foundation import Array, check_integer, n_points, storable, to_array
from outmetric.kernels.base import ScalarKernel, Takes, enter
from outmetric.kernels.operators import SampleGram

# Pairs of a row and a tree whose leaves are found at once, and numbers of sparse rows that are made dense for that: little enough
# to stay in the processor's cache, or near it.
BLOCK_PAIRS, BLOCK_NUMBERS = 2**17, 2**22
# Kernel values that are computed at once; sparse products take a few times their place.
BLOCK_VALUES = 2**22
# Numbers of rows and of their leaves that are remembered at most.
REMEMBERED_NUMBERS = 2**25
# Leaves are numbered in single precision in ONNX, which holds whole numbers up to here.
ONNX_LEAVES = 2**24
KINDS: Mapping[str, tuple[Any, Any]] = {
    "random": (RandomForestClassifier, RandomForestRegressor),
    "extra": (ExtraTreesClassifier, ExtraTreesRegressor),
}
# One forest at a time: while trees grow, scikit-learn changes the filters of warnings, which all threads share.
_growing = threading.Lock()
# Levels of trees that are counted.
DEEPEST = 200
FORESTS = (*KINDS["random"], *KINDS["extra"], RandomTreesEmbedding)


@storable("Trees")
@dataclass(frozen=True, eq=False)
class Trees(ScalarKernel):
    """The kernel of a fitted forest, as plain arrays: the nodes of all trees, tree after tree, parents before their children.

    A row goes to the left child if its feature is at most the threshold, in single precision as in scikit-learn.

    Parameters
    ----------
    roots : array of shape (n_trees,)
        Where each tree begins.
    left, right : integer arrays of shape (n_nodes,)
        The children; -1 for leaves.
    feature : integer array of shape (n_nodes,)
        Not used for leaves.
    threshold : array of shape (n_nodes,), float32
    n_features : int
    grown : mapping
        How, for people.
    """

    roots: Array = field(repr=False)
    left: Array = field(repr=False)
    right: Array = field(repr=False)
    feature: Array = field(repr=False)
    threshold: Array = field(repr=False)
    n_features: int
    grown: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A file may say anything here: what passes can neither leave its arrays nor walk in circles."""
        nodes = (self.left, self.right, self.feature)
        whole = all(isinstance(part, np.ndarray) and part.ndim == 1 and part.dtype.kind == "i" for part in (self.roots, *nodes))
        if not whole or not (isinstance(self.threshold, np.ndarray) and self.threshold.dtype == np.float32):
            raise ValueError("the nodes of trees are arrays of integers, with thresholds in single precision")
        n = len(self.left)
        if not all(part.shape == (n,) for part in (*nodes, self.threshold)):
            raise ValueError("the arrays of trees have different lengths")
        if not len(self.roots) or self.roots[0] != 0 or not np.all(np.diff(self.roots) > 0) or self.roots[-1] >= n:
            raise ValueError("trees must begin one after the other, the first with the first node")
        check_integer("n_features", self.n_features)
        if not isinstance(self.grown, Mapping):
            raise ValueError(f"how trees were grown is a mapping, not {self.grown!r}")
        inner = np.flatnonzero(self.left != -1)
        if np.any(self.right[self.left == -1] != -1):
            raise ValueError("a leaf of a tree has a child")
        ends = np.append(self.roots[1:], n)[np.searchsorted(self.roots, inner, side="right") - 1]
        for children in (self.left[inner], self.right[inner]):
            if np.any(children <= inner) or np.any(children >= ends):
                raise ValueError("the children of a node must come after it, in the same tree")
        if np.any(self.feature[inner] < 0) or np.any(self.feature[inner] >= self.n_features):
            raise ValueError(f"a tree asks for a feature that {self.n_features} features do not have")
        if np.any(np.isnan(self.threshold[inner])):
            raise ValueError("a threshold of a tree is NaN")

    @property
    def name(self) -> str:
        return "forest"

    @property
    def takes(self) -> Takes:
        return "sparse"

    @property
    def settings(self) -> Mapping[str, Any]:
        return self.grown

    def product_width(self, X: Any) -> float:
        return 2.0 * len(self.roots)

    def cost(self, points: Any) -> float:
        return float(n_points(points)) * len(self.roots) * self._depth

    @cached_property
    def _depth(self) -> int:
        """Of the deepest tree; if that is deeper than forests are, the number of nodes: a file may hold a tree that is a chain."""
        level, depth = self.roots, 0
        while len(level) and depth < DEEPEST:
            inner = level[self.left[level] >= 0]
            level = np.unique([self.left[inner], self.right[inner]])
            depth += 1
        return len(self.left) if len(level) else depth

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # not what was cached

    @classmethod
    def of(cls, forest: Any) -> Trees:
        """The trees of a fitted forest of scikit-learn."""
        if not isinstance(forest, FORESTS) or not hasattr(forest, "estimators_"):
            raise ValueError(f"a forest kernel takes a fitted forest of scikit-learn, not {forest!r}.")
        trees: list[Any] = [tree.tree_ for tree in forest.estimators_]
        counts = np.array([tree.node_count for tree in trees])
        roots = np.cumsum(counts) - counts

        def children(name: str) -> Array:
            found = [
                np.where(getattr(tree, name) < 0, -1, getattr(tree, name) + root) for tree, root in zip(trees, roots, strict=True)
            ]
            return np.concatenate(found).astype(np.int32)

        inner = children("children_left") >= 0
        feature = np.where(inner, np.concatenate([tree.feature for tree in trees]), 0).astype(np.int32)
        threshold = np.where(inner, _rounded_down(np.concatenate([tree.threshold for tree in trees])), 0).astype(np.float32)
        return cls(
            roots.astype(np.int32),
            children("children_left"),
            children("children_right"),
            feature,
            threshold,
            int(forest.n_features_in_),
            {"n_estimators": len(trees), "n_leaves": int(np.sum(~inner))},
        )

    # Rows whose leaves are known, and these; not kept in files.
    _remembered: ClassVar[tuple[Array, Array]] = (np.empty((0, 0)), np.empty((0, 0), dtype=np.int32))

    def _remember(self, X: Array, leaves: Array) -> None:
        """The leaf of each of these rows in each tree: a map's own rows are asked for again and again."""
        object.__setattr__(self, "_remembered", (X.copy(), (leaves + self.roots).astype(np.int32)))

    def apply(self, X: Any) -> Array:
        """The leaf of each row in each tree, as a number of a node, shape (n, n_trees)."""
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} features; the forest was learned on {self.n_features}.")
        known, leaves_known = self._remembered
        if isinstance(X, np.ndarray) and np.array_equal(X, known):
            return leaves_known
        leaves = np.empty((n_points(X), len(self.roots)), dtype=np.int32)
        rows = max(1, min(BLOCK_PAIRS // len(self.roots), BLOCK_NUMBERS // self.n_features))
        for start in range(0, len(leaves), rows):
            part = slice(start, start + rows)
            leaves[part] = self._leaves(to_array(X[part]))
        return leaves

    def _leaves(self, X: Array) -> Array:
        with np.errstate(over="ignore"):
            X = np.ascontiguousarray(X, dtype=np.float32)
        if not np.isfinite(X).all():
            raise ValueError("X has numbers that are NaN, infinite or too large for single precision, in which trees compare.")
        numbers, (n, width) = X.ravel(), X.shape
        nodes = np.tile(self.roots, n)
        active = np.flatnonzero(self.left[nodes] >= 0)  # those not yet in a leaf
        first = (active // len(self.roots)) * width  # where the row of each begins
        at = nodes[active]
        while len(active):
            goes_left = numbers[first + self.feature[at]] <= self.threshold[at]
            at = np.where(goes_left, self.left[at], self.right[at])
            nodes[active] = at
            going = np.flatnonzero(self.left[at] >= 0)
            active, first, at = active[going], first[going], at[going]
        return nodes.reshape(n, len(self.roots))

    @cached_property
    def _columns(self) -> tuple[Array, int]:
        """The number of each leaf among the leaves, and how many there are."""
        is_leaf = self.left < 0
        return (np.cumsum(is_leaf) - 1).astype(np.int32), int(is_leaf.sum())

    def features(self, X: Any, dtype: Any = np.float64) -> Any:
        """Phi(x) of each row, sparse, (n, n_leaves): 1 in the leaf of each tree."""
        numbers, count = self._columns
        leaves = numbers[self.apply(X)]
        n, n_trees = leaves.shape
        starts = np.arange(0, leaves.size + 1, n_trees)
        return scipy.sparse.csr_array((np.ones(leaves.size, dtype=dtype), leaves.ravel(), starts), shape=(n, count))

    def values(self, X: Any, Z: Any) -> Array:
        return self.evaluator(Z, np.float64)(X)

    def evaluator(self, Z: Any, dtype: Any) -> collections.abc.Callable[[Any], Array]:
        known = self.features(Z, dtype)
        others = known.T.tocsr()
        return lambda X: self._products(known if X is Z else self.features(X, dtype), others)

    def columns(self, X: Any) -> collections.abc.Callable[[Any], Array]:
        phi = self.features(X)
        return lambda rows: self._products(phi, phi[rows].T.tocsr())

    def _products(self, one: Any, others: Any) -> Array:
        """In single or double precision the number of trees is exact, and so values are those of a division."""
        values = np.empty((one.shape[0], others.shape[1]), dtype=one.dtype)
        step = max(1, BLOCK_VALUES // max(1, values.shape[1]))
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            values[part] = (one[part] @ others).toarray()
        values /= len(self.roots)
        return values

    def lazy_gram(self, X: Any) -> SampleGram:
        phi = self.features(X)
        back = phi.T.tocsr()

        def multiply(other: Array) -> Array:
            return np.asarray(phi @ (back @ other)) / len(self.roots)

        return LinearOperator(shape=(phi.shape[0],) * 2, matvec=multiply, matmat=multiply, dtype=np.dtype(np.float64))

    def diagonal(self, X: Any) -> Array:
        return np.ones(n_points(X))

    def table(self, Z: Any, weights: Array) -> Array:
        """A row for each leaf: what it adds to sum_j k(x, z_j) w_j if x is in it."""
        return np.asarray(self.features(Z).T.tocsr() @ weights) / len(self.roots)

    def expansion(self, Z: Any, weights: Array) -> collections.abc.Callable[[Any], Array]:
        table = self.table(Z, weights)
        return lambda X: np.asarray(self.features(X) @ table)

    @property
    def given_by(self) -> str:
        return "the trees of a forest"

    def to_onnx(self, values: Any, weights: Array) -> str:
        """The trees put out the numbers of leaves, which are exact; the table of leaves is in double precision."""
        from onnx import TensorProto

        graph, (numbers, count) = values.graph, self._columns
        if count >= ONNX_LEAVES:
            raise ValueError(f"a forest of {count} leaves cannot become an ONNX graph, which can number {ONNX_LEAVES} of them.")
        sizes = np.diff(np.append(self.roots, len(self.left)))
        trees = np.repeat(np.arange(len(sizes)), sizes)
        own = np.arange(len(trees)) - np.repeat(self.roots, sizes)  # of each node in its tree
        inner = self.left >= 0
        leaves = np.flatnonzero(~inner)
        found = graph(
            "TreeEnsembleRegressor",
            graph("Cast", values.rows, to=TensorProto.FLOAT),
            domain="ai.onnx.ml",
            op_version=1,
            n_targets=len(sizes),
            nodes_treeids=trees.tolist(),
            nodes_nodeids=own.tolist(),
            nodes_featureids=self.feature.tolist(),
            nodes_values=self.threshold.tolist(),
            nodes_modes=np.where(inner, "BRANCH_LEQ", "LEAF").tolist(),
            nodes_truenodeids=np.where(inner, self.left - self.roots[trees], 0).tolist(),
            nodes_falsenodeids=np.where(inner, self.right - self.roots[trees], 0).tolist(),
            target_treeids=trees[leaves].tolist(),
            target_nodeids=own[leaves].tolist(),
            target_ids=trees[leaves].tolist(),
            target_weights=numbers[leaves].astype(np.float32).tolist(),
        )
        shares = graph("Gather", self.table(values.points, weights), graph("Cast", found, to=TensorProto.INT64), axis=0)
        return str(graph("ReduceSum", shares, np.array([1]), keepdims=0))


@storable("Forest")
@dataclass(frozen=True, eq=False)
class Forest(ScalarKernel):
    """The kernel of a forest that is learned with the metric: k(x, x') = share of the trees with x and x' in the same leaf.

    The forest learns from the training points and their targets in every fit, so in every fold of a cross-validation from its
    training part alone. Its seed comes from the estimator's ``random_state``. Where the classes follow single features and
    thresholds, such kernels do better than those of distances; features need no scaling.

    Parameters
    ----------
    forest : fitted forest of scikit-learn, optional
        One that has been learned already, whose trees are copied; then nothing else counts, and nothing is learned.
    n_estimators : int
    kind : "random" or "extra"
        scikit-learn's `RandomForestClassifier` and `ExtraTreesClassifier`, or their regressors for real targets.
    min_samples_leaf : int or float
    max_features : int, float, "sqrt" or "log2", optional
        As there; None: scikit-learn's default.
    max_depth : int, optional
    n_jobs : int, optional
        Processes that grow trees; not kept in model files.

    Examples
    --------
    >>> from outmetric import LearnedKernelMetric
    >>> from outmetric.kernels import Forest
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(LearnedKernelMetric(kernel=Forest(n_estimators=50), random_state=0), KNeighborsClassifier())
    >>> cross_val_score(model, X, y, cv=3).mean() > 0.9
    np.True_
    """

    forest: Any = None
    n_estimators: int = 200
    kind: Literal["random", "extra"] = "random"
    min_samples_leaf: int | float = 1
    max_features: int | float | str | None = None
    max_depth: int | None = None
    n_jobs: int | None = None
    parameters: ClassVar[tuple[str, ...] | None] = (
        "forest",
        "n_estimators",
        "kind",
        "min_samples_leaf",
        "max_features",
        "max_depth",
        "n_jobs",
    )

    def __post_init__(self) -> None:
        check_integer("n_estimators", self.n_estimators)
        check_integer("max_depth", self.max_depth, optional=True)
        if self.kind not in KINDS:
            raise ValueError(f"the kind of a forest is one of {', '.join(KINDS)}, not {self.kind!r}.")
        if self.forest is None or isinstance(self.forest, Trees):
            return
        if isinstance(self.forest, Real):
            raise ValueError(f"Forest({self.forest}): give the number of trees as Forest(n_estimators={self.forest}).")
        object.__setattr__(self, "forest", Trees.of(self.forest))

    @property
    def name(self) -> str:
        return "forest"

    @property
    def takes(self) -> Takes:
        return "sparse"

    @property
    def supervised(self) -> bool:
        return self.forest is None

    @property
    def settings(self) -> Mapping[str, Any]:
        if self.forest is not None:
            return self.trees.settings
        return {"kind": self.kind, "n_estimators": self.n_estimators}

    @property
    def given_by(self) -> str:
        return "a forest that is not learned yet"

    def resolve(self, X: Any, rng: np.random.Generator, y: Any = None) -> ScalarKernel:
        """The trees, learned from these points and targets."""
        return self.grow(X, rng, y)

    def grow(self, X: Any, rng: np.random.Generator, y: Any, weights: Array | None = None, asked: Array | None = None) -> Trees:
        """The same from rows that count as often as their weights say; ``asked``: rows whose leaves will be wanted, else X."""
        if self.forest is not None:
            return self.trees
        return self.copied(self.learned(X, rng, y, weights), X if asked is None else asked)

    def learned(self, X: Any, rng: np.random.Generator, y: Any, weights: Array | None = None) -> Any:
        """The forest of scikit-learn, fitted."""
        if y is None:
            raise ValueError(
                "a forest kernel learns from targets, and none are at hand here: give y, or a forest that is fitted already, as "
                "kernels.Forest(forest)."
            )
        targets = np.asarray(y)
        labelled = targets.ndim == 1 and type_of_target(targets) != "continuous"
        if labelled and len(np.unique(targets)) < 2:
            raise ValueError(f"y holds one class only, {targets[0]}; a forest kernel learns from at least two.")
        given: dict[str, Any] = {} if self.max_features is None else {"max_features": self.max_features}
        forest = KINDS[self.kind][0 if labelled else 1](
            self.n_estimators,
            min_samples_leaf=self.min_samples_leaf,
            max_depth=self.max_depth,
            n_jobs=self.n_jobs,
            random_state=int(rng.integers(2**31)),
            **given,
        )
        with _growing:
            forest.fit(X, targets.ravel() if targets.ndim == 2 and targets.shape[1] == 1 else targets, sample_weight=weights)
        return forest

    def copied(self, forest: Any, asked: Any) -> Trees:
        """The trees of a forest that was `learned`, and the leaves of the rows that will be asked for."""
        trees = Trees.of(forest)
        trees = replace(trees, grown={**self.settings, **trees.settings})
        if isinstance(asked, np.ndarray) and len(asked) * (asked.shape[1] + self.n_estimators) <= REMEMBERED_NUMBERS:
            trees._remember(asked, forest.apply(asked))
        return trees

    @property
    def trees(self) -> Trees:
        """Those of the forest that was given."""
        if self.forest is None:
            raise ValueError("this forest kernel has learned nothing yet: call resolve(X, rng, y), or give a fitted forest.")
        return self.forest  # type: ignore[no-any-return]

    def values(self, X: Any, Z: Any) -> Array:
        return self.trees.values(X, Z)


def _rounded_down(thresholds: Array) -> Array:
    """The largest numbers in single precision that are not above: no number in single precision lies between the two."""
    with np.errstate(over="ignore"):
        single = thresholds.astype(np.float32)
    return np.where(single > thresholds, np.nextafter(single, np.float32(-np.inf)), single)


enter("forest", Forest)
