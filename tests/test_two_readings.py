"""Are targets that can be read in two ways told?"""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier
from outmetric.baselines import LMNN

X, y = load_iris(return_X_y=True)
UNLABELLED = np.where(np.arange(len(y)) % 5 == 0, -1, y)


@pytest.mark.parametrize("model", [LearnedKernelMetric(), FixedKernelMetric(), LMNN(max_iter=5, tol=10.0)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_minus_one_beside_several_labels(model):
    with pytest.warns(UserWarning, match=r"-1 in 30 places beside 3 labels >= 0.*one more class.*semi-supervised"):
        model.fit(X, UNLABELLED)
    assert -1 in model.classes_


def test_the_classifier_tells_it_too():
    with pytest.warns(UserWarning, match="one more class"):
        MetricClassifier(time_budget=0.1, random_state=0).fit(X, UNLABELLED)


@pytest.mark.parametrize("labels", [np.where(y > 0, 1, -1), np.where(y > 0, 0, -1), y.astype(str), y - 2])
def test_other_labels_have_one_reading(labels):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LearnedKernelMetric().fit(X, labels)


@pytest.mark.parametrize("kind", [int, bool])
def test_columns_of_zeros_and_ones(kind):
    columns = np.stack([y == 0, y > 0], axis=1).astype(kind)
    with pytest.warns(UserWarning, match="2 columns of 0 and 1, which are taken for as many real targets"):
        model = LearnedKernelMetric(collocation_weight=0).fit(X, columns)
    assert model.classes_ is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LearnedKernelMetric(collocation_weight=0).fit(X, columns.astype(float))
