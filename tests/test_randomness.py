"""Does every random choice come from random_state?"""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricRegressor, MetricSearchCV
from outmetric.automatic import base, inputs, landmarks, members, screening
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.datasets import make_waveform
from outmetric.kernels import gradients

X, y = make_classification(90, 6, n_informative=4, n_classes=3, random_state=0)
GRID = {"bandwidth": ["0.5*median", "median"], "regression_weight": [0.3, 3.0]}
ESTIMATORS = {
    "fixed": FixedKernelMetric(random_state=0),
    "learned": LearnedKernelMetric(random_state=0),
    "landmarks": LearnedKernelMetric(n_landmarks=20, random_state=0),
    "leverage": LearnedKernelMetric(n_landmarks=20, landmarks="leverage", random_state=0),
    "search": MetricSearchCV(LearnedKernelMetric(random_state=0), GRID, cv=3, n_iter=2, random_state=0),
    "search by landmarks": MetricSearchCV(LearnedKernelMetric(n_landmarks=20, random_state=0), GRID, cv=3),
    "classifier": MetricClassifier(time_budget=1e-9, random_state=0),  # the smallest, on machines of any speed
    "regressor": MetricRegressor(time_budget=1e-9, random_state=0),
    "LMNN": LMNN(max_iter=20, tol=1.0),
    "KernelLMNN": KernelLMNN(max_iter=20, tol=1.0, random_state=0),
    "ITML": ITML(random_state=0),
    "KernelITML": KernelITML(0.9, random_state=0),
}


@pytest.fixture
def scarce(monkeypatch):
    """As if there were many rows: medians and quantiles of samples, settings that are compared on some rows, landmarks."""
    monkeypatch.setattr(gradients, "MEDIAN_POINTS", 30)
    monkeypatch.setattr(base, "SEARCHED_ROWS", 80)
    monkeypatch.setattr(base, "SEARCHED_LANDMARKS", 30)
    monkeypatch.setattr(base, "NOVELTY_ROWS", 50)
    monkeypatch.setattr(landmarks, "EXACT_SAMPLES", 60)
    monkeypatch.setattr(landmarks, "LANDMARKS", 10)
    monkeypatch.setattr(landmarks, "SHARE", 2)
    monkeypatch.setattr(landmarks, "VALIDATION", 40)
    monkeypatch.setattr(inputs, "QUANTILES", 20)
    plain = inputs.QuantileTransformer

    def few(**settings):
        return plain(subsample=40, **settings)

    monkeypatch.setattr(inputs, "QuantileTransformer", few)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_global_generator_has_no_say(name, scarce):
    model = ESTIMATORS[name]
    found = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002 (the very thing that must not matter)
        found.append(np.asarray(model.fit(X, y).transform(X)))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", [MetricClassifier, MetricRegressor])
def test_all_that_an_automatic_model_draws_follows_its_seed(kind, scarce, monkeypatch):
    """Rows, folds, landmarks, quantiles, forests, and resampled rows that the committee is selected by."""
    for name, value in {"KERNELS": ("rbf",), "FOLD_TREES": 5, "WEIGHED": 1, "ROUNDS": 1, "TRACKS": 1, "FEW_SAMPLES": 0}.items():
        monkeypatch.setattr(screening, name, value)
    monkeypatch.setattr(members, "TREES", 5)
    counts = []
    validate = members.MemberFits.validation_loss

    def counted(fits, chosen, n_landmarks, train, test):
        counts.append(n_landmarks)
        return validate(fits, chosen, n_landmarks, train, test)

    monkeypatch.setattr(members.MemberFits, "validation_loss", counted)
    X, y = make_waveform(150, random_state=0)
    told = []
    for seed, state in ((1, 0), (2, 0), (3, 1)):
        np.random.seed(seed)  # noqa: NPY002 (the very thing that must not matter)
        model = kind(random_state=state).fit(X, y)
        told.append((model.mean_prediction(X), model.novelty(X), [member.weight for member in model.committee_]))
    for first, second in zip(*told[:2], strict=True):
        np.testing.assert_array_equal(first, second)
    assert np.abs(told[0][0] - told[2][0]).max() > 0
    assert {10, 20} <= set(counts)  # numbers of landmarks were compared
    assert "random forest" in {candidate.description["kernel"] for candidate in model.candidates_}
