"""Does every random choice come from random_state?"""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricSearchCV
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.choosing import classifier, committee
from outmetric.datasets import make_waveform
from outmetric.kernels import distances

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
    "LMNN": LMNN(max_iter=20, tol=1.0),
    "KernelLMNN": KernelLMNN(max_iter=20, tol=1.0, random_state=0),
    "ITML": ITML(random_state=0),
    "KernelITML": KernelITML(0.9, random_state=0),
}


@pytest.fixture
def scarce(monkeypatch):
    """As if there were many rows: medians and quantiles of samples, landmarks for the classifier."""
    monkeypatch.setattr(distances, "MEDIAN_POINTS", 30)
    monkeypatch.setattr(committee, "EXACT_MEMBERS", 60)
    monkeypatch.setattr(committee, "LANDMARKS", 25)
    plain = classifier.QuantileTransformer

    def few(**settings):
        return plain(subsample=40, **settings)

    monkeypatch.setattr(classifier, "QuantileTransformer", few)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_global_generator_has_no_say(name, scarce):
    model = ESTIMATORS[name]
    found = []
    for seed in (1, 2):
        np.random.seed(seed)  # noqa: NPY002 (the very thing that must not matter)
        found.append(np.asarray(model.fit(X, y).transform(X)))
    np.testing.assert_array_equal(*found)


def test_quantiles_and_landmarks_of_the_classifier_follow_its_seed(scarce, monkeypatch):
    monkeypatch.setattr(classifier, "KERNELS", ("rbf",))
    monkeypatch.setattr(classifier, "POWERS", (0.0,))
    X, y = make_waveform(150, random_state=0)
    shares = []
    for seed, state in ((1, 0), (2, 0), (3, 1)):
        np.random.seed(seed)  # noqa: NPY002 (the very thing that must not matter)
        shares.append(MetricClassifier(random_state=state).fit(X, y).predict_proba(X))
    np.testing.assert_array_equal(shares[0], shares[1])
    assert np.abs(shares[0] - shares[2]).max() > 0
