"""Do pickles and imports of version 0.1 go on working?"""

import importlib
import pickle
from pathlib import Path

import numpy as np
import pytest
import sklearn

import outmetric

FOUND = pickle.loads((Path(__file__).parent / "reference" / "pickles-0.1.pickle").read_bytes())
SAME_SCIKIT_LEARN = FOUND.pop("scikit-learn") == sklearn.__version__
# scikit-learn reads pickles of its own version only.
FOREIGN = {"search", "classifier"}


@pytest.mark.parametrize("name", [name for name in FOUND if SAME_SCIKIT_LEARN or name not in FOREIGN])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
def test_pickles_load_and_map_as_before(name):
    content, data, coordinates = FOUND[name]
    model = pickle.loads(content)
    assert type(model).__module__.startswith("outmetric.")
    mapped = model.transform(data)
    np.testing.assert_allclose(mapped, coordinates, rtol=1e-9)  # another BLAS sums in another order
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(data), mapped)


@pytest.mark.skipif(not SAME_SCIKIT_LEARN, reason="scikit-learn reads pickles of its own version only")
def test_a_committee_votes_as_before(tmp_path):
    """Bit for bit: the mean of smoothed votes, of members that all weigh the same."""
    model = pickle.loads(FOUND["classifier"][0])
    new = np.random.default_rng(0).normal(loc=5, scale=2, size=(40, 4))
    shares = []
    for member in model.committee_:
        nearest = member.voters.kneighbors(member.pipeline.transform(new), return_distance=False)
        votes = np.array([np.bincount(row, minlength=3) for row in member.voters._y[nearest]])
        shares.append((votes + 0.5) / (member.candidate.n_neighbors + 1.5))
    expected = np.mean(shares, axis=0)
    assert len(shares) > 1
    assert len(np.unique(expected)) > 10
    np.testing.assert_array_equal(model.predict_proba(new), expected)
    np.testing.assert_array_equal(model.predict(new), model.classes_[expected.argmax(axis=1)])
    assert f"{len(shares)} maps vote" in model.summary()
    outmetric.save(model, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").predict_proba(new), expected)


@pytest.mark.parametrize(
    ("module", "name", "now"),
    [
        ("models", "LearnedKernelMetric", outmetric.LearnedKernelMetric),
        ("metric", "OutputMetric", outmetric.OutputMetric),
        ("scalar", "Scalar", outmetric.kernels.Scalar),
        ("classifier", "FeatureWeights", outmetric.columns.FeatureWeights),
        ("classifier", "MetricClassifier", outmetric.MetricClassifier),
        ("classifier", "Member", outmetric.automatic.Member),
        ("comparison", "compare", outmetric.automatic.compare),
        ("webmap", "interactive_map", outmetric.maps.interactive_map),
        ("tables.columns", "Columns", outmetric.tables.Columns),
        ("solvers", "Status", outmetric.Status),
    ],
)
def test_names_are_found_where_they_were(module, name, now):
    assert getattr(importlib.import_module(f"outmetric.{module}"), name) is now


def test_what_is_gone_is_told():
    with pytest.raises(AttributeError, match=r"outmetric\.fitting\._Stream was part of version 0\.1 and is gone"):
        importlib.import_module("outmetric.fitting")._Stream  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("outmetric.nothing")
