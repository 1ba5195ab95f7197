"""Targets that tell nothing, since the same points have opposite ones: is the zero map every solver's answer, and is it told?"""

import numpy as np
import pytest
from problems import points

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV, Status

X = np.repeat(points(20), 2, axis=0)
LABELS = np.tile(["a", "b"], 20)
REAL = np.tile([1.5, -1.5], 20)[:, None]

SETTINGS = {
    "automatic": {},
    "spectral": {"solver": "spectral"},
    "dense": {"solver": "dense"},
    "conjugate gradients": {"solver": "cg"},
    "all points as landmarks": {"n_landmarks": 40},
    "few landmarks": {"n_landmarks": 10},
    "a kernel of low rank": {"kernel": "linear"},
    "another kernel": {"kernel": "laplacian", "bandwidth": 0.3},
    "heavy weights": {"regression_weight": 1e6, "collocation_weight": 1e3},
    "light weights": {"regression_weight": 1e-6},
}


@pytest.mark.parametrize("y", [LABELS, REAL], ids=["labels", "real targets"])
@pytest.mark.parametrize("case", SETTINGS)
@pytest.mark.parametrize("model", [FixedKernelMetric, LearnedKernelMetric])
def test_the_zero_map_is_the_optimum(model, case, y):
    with pytest.warns(UserWarning, match="the targets tell nothing"):
        fitted = model(**SETTINGS[case]).fit(X, y)
    assert fitted.status_ is Status.CONVERGED
    assert fitted.history_[-1].optimality < 1e-14
    np.testing.assert_array_equal(fitted.transform(X), 0)
    assert fitted.objective_terms_.roughness == fitted.objective_terms_.collocation == 0


@pytest.mark.parametrize("penalty", ["auto", 1.0, 1e-12])
def test_nothing_is_learned_beside_it(penalty):
    with pytest.warns(UserWarning, match="the targets tell nothing"):
        fitted = LearnedKernelMetric(output_penalty=penalty).fit(X, LABELS)
    np.testing.assert_array_equal(fitted.output_matrix_, 0)
    # The objective of the zero map is lambda |Y|^2 / 2, with targets of norm 1.
    assert fitted.objective_ == pytest.approx(fitted.regression_weight * 40 / 2)


def test_many_samples_by_conjugate_gradients():
    many, labels = np.repeat(points(550), 2, axis=0), np.tile([0, 1], 550)
    with pytest.warns(UserWarning, match="the targets tell nothing"):
        fitted = LearnedKernelMetric(solver="cg").fit(many, labels)
    np.testing.assert_array_equal(fitted.transform(many), 0)


@pytest.mark.parametrize("landmarks", [{}, {"n_landmarks": 20}])
def test_a_search_goes_on(landmarks):
    grid = {"regression_weight": [1.0, 10.0], "output_penalty": ["auto", 1.0]}
    pairs = [(np.arange(40) % 4 < 2, np.arange(40) % 4 >= 2)]  # both points of a pair in one part
    cv = [(np.flatnonzero(train), np.flatnonzero(test)) for train, test in pairs]
    with pytest.warns(UserWarning, match="the targets tell nothing"):
        search = MetricSearchCV(LearnedKernelMetric(**landmarks), grid, n_neighbors=[4], scoring="accuracy", cv=cv).fit(X, LABELS)
    np.testing.assert_array_equal(search.cv_results_["mean_test_score"], 0.5)


def test_a_little_information_is_learned():
    labels = LABELS.copy()
    labels[0] = "b"  # one pair of points agrees
    fitted = LearnedKernelMetric().fit(X, labels)
    assert np.abs(fitted.transform(X)).max() > 1e-3
