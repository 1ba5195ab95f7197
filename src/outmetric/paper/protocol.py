"""What is compared with what: data sets, splits, methods and their grids.

Of each data set, classes are balanced by drawing as many rows of each, at most 1000 in all; a share of them is for training, by
class. Every choice a method makes is made on the training part, by five-fold cross-validated accuracy; accuracy is then measured on
the rest. Splits depend on data set, share and repeat only, so that methods meet on equal terms.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from outmetric.automatic import FOLDS, NEIGHBOURS, RIVALS, Grid, MetricClassifier, Rival
from outmetric.baselines import LMNN, KernelITML, KernelLMNN
from outmetric.choosing import MetricSearchCV
from outmetric.datasets import DataError, load_uci, make_waveform
from outmetric.estimators import FixedKernelMetric, LearnedKernelMetric
from outmetric.foundation import Array

# To be raised when anything changes that `digest` does not see: how splits and seeds are drawn, or what MetricClassifier tries.
VERSION = 1
FRACTIONS = (0.1, 0.5)
REPEATS = 20
ROWS = 1000


def _uci(name: str) -> Callable[[Any], tuple[Array, Array]]:
    def load(data_dir: Any) -> tuple[Array, Array]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said again below
            found = load_uci(name, data_dir)
        if found.source == "generated":
            raise DataError(
                f"{name!r} is not here, and generated data are no substitute in a comparison with the paper: put waveform.data "
                "into the data folder, leave the set out, or run the embedded set 'waveform'."
            )
        return found.data, found.target

    return load


def _first_rows(table: tuple[Array, Array], count: int) -> tuple[Array, Array]:
    X, y = table
    return X[:count], y[:count]


# The paper's, in its order; and embedded ones for a quick run.
PAPER_SETS: Mapping[str, Callable[[Any], tuple[Array, Array]]] = {
    name: _uci(name) for name in ("wine", "robot", "vehicle", "molecular", "wave", "iono", "cardio", "pima")
}
QUICK_SETS: Mapping[str, Callable[[Any], tuple[Array, Array]]] = {
    "waveform": lambda _: make_waveform(360, random_state=0),
    "iris": lambda _: load_iris(return_X_y=True),
    "cancer": lambda _: _first_rows(load_breast_cancer(return_X_y=True), 300),
}
SETS = {**PAPER_SETS, **QUICK_SETS}


@dataclass(frozen=True)
class Method(Rival):
    """A way to classify; ``of_paper``: the paper has it, too."""

    of_paper: bool


def _rival(name: str, *, of_paper: bool) -> Method:
    return Method(RIVALS[name].label, RIVALS[name].build, of_paper)


def _metric(metric: Any, grid: Grid | Sequence[Grid], folds: StratifiedKFold) -> Any:
    """A metric of ours, tuned together with the number of neighbours."""
    grids = [grid] if isinstance(grid, Mapping) else grid
    named = [{f"metric__{name}": list(values) for name, values in one.items()} for one in grids]
    pipeline = Pipeline([("scale", StandardScaler()), ("metric", metric)])
    return MetricSearchCV(pipeline, named, n_neighbors=NEIGHBOURS, scoring="accuracy", cv=folds)


def _lmnn(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    return _metric(LMNN(tol=0.1), {"n_neighbors": (1, 3), "push_weight": (0.05, 0.2, 0.5, 0.8)}, folds)


def _itml(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """In the feature space of a kernel, the linear one included: the paper counts it among the kernel methods."""
    metric = KernelITML(0.99, random_state=seed)
    return _metric(
        metric,
        [
            {"kernel": ["linear"], "gamma": (0.01, 0.1, 1.0, 10.0)},
            {"bandwidth": ("0.5*median", "median", "2*median"), "gamma": (0.1, 1.0, 10.0)},
        ],
        folds,
    )


def _klmnn(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    grid = {"bandwidth": ("0.5*median", "median", "2*median"), "n_components": (0.8, 0.95), "push_weight": (0.1, 0.5)}
    return _metric(KernelLMNN(tol=0.1), grid, folds)


def _components(n_classes: int) -> list[int]:
    """Output dimensions to try: two, as for a map, and as many as the classes span."""
    return sorted({min(2, n_classes - 1), n_classes - 1})


def _spreads(m: int) -> list[list[str]]:
    """For each output a Gaussian of its own: three choices of spreads, the widest four times the narrowest."""
    factors = np.geomspace(0.5, 2, m) if m > 1 else np.ones(1)
    return [[f"{base * factor:.4g}*median" for factor in factors] for base in (0.25, 0.5, 1.0)]


def _method1(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    """With the paper's kernel, diagonal, of Gaussians with different spreads."""
    weights = {"regression_weight": (1.0, 10.0, 100.0)}
    grids: list[Grid] = [{"n_components": [m], "bandwidth": _spreads(m), **weights} for m in _components(n_classes)]
    grids.append({"n_components": [n_classes], "prototypes": ["onehot"], "bandwidth": _spreads(n_classes), **weights})
    return _metric(FixedKernelMetric(tol=1e-6), grids, folds)


def _method2(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    grid = {
        "n_components": _components(n_classes),
        "bandwidth": ("0.25*median", "0.5*median", "median", "2*median"),
        "regression_weight": (1.0, 10.0, 100.0),
    }
    return _metric(LearnedKernelMetric(), grid, folds)


def _automatic(n_classes: int, folds: StratifiedKFold, seed: int) -> Any:
    return MetricClassifier(random_state=seed)


METHODS: Mapping[str, Method] = {
    "knn": _rival("knn", of_paper=True),
    "lmnn": Method("LMNN", _lmnn, of_paper=True),
    "itml": Method("ITML", _itml, of_paper=True),
    "klmnn": Method("KLMNN", _klmnn, of_paper=True),
    "method1": Method("Method 1", _method1, of_paper=True),
    "method2": Method("Method 2", _method2, of_paper=True),
    "nca": _rival("nca", of_paper=False),
    "svm": _rival("svm", of_paper=False),
    "forest": _rival("forest", of_paper=False),
    "automatic": Method("MetricClassifier", _automatic, of_paper=False),
}
PAPER_METHODS = tuple(name for name, method in METHODS.items() if method.of_paper)


@dataclass(frozen=True, order=True)
class Trial:
    """One method on one split of one data set."""

    repeat: int
    fraction: float
    dataset: str
    method: str

    @property
    def name(self) -> str:
        return f"{self.method}-{self.dataset}-{round(100 * self.fraction):02d}-{self.repeat:02d}"

    @property
    def seed(self) -> int:
        """Of the method; the split has another, the same for all methods."""
        return _hash(self.name)

    @property
    def split_seed(self) -> int:
        return _hash(f"{self.dataset}-{self.fraction}-{self.repeat}")


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test part of a data set."""

    X_train: Array
    y_train: Array
    X_test: Array
    y_test: Array


def split(X: Array, y: Array, trial: Trial) -> Split:
    """The balanced split of a trial."""
    rng = np.random.default_rng(trial.split_seed)
    classes, counts = np.unique(y, return_counts=True)
    size = min(int(counts.min()), ROWS // len(classes))
    cut = max(2, round(trial.fraction * size))
    drawn = [rng.permutation(np.flatnonzero(y == label))[:size] for label in classes]
    train, test = (np.concatenate([rows[part] for rows in drawn]) for part in (slice(cut), slice(cut, None)))
    return Split(X[train], y[train], X[test], y[test])


def classifier(trial: Trial, n_classes: int) -> Any:
    """What a trial fits."""
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=trial.split_seed)
    return METHODS[trial.method].build(n_classes, folds, trial.seed)


def digest(method: str) -> str:
    """Changes with everything that a result of this method depends on in the protocol: rows, folds, grids, parameters."""
    models = [METHODS[method].build(n_classes, StratifiedKFold(FOLDS), 0) for n_classes in (2, 3, 4)]
    content = json.dumps([VERSION, ROWS, FOLDS, [_describe(model) for model in models]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


def _describe(value: Any) -> Any:
    """An estimator by its class and the parameters that are not the defaults, which may change from release to release."""
    if isinstance(value, BaseEstimator):
        usual = {name: one.default for name, one in inspect.signature(type(value)).parameters.items()}
        given = {name: one for name, one in value.get_params(deep=False).items() if name != "cv" and one is not usual.get(name)}
        return [type(value).__name__, {name: _describe(one) for name, one in given.items() if one != usual.get(name)}]
    if isinstance(value, Mapping):
        return {str(name): _describe(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_describe(one) for one in value]
    return str(value)


def plan(
    datasets: Sequence[str], methods: Sequence[str], fractions: Sequence[float] = FRACTIONS, repeats: int = REPEATS
) -> list[Trial]:
    """All trials, repeat by repeat, so that a run that is stopped early has treated all alike."""
    for given, known in ((datasets, SETS), (methods, METHODS)):
        unknown = [name for name in given if name not in known]
        if unknown:
            raise ValueError(f"not known: {', '.join(unknown)}; known are {', '.join(known)}.")
    if not all(0 < fraction < 1 and round(100 * fraction, 9) % 1 == 0 for fraction in fractions) or repeats < 1:
        raise ValueError(
            f"fractions must be between 0 and 1, in whole per cent, and repeats at least 1; not {list(fractions)} and {repeats}."
        )
    trials = [
        Trial(repeat, fraction, dataset, method)
        for repeat in range(repeats)
        for fraction in fractions
        for dataset in datasets
        for method in methods
    ]
    return list(dict.fromkeys(trials))
