"""Do estimators tell the truth about themselves, as text and in notebooks?"""

import copy
import html
import pickle
import re
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricRegressor, MetricSearchCV, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN

EVIL = "<img src=x onerror=a()>"  # short enough to be told in full
ESTIMATORS = [
    FixedKernelMetric(),
    LearnedKernelMetric(),
    LMNN(),
    KernelLMNN(),
    ITML(random_state=0),
    KernelITML(random_state=0),
    MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [2.0, 4.0], "regression_weight": [0.3, 3.0]}, n_neighbors=[8, 9], cv=3),
    MetricClassifier(random_state=0),
]


def name_of(estimator):
    return type(estimator).__name__


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True, as_frame=True)
    X = StandardScaler().set_output(transform="pandas").fit_transform(X)
    X = X.rename(columns={"alcohol": EVIL})
    return X.iloc[::2], np.array([EVIL, "b", "c"])[y][::2]


@pytest.fixture(scope="module")
def fitted(wine, one_preparation):
    return {name_of(estimator): clone(estimator).fit(*wine) for estimator in ESTIMATORS}


def facts(model):
    """The lines of a summary by their names; text that goes on is indented as far as the first line's."""
    title, *lines = model.summary().split("\n")
    assert title == name_of(model)
    begin = re.match(r"  [\w-]+( [\w-]+)*  +", lines[0]).end()
    found, name = {}, ""
    for line in lines:
        name = line[:begin].strip() or name
        found[name] = f"{found.get(name, '')} {line[begin:]}".strip()
    return found


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=name_of)
class TestEveryEstimator:
    def test_says_what_it_learned_from(self, estimator, fitted):
        told = facts(fitted[name_of(estimator)])["learned from"]
        assert told == f"89 samples, 13 features, 3 classes ({EVIL}, b, c)"

    def test_says_nothing_before_the_fit(self, estimator):
        with pytest.raises(NotFittedError):
            estimator.summary()
        assert "outmetric-summary" not in estimator._repr_html_()
        assert name_of(estimator) in estimator._repr_html_()

    def test_a_notebook_shows_the_diagram_and_the_facts(self, estimator, fitted):
        model = fitted[name_of(estimator)]
        shown = model._repr_mimebundle_()
        assert shown["text/plain"] == repr(model)
        # Counters and object addresses differ between any two diagrams.
        assert _without_numbers(shown["text/html"]) == _without_numbers(model._repr_html_())
        assert _without_numbers(shown["text/html"]).startswith(_without_numbers(estimator_html_repr(model)))
        table = re.search(r"<tbody>(?:<tr><th scope=.*?)</tbody>", shown["text/html"]).group()
        rows = re.findall(r'<tr><th scope="row">(.*?)</th><td>(.*?)(?:<svg.*?</svg>)?</td></tr>', table)
        assert {html.unescape(name): html.unescape(text) for name, text in rows} == facts(model)

    def test_names_cannot_inject_markup(self, estimator, fitted):
        assert EVIL not in fitted[name_of(estimator)]._repr_html_()

    def test_text_display_is_respected(self, estimator, fitted):
        with sklearn.config_context(display="text"):
            assert set(fitted[name_of(estimator)]._repr_mimebundle_()) == {"text/plain"}
            assert not hasattr(fitted[name_of(estimator)], "_repr_html_")

    def test_copies(self, estimator, fitted):
        model = fitted[name_of(estimator)]
        assert pickle.loads(pickle.dumps(model)).summary() == model.summary()
        with pytest.raises(NotFittedError):
            clone(model).summary()

    def test_inside_a_pipeline(self, estimator, fitted):
        pipeline = make_pipeline(StandardScaler(), fitted[name_of(estimator)])
        drawn = pipeline._repr_html_()
        assert name_of(estimator) in drawn
        assert "outmetric-summary" not in drawn


def _without_numbers(page):
    return re.sub(r"id-\d+|0x[0-9a-f]+", "", page)


@pytest.mark.parametrize("name", [name_of(estimator) for estimator in ESTIMATORS[:6]])
def test_metrics_say_how_the_fit_went(name, fitted, wine):
    model = fitted[name]
    told = facts(model)
    assert told["components"] == str(model.transform(wine[0]).shape[1])
    assert told["iterations"] == f"{model.n_iter_} in {model.history_[-1].seconds:.2g} s"
    assert told["status"] == f"converged: {model.status_.value}"


@pytest.mark.parametrize("name", ["LearnedKernelMetric", "FixedKernelMetric", "KernelLMNN", "KernelITML"])
def test_kernels_are_told_with_the_bandwidth_as_used(name, fitted):
    assert facts(fitted[name])["kernel"] == f"rbf (bandwidth {fitted[name].bandwidth_:.4g})"


def test_the_models_tell_weights_and_terms_as_used(fitted):
    one, two = fitted["FixedKernelMetric"], fitted["LearnedKernelMetric"]
    assert facts(one)["weights"] == (
        f"regression 3, collocation {one.collocation_weight_:.4g} (auto), metric penalty {one.metric_penalty_:.4g} (auto), "
        f"metric ridge {one.metric_ridge_:.4g} (absolute)"
    )
    assert facts(two)["weights"] == (
        f"regression 3, collocation {two.collocation_weight_:.4g} (auto), output penalty {two.output_penalty_:.4g} (auto)"
    )
    for model in (one, two):
        terms = model.objective_terms_
        assert facts(model)["objective"] == (
            f"{model.objective_:.4g} = roughness {terms.roughness:.4g} + collocation {terms.collocation:.4g} "
            f"+ regression {terms.regression:.4g} + penalty {terms.penalty:.4g}"
        )
        assert facts(model)["solver"] == f"{model.solver_} ({model.solver_reason_})"
    assert facts(two)["certificate"].startswith(f"duality gap {two.dual_gap_:.1e}:")
    assert facts(one)["certificate"].startswith(f"gradient in the metric {one.history_[-1].optimality:.1e},")


def test_given_weights_are_not_called_automatic(wine):
    model = LearnedKernelMetric(collocation_weight=0.5, output_penalty=2.0, regression_weight=7.0).fit(*wine)
    assert facts(model)["weights"] == "regression 7, collocation 0.5, output penalty 2"


def test_the_baselines_tell_their_aim_and_certificate(fitted):
    large_margin, pairs = fitted["LMNN"], fitted["ITML"]
    assert facts(large_margin)["aim"] == "3 target neighbours, push weight 0.5"
    assert facts(large_margin)["objective"] == f"{large_margin.objective_:.4g}"
    assert facts(large_margin)["certificate"].startswith(f"duality gap {large_margin.dual_gap_:.1e}:")
    similar, low, high = int(np.sum(pairs.pair_signs_ > 0)), *pairs.bounds_
    assert facts(pairs)["aim"] == (
        f"{similar} similar pairs within a squared distance of {low:.4g}, {len(pairs.pair_signs_) - similar} dissimilar ones "
        f"beyond {high:.4g}; gamma 1"
    )
    assert facts(pairs)["divergence"] == f"{pairs.divergence_:.4g} from the prior metric"
    assert facts(pairs)["certificate"].endswith(f"{pairs.history_[-1].correction:.1e}, relatively")
    given = ITML().fit_pairs([[0, 1], [0, 2]], [1, -1], X=np.array([[0.0, 1], [2, 3], [5, 5]]))
    assert facts(given)["learned from"] == "3 samples, 2 features"


def test_advice_is_handed_on(wine):
    with pytest.warns(ConvergenceWarning):
        model = FixedKernelMetric(max_iter=2).fit(*wine)
    assert facts(model)["status"] == f"iteration limit: {model.status_.value}"


def test_kinds_of_data_and_kernels(wine):
    X, y = wine[0].to_numpy(), wine[1]
    real = LearnedKernelMetric().fit(X[:, 1:], X[:, :1])
    assert facts(real)["learned from"] == "89 samples, 12 features, real targets"
    words = LearnedKernelMetric(kernel=_shared_letters).fit(["ab", "abc", "xy", "xyz"], [0, 0, 1, 1])
    assert facts(words)["learned from"] == "4 samples, 2 classes (0, 1)"
    assert facts(words)["kernel"] == "_shared_letters"
    precomputed = LearnedKernelMetric(kernel="precomputed").fit(X @ X.T, y)
    assert facts(precomputed)["learned from"].startswith("89 samples, 3 classes")
    assert facts(precomputed)["kernel"] == "precomputed"
    both = kernels.Diagonal([kernels.Scalar("rbf", 2.0), kernels.Scalar("poly", params={"degree": 2})])
    assert (
        facts(FixedKernelMetric(kernel=both).fit(X, y))["kernel"] == "Diagonal with 2 outputs: rbf (bandwidth 2), poly (degree 2)"
    )
    function = kernels.Callable(lambda x, z: np.eye(2) * (x @ z), 2)
    assert facts(FixedKernelMetric(kernel=function).fit(X[:20], np.arange(20) % 3))["kernel"] == "Callable with 2 outputs"


def _shared_letters(s, t):
    return float(len(set(s) & set(t)))


def test_samples_are_counted_however_they_come(wine):
    X, y = wine[0].to_numpy(), wine[1]
    landmarks = LearnedKernelMetric(n_landmarks=20, random_state=0)
    assert clone(landmarks).fit(X, y).n_samples_fit_ == 89
    assert clone(landmarks).fit(iter([(X[:40], y[:40]), (X[40:], y[40:])])).n_samples_fit_ == 89
    parts = clone(landmarks).partial_fit(X[:40], y[:40])
    assert parts.partial_fit(X[40:], y[40:]).n_samples_fit_ == 89
    assert "20 landmarks" in facts(parts)["solver"]


def test_many_classes_are_not_all_listed():
    X = np.random.default_rng(0).normal(size=(40, 2))
    model = LearnedKernelMetric().fit(X, np.arange(40) % 8)
    named = LearnedKernelMetric().fit(X, np.where(np.arange(40) % 2, "b", "a class whose name is long beyond all measure"))
    assert facts(named)["learned from"].endswith("(a class whose n… measure, b)")
    assert facts(model)["learned from"] == "40 samples, 2 features, 8 classes (0, 1, 2, 3, 4, …)"


def test_a_search_tells_the_best_and_the_next_best(fitted):
    search = fitted["MetricSearchCV"]
    results = search.cv_results_
    told = facts(search)
    shared = f"{search.n_decompositions_} shared eigendecompositions"
    assert told["searched"] == f"8 candidates (2 numbers of neighbours) on 3 folds; {shared}"
    assert told["score"].startswith("neg_log_loss")
    best = {name: value for name, value in search.best_params_.items() if name != "n_neighbors"}
    assert told["best"] == (
        f"{search.best_score_:.4g} ± {results['std_test_score'][search.best_index_]:.4g}: bandwidth {best['bandwidth']:.4g}, "
        f"regression_weight {best['regression_weight']:.4g}, n_neighbors {search.n_neighbors_}"
    )
    others = [
        (score, params)
        for score, params in zip(results["mean_test_score"], results["params"], strict=True)
        if not best.items() <= params.items()
    ]
    score, params = max(others, key=lambda other: other[0])
    assert score < np.sort(results["mean_test_score"])[-2]  # that of the best settings with another number of neighbours
    assert told["runner-up"].startswith(f"{score:.4g} ± ")
    assert told["runner-up"].endswith(f"regression_weight {params['regression_weight']:.4g}, n_neighbors {params['n_neighbors']}")


def test_searches_of_other_kinds(wine):
    steps = make_pipeline(StandardScaler(), LearnedKernelMetric())
    alone = MetricSearchCV(steps, {"learnedkernelmetric__bandwidth": [3.0]}, n_neighbors=5, cv=3, refit=False, scoring="accuracy")
    told = facts(alone.fit(*wine))
    assert told["best"].endswith(": bandwidth 3, n_neighbors 5")
    assert told["score"].startswith("accuracy")
    assert not {"runner-up", "fitted"} & set(told)
    kernel = kernels.Scalar("rbf", 4.0).gram(wine[0].to_numpy())
    precomputed = MetricSearchCV(LearnedKernelMetric(kernel="precomputed"), {}, n_neighbors=5, cv=3).fit(kernel, wine[1])
    assert facts(precomputed)["learned from"].startswith("89 samples, 3 classes")
    del alone.best_index_  # as an interrupt leaves it
    assert facts(alone)["status"] == "no best candidate: the search was interrupted, or nothing could be scored"


def test_a_search_shows_the_map_it_chose(fitted):
    for name in ("MetricSearchCV", "MetricClassifier"):
        page = fitted[name]._repr_html_()
        (metric,) = re.findall(r"What (\w+KernelMetric) learned", page)
        assert page.index("The best map") < page.index(f"What {metric} learned")


def test_the_classifier_tells_of_its_committee(fitted):
    model = fitted["MetricClassifier"]
    told = facts(model)
    assert told["committee"] == f"{len(model.committee_)} maps vote"
    assert told["compared"] == f"{len(model.candidates_)} candidates"
    first = model.committee_[0].candidate
    assert told["map 1"].startswith(f"{first.score:.4g}, accuracy {first.scores['accuracy']:.4g}: kernel rbf, regression_weight ")
    assert {"scaling standard", f"bandwidth {first.description['bandwidth']}"} < set(told["map 1"].split(", "))
    assert "neighbours" not in told["map 1"]
    voting = copy.copy(model)
    voting.committee_ = [replace(model.committee_[0], candidate=replace(first, n_neighbors=7))]
    settings, weight = told["map 1"].rsplit(", ", 1)
    assert weight == f"weight {model.committee_[0].weight:.2f}"
    assert facts(voting)["map 1"] == f"{settings}, 7 neighbours, {weight}"
    assert [name for name in told if name.startswith("map ")] == [f"map {place + 1}" for place in range(len(model.committee_))]
    large = copy.copy(model)
    large.committee_ = [model.committee_[0]] * 6
    assert {"map 5", "map 6"} & set(facts(large)) == {"map 5"}
    assert told["time"] == f"{model.fit_time_:.1f} s"


def test_the_regressor_tells_of_its_committee(wine, one_preparation):
    X, _ = wine
    model = MetricRegressor(random_state=0).fit(X.drop(columns="proline"), X["proline"])
    told = facts(model)
    assert told["kind"].startswith("a regressor")
    assert told["learned from"] == "89 samples, 12 features"
    first = model.committee_[0].candidate
    assert told["map 1"].startswith(f"{first.score:.4g}, R2 {first.scores['R2']:.4g}: kernel rbf, ")
    assert told["scores"].startswith("minus squared error in units of the variance and R2 in cross-validation")
    page = model._repr_html_()
    assert page.index("The best map") < page.index("What LearnedKernelMetric learned")
    assert EVIL not in page


def test_the_small_curve_is_the_logarithm_of_optimality(fitted):
    model = fitted["LearnedKernelMetric"]
    (points,) = re.findall(r'polyline points="([^"]*)"', model._repr_html_())
    across, down = np.array([point.split(",") for point in points.split()], dtype=float).T
    logarithms = np.log10([record.optimality for record in model.history_])
    assert np.all(np.diff(across) > 0)
    share = (logarithms - logarithms.min()) / np.ptp(logarithms)
    np.testing.assert_allclose((down.max() - down) / np.ptp(down), share, atol=0.01)
