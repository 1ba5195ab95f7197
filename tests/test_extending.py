"""Do the programs that the page on extending shows work as it says?"""

import runpy
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline

import outmetric
from outmetric import LearnedKernelMetric, MetricSearchCV, tables

EXAMPLES = Path(__file__).parents[1] / "examples"
X, y = load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def extended():
    """What the three programs define."""
    return {name: runpy.run_path(str(EXAMPLES / f"extending_{name}.py")) for name in ("kernel", "estimator", "table_format")}


def test_the_kernel_has_its_values_and_works_by_name(extended, tmp_path):
    kernel = extended["kernel"]["Cauchy"](2.0)
    expected = [[1 / (1 + sum((a - b) ** 2) / 4) for b in X[::30]] for a in X[::40]]
    np.testing.assert_allclose(kernel.values(X[::40], X[::30]), expected)
    metric = LearnedKernelMetric(kernel="mylab-cauchy")
    search = MetricSearchCV(metric, {"kernel_params": [{"scale": 0.5}, {"scale": 2.0}]}, cv=3).fit(X, y)
    assert search.best_score_ > -0.3
    outmetric.save(search, tmp_path / "iris.model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "iris.model").predict(X), search.predict(X))


def test_the_estimator_clips_and_is_stored(extended, tmp_path):
    clipper = extended["estimator"]["Clipper"](percent=10.0).fit(X)
    assert clipper.transform(X).max(axis=0).tolist() == np.percentile(X, 90, axis=0).tolist()
    pipeline = make_pipeline(clipper, LearnedKernelMetric()).fit(X, y)
    outmetric.save(pipeline, tmp_path / "clipped.model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "clipped.model").transform(X), pipeline.transform(X))


def test_its_check_refuses_what_does_not_fit_together(extended):
    clipper = extended["estimator"]["Clipper"]().fit(X)
    clipper.low_ = clipper.low_[:2]
    with pytest.raises(ValueError, match="a lower and an upper bound for each feature"):
        extended["estimator"]["check"](clipper, 1000)


def test_the_table_format_is_read(extended, tmp_path):
    path = tmp_path / "fruit.jsonl"
    path.write_text('{"name": "banana", "mass": 120.5}\n{"name": "cherry", "mass": 8}\n')
    table = tables.read_table(path)
    assert table.to_dict("list") == {"name": ["banana", "cherry"], "mass": [120.5, 8.0]}
    path.write_text("banana, 120\n")
    with pytest.raises(tables.TableError, match=r"fruit\.jsonl.* is no JSON"):
        tables.read_table(path)
