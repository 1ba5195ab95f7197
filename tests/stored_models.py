"""Small fitted models that have all storable classes between them, each with data that it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import VarianceThreshold
from sklearn.gaussian_process import kernels as gaussian
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    RepeatedKFold,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    OrdinalEncoder,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from outmetric import (
    FixedKernelMetric,
    LearnedKernelMetric,
    MetricClassifier,
    MetricMap,
    MetricRegressor,
    MetricSearchCV,
    kernels,
    tables,
)
from outmetric.automatic import members, screening
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.columns import FeatureWeights, check_columns
from outmetric.tuples import (
    PairsITML,
    PairsKernelITML,
    QuadrupletsKernelLMNN,
    QuadrupletsLMNN,
    TripletsKernelLMNN,
    TripletsLMNN,
)
from outmetric.verification import PairVerifier, draw_pairs

ROWS = np.arange(0, 150, 6)
X, y = (part[ROWS] for part in load_iris(return_X_y=True))
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
PAIRS = np.array([(i, (i + step) % len(y)) for i in range(len(y)) for step in (1, 9)])
ALIKE = np.where(y[PAIRS[:, 0]] == y[PAIRS[:, 1]], 1, -1)
TRIPLETS = np.array([(i, i + 1, (i + 9) % len(y)) for i in range(len(y) - 1) if y[i] == y[i + 1] != y[(i + 9) % len(y)]])
WORDS = np.array([f"{name[:4]}{round(10 * width)}" for name, width in zip(NAMES, X[:, 1], strict=True)], dtype=object)


def likeness(s: Any, t: Any) -> float:
    """A kernel on any objects."""
    return float(str(s) == str(t)) + 0.5


def likenesses(s: Any, t: Any) -> Any:
    """A matrix-valued one."""
    return likeness(s, t) * np.eye(2)


def doubled(rows: Any) -> Any:
    """What a FunctionTransformer may do."""
    return np.multiply(rows, 2)


FUNCTIONS = {"likeness": likeness, "likenesses": likenesses, "doubled": doubled}


def table() -> pd.DataFrame:
    frame = pd.DataFrame(X.copy(), columns=["length", "width", "petal length", "petal width"])
    frame["colour"] = np.where(X[:, 1] > 3, "blue", "white").astype(object)
    frame.loc[3, "length"] = np.nan
    return frame


def dated() -> pd.DataFrame:
    frame = table()
    frame["day"] = pd.date_range("2020-01-01", periods=len(frame), freq="17D")
    return frame


def classifier(data: Any) -> MetricClassifier:
    model = MetricClassifier(time_budget=0.01, random_state=0).fit(data, NAMES)
    model.committee_ = model.committee_[:3]
    model.candidates_ = model.candidates_[:4]
    return model


def committee(kind: Any, data: Any, targets: Any, **settings: Any) -> Any:
    """A few members of different kinds, small forests among them."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"KERNELS": ("rbf",), "SCALINGS": ("quantile",), "FOLD_TREES": 3, "ROUNDS": 1, "FEW_SAMPLES": 0}.items():
            patch.setattr(screening, name, value)
        patch.setattr(members, "TREES", 2)
        patch.setattr(kind, "_weights", lambda self, goal, predictions, rng: np.full(len(predictions), 1 / len(predictions)))
        model = kind(random_state=0, **settings).fit(data, targets)
    different = {
        (member.voters is None, "scale" in member.pipeline.named_steps, "input_metric" in member.candidate.description): member
        for member in model.committee_
    }
    assert {voters for voters, *_ in different} == {scaled for _, scaled, _ in different} == {True, False}
    model.committee_ = list(different.values())
    model.candidates_ = model.candidates_[:4]
    return model


def rare_classifier() -> MetricClassifier:
    """Names another class than the most probable."""
    model = committee(MetricClassifier, X, np.where(y == 1, "rare", "usual"), scoring="balanced_accuracy")
    model.class_offsets_ = np.array([0.5, 0.0])
    return model


def table_model() -> Any:
    frame = table().assign(kind=NAMES)
    return tables.fit_table(frame, check_columns(frame, "kind"), kind="learned").model


def real_table_model() -> Any:
    """Without categories, so that their encoder gets no columns."""
    frame = table().drop(columns="colour")
    return tables.fit_table(frame, check_columns(frame, "petal width"), kind="learned").model


def dated_table_model() -> Any:
    frame = dated().assign(kind=NAMES)
    return tables.fit_table(frame, check_columns(frame, "kind"), kind="learned").model


def searched(splitter: Any) -> MetricSearchCV:
    groups = np.arange(len(y)) % 5
    grid = {"learnedkernelmetric__bandwidth": [1.0, "median"]}
    search = MetricSearchCV(make_pipeline(StandardScaler(), LearnedKernelMetric()), grid, n_neighbors=[1, 3], cv=splitter)
    return search.fit(X, NAMES, groups=groups)


def learned(*steps: Any, data: Any = X, targets: Any = y) -> Any:
    return make_pipeline(*steps, LearnedKernelMetric(), KNeighborsClassifier(3)).fit(data, targets)


DRAWN = draw_pairs(NAMES, 40, random_state=0)
WORD_PAIRS = [tuple(WORDS[pair]) for pair in DRAWN.rows]


def verifier(metric: Any, **settings: Any) -> PairVerifier:
    return PairVerifier(metric, **settings).calibrate(X[DRAWN.rows], DRAWN.y)


def verifier_of_words() -> PairVerifier:
    metric = LearnedKernelMetric(kernel=kernels.Spectrum(2)).fit(WORDS, y)
    return PairVerifier(metric, calibration="logistic").calibrate(WORD_PAIRS, DRAWN.y)


GAUSSIAN_PROCESS = (
    gaussian.RBF(2.0) * gaussian.ConstantKernel(2.0)
    + gaussian.Matern()
    + gaussian.RationalQuadratic()
    + gaussian.ConstantKernel(1e-4) * gaussian.ExpSineSquared()  # which is no kernel of several features
    + gaussian.DotProduct() ** 2
    + gaussian.WhiteKernel(2.0)
    + gaussian.PairwiseKernel(metric="rbf")
)
SUMS = kernels.Separable("linear", np.eye(2)) + 0.5 * kernels.Diagonal(["rbf", "laplacian"])
BLOCKS = (X @ X.T)[:, :, None, None] * np.eye(2)
ENCODED = (
    make_column_transformer(
        (OneHotEncoder(), ["colour"]),
        (OrdinalEncoder(), ["colour"]),
        (make_pipeline(SimpleImputer(add_indicator=True), Normalizer()), ["length"]),
        remainder="passthrough",
    ),
    StandardScaler(),
)
# (how a model is fitted, data that it takes)
MODELS: dict[str, tuple[Any, Any]] = {
    "model 1": (lambda: FixedKernelMetric(kernel=SUMS).fit(X, y), X),
    "model 2": (lambda: LearnedKernelMetric(2, random_state=np.random.RandomState(3)).fit(X, NAMES), X),
    "landmarks": (lambda: LearnedKernelMetric(n_landmarks=8).fit(X, y), X),
    "real targets": (lambda: LearnedKernelMetric(regression_weight=0.5).fit(X, X[:, 2:]), X),
    "precomputed": (lambda: FixedKernelMetric(kernel="precomputed").fit(X @ X.T, y), X @ X.T),
    "blocks": (
        lambda: FixedKernelMetric(kernel=kernels.Precomputed(BLOCKS)).fit(np.arange(25)[:, None], y),
        np.arange(25)[:, None],
    ),
    "Gaussian process": (lambda: FixedKernelMetric(kernel=GAUSSIAN_PROCESS).fit(X, y), X),
    "sparse": (lambda: LearnedKernelMetric(kernel="cosine").fit(scipy.sparse.csr_array(X), y), scipy.sparse.csr_array(X)),
    "words": (lambda: LearnedKernelMetric(kernel=kernels.Spectrum(2)).fit(WORDS, y), WORDS),
    "words and votes": (
        lambda: make_pipeline(FixedKernelMetric(kernel=kernels.WeightedDegree(2, 1)), KNeighborsClassifier(3)).fit(WORDS, y),
        WORDS,
    ),
    "function": (lambda: FixedKernelMetric(kernel=likeness).fit(WORDS, y), WORDS),
    "matrix function": (lambda: FixedKernelMetric(kernel=kernels.Callable(likenesses, 2)).fit(WORDS, y), WORDS),
    "metric": (lambda: LearnedKernelMetric().fit(X, y).get_metric(), X),
    "linear metric": (lambda: LMNN().fit(X, y).get_metric(), X),
    "LMNN": (lambda: LMNN().fit(X, y), X),
    "ITML": (lambda: ITML(n_constraints=30, max_iter=5).fit(X, y), X),
    "kernel LMNN": (lambda: KernelLMNN().fit(X, y), X),
    "kernel ITML": (lambda: KernelITML(n_constraints=30).fit(X, y), X),
    "pairs": (lambda: PairsITML(max_iter=5, preprocessor=X).fit(PAIRS, ALIKE), X),
    "pairs of words": (lambda: PairsKernelITML(kernel=kernels.Spectrum(2)).fit(WORDS[PAIRS], ALIKE), WORDS),
    "numbers of words": (lambda: KernelITML(kernel=kernels.Spectrum(2), preprocessor=WORDS).fit_pairs(PAIRS, ALIKE), WORDS),
    "triplets": (lambda: TripletsLMNN(2).fit(X[TRIPLETS]), X),
    "triplets with a kernel": (lambda: TripletsKernelLMNN(5).fit(X[TRIPLETS]), X),
    "quadruplets": (lambda: QuadrupletsLMNN().fit(X[TRIPLETS[:, [0, 1, 0, 2]]]), X),
    "quadruplets with a kernel": (lambda: QuadrupletsKernelLMNN(5).fit(X[TRIPLETS[:, [0, 1, 0, 2]]]), X),
    "scalers": (lambda: learned(StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), FunctionTransformer()), X),
    "columns": (lambda: learned(PowerTransformer(), QuantileTransformer(n_quantiles=5), VarianceThreshold(), PCA(2)), X),
    "indicator": (lambda: make_pipeline(Normalizer(), MissingIndicator(features="all"), FunctionTransformer(doubled)).fit(X), X),
    "regression": (lambda: make_pipeline(StandardScaler(), LearnedKernelMetric(), KNeighborsRegressor()).fit(X, X[:, 3]), X),
    "neighbours": (lambda: KNeighborsClassifier(3, algorithm="ball_tree", weights="distance").fit(X, NAMES), X),
    "table": (lambda: learned(*ENCODED, data=table().fillna(1.0)), table().fillna(1.0)),
    "frames": (lambda: learned(StandardScaler(), PCA(2)).set_output(transform="pandas"), X),
    "search": (lambda: searched(StratifiedKFold(2)), X),
    "searches": (
        lambda: make_pipeline(
            StandardScaler(),
            MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [1.0]}, n_neighbors=1, cv=ShuffleSplit(2, random_state=0)),
        ).fit(X, y),
        X,
    ),
    "search of real targets": (
        lambda: MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [1.0]}, n_neighbors=1).fit(X, X[:, 3]),
        X,
    ),
    "splitters": (
        lambda: searched(StratifiedGroupKFold(2)).set_params(
            param_grid=[
                *({"cv": [one]} for one in (GroupKFold(2), KFold(2), RepeatedKFold(n_splits=2))),
                *({"cv": [one]} for one in (RepeatedStratifiedKFold(n_splits=2), StratifiedShuffleSplit(2))),
            ]
        ),
        X,
    ),
    "input metric": (lambda: LearnedKernelMetric(kernel="exponential", input_metric="full").fit(X, y), X),
    "forest": (
        lambda: LearnedKernelMetric(kernel=kernels.Forest(n_estimators=3) + kernels.Scalar("rbf") * kernels.Scalar("linear")).fit(
            X, y
        ),
        X,
    ),
    "forest of one's own": (
        lambda: LearnedKernelMetric(kernel=kernels.Forest(RandomForestClassifier(3, random_state=0).fit(X, y))).fit(X, y),
        X,
    ),
    "kernels of columns": (
        lambda: LearnedKernelMetric(kernel=kernels.Columns({("length", "width"): "rbf", "colour": kernels.Spectrum(2)})).fit(
            table().fillna(1.0), y
        ),
        table().fillna(1.0),
    ),
    "dates": (lambda: classifier(dated()), dated()),
    "classifier": (lambda: classifier(X), X),
    "classifier of a table": (lambda: classifier(table()), table()),
    "classifier with forests": (rare_classifier, X),
    "regressor": (lambda: committee(MetricRegressor, table(), X[:, 3]), table()),
    "regressor of several targets": (lambda: committee(MetricRegressor, X, X[:, 2:]), X),
    "map": (lambda: MetricMap(LearnedKernelMetric(), layout="t-SNE", random_state=0).fit(X, NAMES), X),
    "map of two classes": (lambda: MetricMap(LearnedKernelMetric(), random_state=0).fit(X, y > 0), X),
    "feature weights": (lambda: learned(FeatureWeights(0.5)), X),  # which classifiers of version 0.1 have
    "table model": (table_model, table()),
    "real table model": (real_table_model, table().drop(columns="colour")),
    "dated table model": (dated_table_model, dated()),
    "verifier": (lambda: verifier(make_pipeline(StandardScaler(), LearnedKernelMetric()).fit(X, y)), X[DRAWN.rows]),
    "verifier by coordinates": (lambda: verifier(None, calibration="logistic", prior=0.1), X[DRAWN.rows]),
    "verifier of words": (verifier_of_words, WORD_PAIRS),
}
