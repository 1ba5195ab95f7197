"""Precomputed kernel values in sparse matrices: the same models as from dense ones, and errors where these have no room."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV
from outmetric.baselines import KernelITML, KernelLMNN
from outmetric.datasets import make_waveform

X, Y = make_waveform(160, random_state=0)
SQUARES = ((X[:, None] - X[None]) ** 2).sum(axis=2)
# A Gaussian that is cut off, made definite by what is added to its diagonal.
SUPPORT = np.exp(-SQUARES / 40) * (SQUARES < 64)
GRAM = SUPPORT + np.eye(len(X)) * 2 * max(0.0, -np.linalg.eigvalsh(SUPPORT)[0])
TRAIN, NEW, LABELS = GRAM[:120, :120], GRAM[120:, :120], Y[:120]

OURS = {"kernel": "precomputed", "random_state": 0}
MODELS = {
    "model 2": LearnedKernelMetric(**OURS),
    "model 1": FixedKernelMetric(**OURS),
    "model 1, by conjugate gradients": FixedKernelMetric(solver="cg", **OURS),
    "model 2, Nystroem": LearnedKernelMetric(solver="nystroem", n_landmarks=60, **OURS),
    "model 2, landmarks": LearnedKernelMetric(n_landmarks=40, **OURS),
    "model 1, landmarks": FixedKernelMetric(n_landmarks=40, landmarks="kmeans++", **OURS),
    "model 2, leverage": LearnedKernelMetric(n_landmarks=40, landmarks="leverage", **OURS),
    "search": MetricSearchCV(LearnedKernelMetric(**OURS), {"regression_weight": [0.3, 3.0]}),
    "search of model 1": MetricSearchCV(FixedKernelMetric(**OURS), {"metric_ridge": [0.3, 3.0]}),
    "search with landmarks": MetricSearchCV(LearnedKernelMetric(n_landmarks=40, **OURS), {"regression_weight": [0.3, 3.0]}),
    "search of ITML": MetricSearchCV(KernelITML(n_components=10, **OURS), {"gamma": [0.5, 1.0]}),
    "KernelLMNN": KernelLMNN(n_components=10, **OURS),
    "KernelITML": KernelITML(n_components=10, **OURS),
}


@pytest.mark.parametrize("form", [scipy.sparse.csr_matrix, scipy.sparse.csr_array, scipy.sparse.coo_array, scipy.sparse.csc_array])
@pytest.mark.parametrize("name", MODELS)
def test_sparse_and_dense_values_give_the_same_model(name, form):
    assert np.mean(TRAIN == 0) > 0.5
    dense = clone(MODELS[name]).fit(TRAIN, LABELS)
    sparse = clone(MODELS[name]).fit(form(TRAIN), LABELS)
    expected = dense.transform(NEW)
    for found in (sparse.transform(form(NEW)), sparse.transform(NEW), dense.transform(form(NEW))):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_votes_and_scores_of_a_search():
    searches = [clone(MODELS["search"]).fit(values, LABELS) for values in (TRAIN, scipy.sparse.csr_array(TRAIN))]
    dense, sparse = (search.cv_results_["mean_test_score"] for search in searches)
    np.testing.assert_allclose(sparse, dense, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(searches[1].predict(scipy.sparse.csr_array(NEW)), searches[0].predict(NEW))


def test_other_searches_cut_rows_and_columns():
    pipeline = make_pipeline(LearnedKernelMetric(**OURS), KNeighborsClassifier())
    grid = {"learnedkernelmetric__regression_weight": [0.3, 3.0]}
    dense, sparse = (GridSearchCV(pipeline, grid).fit(values, LABELS) for values in (TRAIN, scipy.sparse.csr_array(TRAIN)))
    np.testing.assert_array_equal(sparse.cv_results_["mean_test_score"], dense.cv_results_["mean_test_score"])


def test_single_precision_stays():
    single = scipy.sparse.csr_array(TRAIN.astype(np.float32))
    found = LearnedKernelMetric(**OURS).fit(single, LABELS).transform(scipy.sparse.csr_array(NEW))
    expected = LearnedKernelMetric(**OURS).fit(single.toarray(), LABELS).transform(NEW)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_what_comes_is_left_alone():
    values = scipy.sparse.csr_array(TRAIN)
    before = values.copy()
    model = LearnedKernelMetric(**OURS).fit(values, LABELS)
    assert (values != before).nnz == 0
    values.data[:] = 0
    np.testing.assert_array_equal(model.transform(NEW), LearnedKernelMetric(**OURS).fit(TRAIN, LABELS).transform(NEW))


def test_models_of_sparse_values_are_stored(tmp_path):
    model = LearnedKernelMetric(**OURS).fit(scipy.sparse.csr_array(TRAIN), LABELS)
    outmetric.save(model, tmp_path / "m.outmetric")
    again = outmetric.load(tmp_path / "m.outmetric")
    np.testing.assert_array_equal(again.transform(scipy.sparse.csr_array(NEW)), model.transform(NEW))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (TRAIN[:, :60], "square kernel matrix"),
        (TRAIN + np.triu(TRAIN, 1), "not symmetric"),
        (np.where(TRAIN > 0.99, np.nan, TRAIN), r"NaN.*X\["),
        (TRAIN - 2 * np.eye(120), "not positive semi-definite"),
    ],
)
def test_matrices_that_are_no_kernel(values, message):
    with pytest.raises(ValueError, match=f"(?s){message}"):
        LearnedKernelMetric(**OURS).fit(scipy.sparse.csr_array(values), LABELS)


def banded(n):
    """Positive definite, as it is dominated by its diagonal; dense it would have n^2 entries."""
    return scipy.sparse.diags_array([0.4, 1.0, 0.4], offsets=[-1, 0, 1], shape=(n, n), format="csr")


HUGE = 300_000  # dense: 720 GB


@pytest.mark.parametrize(
    "model",
    [
        LearnedKernelMetric(solver="dense", **OURS),
        FixedKernelMetric(solver="dense", **OURS),
        KernelLMNN(kernel="precomputed"),
        KernelITML(kernel="precomputed"),
        MetricSearchCV(LearnedKernelMetric(solver="dense", **OURS), {"regression_weight": [0.3, 3.0]}),
    ],
)
def test_a_matrix_that_has_no_room_when_it_is_dense(model):
    with pytest.raises(MemoryError, match=r"GB, of which .* GB is available\. Instead: "):
        model.fit(banded(HUGE), np.arange(HUGE) % 2)


def test_landmarks_need_no_dense_matrix():
    n = 60_000  # dense: 29 GB
    classes = np.arange(n) // 50 % 2
    model = LearnedKernelMetric(n_landmarks=100, **OURS).fit(banded(n), classes)
    assert model.transform(banded(n)[:1000]).shape == (1000, 1)
    few = LearnedKernelMetric(**OURS).fit(TRAIN, LABELS)
    with pytest.raises(MemoryError, match="a sparse matrix of 2000000000 x 120 kernel values, made dense"):
        few.get_metric().kernel.scalars[0].values(scipy.sparse.csr_array((2_000_000_000, 120)), np.empty((120, 0)))
