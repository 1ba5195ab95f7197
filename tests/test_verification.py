"""Are thresholds, rates, probabilities and intervals of same and different pairs what their definitions say?"""

import pickle

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import outmetric
from outmetric import LearnedKernelMetric, MetricClassifier, MetricSearchCV, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.verification import PairVerifier, best_threshold, draw_pairs, operating_points, split_identities

X, y = load_iris(return_X_y=True)
PAIRS = draw_pairs(y, 400, random_state=0)
FIRST, SECOND = X[PAIRS.rows[:, 0]], X[PAIRS.rows[:, 1]]


def people(n_people, seed, each=8):
    """Rows of so many people, who differ in features of which some are mostly noise."""
    rng = np.random.default_rng(seed)
    identities = np.repeat(np.arange(n_people), each)
    noise = 0.6 * np.linspace(0.2, 1.5, 10) * rng.normal(size=(len(identities), 10))
    return rng.normal(size=(n_people, 10))[identities] + noise, identities


def on_a_line(distances):
    """Pairs of numbers that are so far apart."""
    distances = np.asarray(distances, dtype=float)
    return np.stack([np.zeros_like(distances), distances], axis=1)[:, :, None]


# Few different values, so that many distances are equal.
SOME_PAIRS = st.lists(st.tuples(st.integers(0, 7), st.booleans()), min_size=2, max_size=30).filter(
    lambda pairs: len({alike for _, alike in pairs}) == 2
)


class TestThresholds:
    @settings(max_examples=60, deadline=None)
    @given(pairs=SOME_PAIRS, rate=st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]), beta=st.sampled_from([0.5, 1.0, 2.0]))
    def test_they_are_those_of_an_exhaustive_search(self, pairs, rate, beta):
        distances, same = (list(part) for part in zip(*pairs, strict=True))
        for strategy, options in {
            "accuracy": {},
            "f_beta": {"beta": beta},
            "max_tpr": {"min_rate": rate},
            "max_tnr": {"min_rate": rate},
        }.items():
            expected = oracles.best_threshold(distances, same, strategy, **options)
            found = PairVerifier().calibrate(on_a_line(distances), same, strategy=strategy, **options).threshold_
            assert found == pytest.approx(oracles.midway(distances, expected), rel=1e-8)

    @settings(max_examples=40, deadline=None)
    @given(pairs=SOME_PAIRS, far=st.sampled_from([0.25, 0.5, 0.9]))
    @pytest.mark.filterwarnings("ignore:a false-accept rate of")
    def test_that_of_a_false_accept_rate_is_the_largest(self, pairs, far):
        distances, same = (list(part) for part in zip(*pairs, strict=True))
        expected = oracles.best_threshold(distances, same, "far", far=far)
        found = PairVerifier().calibrate(on_a_line(distances), same, strategy="far", far=far).threshold_
        assert found == pytest.approx(oracles.midway(distances, expected), rel=1e-8)

    def test_a_toy_by_hand(self):
        """Same at 1, 2, 5; different at 3, 4, 6, 7."""
        pairs, same = on_a_line([1, 2, 5, 3, 4, 6, 7]), [1, 1, 1, -1, -1, -1, -1]
        verifier = PairVerifier()
        assert verifier.calibrate(pairs, same).threshold_ == 2.5
        assert verifier.calibrate(pairs, same, strategy="f_beta", beta=2).threshold_ == 5.5
        assert verifier.calibrate(pairs, same, strategy="max_tnr", min_rate=1).threshold_ == 5.5
        assert verifier.calibrate(pairs, same, strategy="max_tpr", min_rate=0.9).threshold_ == 2.5
        assert verifier.calibrate(pairs, same, strategy="far", far=0.25).threshold_ == 3.5
        assert verifier.predict(on_a_line([3.499, 3.501])).tolist() == [1, -1]

    def test_equally_good_ones_keep_the_other_rate(self):
        distances, same = [1.0, 2.0, 4.0, 5.0], [True, True, False, False]
        for strategy in ("max_tpr", "max_tnr"):
            assert best_threshold(distances, same, strategy, min_rate=0.0) == 3.0

    def test_round_off_does_not_decide(self):
        """The distances that were separated may come again a little larger or smaller."""
        distances, same = np.array([0.1, 0.2, 0.3, 0.7]), np.array([True, True, False, False])
        for kinds in (same, ~same, same | True):
            threshold = best_threshold(distances, kinds)
            for error in (1 - 1e-12, 1 + 1e-12):
                np.testing.assert_array_equal(distances * error <= threshold, distances <= threshold)

    def test_neighbouring_numbers_are_told_apart(self):
        for distance in (1.0, 3.0, 0.1, 1e-300, np.nextafter(1.0, 2.0)):
            distances = [distance, np.nextafter(distance, np.inf)]
            assert distances[0] <= best_threshold(distances, [True, False]) < distances[1]

    def test_negative_distances_of_a_function_are_told_apart(self):
        assert best_threshold([-3.0, -2.0], [False, False]) < -3.0
        assert best_threshold([-3.0, -2.0], [True, True]) >= -2.0

    def test_too_few_pairs_for_a_rate_are_told(self):
        with pytest.warns(UserWarning, match="rate of 0.01 cannot be measured on 2 different pairs.*give 100 of them"):
            verifier = PairVerifier().calibrate(on_a_line([1, 2, 3]), [0, 1, 0], strategy="far", far=0.01)
        assert (verifier.predict(on_a_line([1, 2, 3])) == -1).all()

    @pytest.mark.slow
    def test_a_false_accept_rate_holds_on_other_identities(self):
        """Metric, threshold and rate have identities of their own: 40, 20 and 20; the last two are drawn anew 100 times."""
        rows, identities = people(80, seed=0)
        train, rest = split_identities(identities, 40, random_state=0)
        metric = LearnedKernelMetric(kernel="linear").fit(rows[train], identities[train])
        coordinates, names = metric.transform(rows[rest]), identities[rest]
        rates, hits = [], []
        for seed in range(100):
            known, new = split_identities(names, 0.5, random_state=seed)
            pairs, others = draw_pairs(names[known], "all"), draw_pairs(names[new], "all")
            verifier = PairVerifier().calibrate(coordinates[known][pairs.rows], pairs.y, strategy="far", far=0.01)
            accepted = verifier.predict(coordinates[new][others.rows]) == 1
            rates.append(accepted[others.y == -1].mean())
            hits.append(accepted[others.y == 1].mean())
        assert 0.005 < np.mean(rates) < 0.02
        assert np.mean(hits) > 0.5  # it is not met by accepting next to nothing


class TestRates:
    @settings(max_examples=60, deadline=None)
    @given(pairs=SOME_PAIRS)
    def test_area_and_equal_error_rate(self, pairs):
        distances, same = (list(part) for part in zip(*pairs, strict=True))
        verifier = PairVerifier()
        assert verifier.score(on_a_line(distances), same) == pytest.approx(roc_auc_score(same, -np.array(distances)), abs=1e-12)
        found = verifier.equal_error_rate(on_a_line(distances), same)
        assert found.value == pytest.approx(oracles.equal_error_rate(distances, same), abs=1e-12)
        assert np.isnan([found.low, found.high]).all()

    @settings(max_examples=40, deadline=None)
    @given(pairs=SOME_PAIRS, far=st.sampled_from([0.2, 0.5, 0.75]))
    @pytest.mark.filterwarnings("ignore:a false-accept rate of")
    def test_true_accepts_at_false_ones(self, pairs, far):
        distances, same = (list(part) for part in zip(*pairs, strict=True))
        expected = oracles.weighted_rates_by_copies(distances, same, [(0, 0) if one else (0, 1) for one in same], [1, 1], far)
        assert PairVerifier().rates_at(on_a_line(distances), same, far).value == pytest.approx([expected])

    def test_weights_are_copies(self):
        rng = np.random.default_rng(0)
        identities = rng.integers(0, 4, size=(30, 2))
        distances, same = rng.integers(0, 6, size=30), identities[:, 0] == identities[:, 1]
        counts = np.array([2, 0, 1, 3])
        weights = np.where(same, counts[identities[:, 0]], counts[identities].prod(axis=1))
        points = operating_points(distances, same, weights)
        for far in (0.1, 0.3, 0.8):
            expected = oracles.weighted_rates_by_copies(distances, same, identities, counts, far)
            assert points.true_accepts_at(np.array(far)) == pytest.approx(expected)

    @pytest.mark.filterwarnings("ignore:a false-accept rate of")
    def test_intervals_are_of_identities(self):
        """Where each person's pairs are copies of one pair, there is no more to know than of as many pairs as persons."""
        rng = np.random.default_rng(1)
        persons = 40
        same_distances, other_distances = rng.normal(1, 0.5, persons), rng.normal(2, 0.5, persons)
        times = 30
        distances = np.concatenate([np.repeat(same_distances, times), np.repeat(other_distances, times)])
        names = np.arange(persons)
        identities = np.concatenate(
            [np.repeat(np.column_stack([names, names]), times, 0), np.repeat(np.column_stack([names, np.roll(names, 1)]), times, 0)]
        )
        labels = np.repeat([1, -1], persons * times)
        verifier, options = PairVerifier(), {"n_bootstrap": 300, "random_state": 0}
        found = verifier.equal_error_rate(on_a_line(distances), labels, identities, **options)
        once = verifier.equal_error_rate(
            on_a_line(np.append(same_distances, other_distances)), np.repeat([1, -1], persons), identities[::times], **options
        )
        assert (found.low, found.high) == pytest.approx((once.low, once.high))
        assert found.high - found.low > 0.05
        assert found.low <= float(found) <= found.high
        rates = verifier.rates_at(on_a_line(distances), labels, [0.1, 0.5], identities, **options)
        assert rates.value.shape == rates.low.shape == rates.high.shape == (2,)
        assert (rates.low <= rates.value).all()
        assert (rates.value <= rates.high).all()
        again = verifier.rates_at(on_a_line(distances), labels, [0.1, 0.5], identities, **options)
        assert np.array_equal(rates.low, again.low)
        narrow = verifier.rates_at(on_a_line(distances), labels, [0.1, 0.5], identities, confidence=0.5, **options)
        assert (narrow.high - narrow.low < rates.high - rates.low).all()

    @pytest.mark.slow
    def test_intervals_hold_what_they_promise(self):
        """The equal error rate of very many people is in about 95 % of the intervals of 25 people."""
        everybody, identities = people(600, seed=3, each=3)
        pairs = draw_pairs(identities, 3000, random_state=0)
        truth = PairVerifier().equal_error_rate(everybody[pairs.rows], pairs.y).value
        inside = []
        for seed in range(60):
            some, names = people(25, seed=100 + seed, each=3)
            pairs = draw_pairs(names, "all")
            found = PairVerifier().equal_error_rate(some[pairs.rows], pairs.y, pairs.identities, n_bootstrap=200, random_state=0)
            inside.append(found.low <= truth <= found.high)
        assert np.mean(inside) > 0.85


class TestProbabilities:
    @pytest.mark.parametrize("calibration", ["isotonic", "logistic"])
    def test_they_fall_with_the_distance_and_are_calibrated(self, calibration):
        rng = np.random.default_rng(0)
        distances = rng.uniform(0, 4, 8000)
        truth = 1 / (1 + np.exp(3 * (distances - 2)))
        same = rng.uniform(size=8000) < truth
        verifier = PairVerifier(calibration=calibration).calibrate(on_a_line(distances[:4000]), same[:4000])
        found = verifier.predict_proba(on_a_line(np.linspace(-0.0, 6, 200)))
        assert (np.diff(found[:, 1]) <= 0).all()
        assert np.allclose(found.sum(axis=1), 1)
        assert ((found >= 0) & (found <= 1)).all()
        assert np.abs(verifier.predict_proba(on_a_line(distances[4000:]))[:, 1] - truth[4000:]).mean() < 0.03

    def test_isotonic_is_that_of_scikit_learn(self):
        verifier = PairVerifier().calibrate(X[PAIRS.rows], PAIRS.y)
        distances = np.linalg.norm(FIRST - SECOND, axis=1)
        expected = IsotonicRegression(increasing=False, out_of_bounds="clip").fit(distances, PAIRS.y > 0)
        assert verifier.predict_proba(X[PAIRS.rows])[:, 1] == pytest.approx(expected.predict(distances))
        assert verifier.predict_proba(on_a_line([0.0, 1e9]))[:, 1] == pytest.approx(expected.predict([0.0, 1e9]))

    @pytest.mark.parametrize("calibration", ["isotonic", "logistic"])
    def test_a_prior_is_that_of_pairs_drawn_so(self, calibration):
        """By Bayes: odds of the same change by the ratio of the priors' odds."""
        rng = np.random.default_rng(0)
        distances = np.append(rng.normal(1, 0.5, 5000), rng.normal(2, 0.5, 5000))
        same = np.repeat([1, 0], 5000)
        half, rare = (
            PairVerifier(calibration=calibration, prior=prior)
            .calibrate(on_a_line(distances), same)
            .predict_proba(on_a_line([1.2, 1.5]))
            for prior in (None, 0.01)
        )
        odds = half[:, 1] / half[:, 0] * 0.01 / 0.99
        assert rare[:, 1] == pytest.approx(odds / (1 + odds), rel=0.02)

    def test_pairs_that_can_be_told_apart_have_a_finite_slope(self):
        verifier = PairVerifier(calibration="logistic").calibrate(on_a_line([1, 1.1, 5, 5.1]), [1, 1, 0, 0])
        shares = verifier.predict_proba(on_a_line([1, 5]))[:, 1]
        assert shares == pytest.approx([0.75, 0.25], abs=0.05)  # Platt's targets: 3/4 and 1/4 for two pairs of each kind

    def test_a_similarity_has_constant_probabilities(self):
        with pytest.warns(UserWarning, match="same pairs are further apart"):
            verifier = PairVerifier(calibration="logistic").calibrate(on_a_line([5, 5.1, 1, 1.1]), [1, 1, 0, 0])
        assert np.ptp(verifier.predict_proba(on_a_line([0, 2, 9]))[:, 1]) == 0


class TestMetrics:
    @pytest.mark.parametrize(
        "model",
        [
            LearnedKernelMetric(),
            outmetric.FixedKernelMetric(),
            LMNN(),
            ITML(n_constraints=50, random_state=0),
            KernelLMNN(),
            KernelITML(n_constraints=50, random_state=0),
            make_pipeline(StandardScaler(), LearnedKernelMetric()),
            make_pipeline(StandardScaler(), LearnedKernelMetric(), KNeighborsClassifier(3)),
            MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [1.0]}, n_neighbors=3),
            make_pipeline(StandardScaler(), PCA(2)),
        ],
        ids=lambda model: type(model).__name__,
    )
    def test_distances_are_those_between_coordinates(self, model):
        model.fit(X[::2], y[::2])
        metric = model[:-1] if not hasattr(model, "transform") else model
        expected = np.linalg.norm(metric.transform(FIRST) - metric.transform(SECOND), axis=1)
        verifier = PairVerifier(metric)
        assert verifier.pair_distance(X[PAIRS.rows]) == pytest.approx(expected, rel=1e-6, abs=1e-9)
        assert (verifier.pair_score(X[PAIRS.rows]) == -verifier.pair_distance(X[PAIRS.rows])).all()
        assert verifier.score(X[PAIRS.rows], PAIRS.y) > 0.8

    @pytest.mark.usefixtures("one_preparation")
    def test_a_classifier(self):
        model = MetricClassifier(random_state=0).fit(X[::2], y[::2])
        verifier = PairVerifier(model).calibrate(X[PAIRS.rows], PAIRS.y)
        expected = np.linalg.norm(model.transform(FIRST) - model.transform(SECOND), axis=1)
        assert (verifier.decision_function(X[PAIRS.rows]) >= 0).tolist() == (expected <= verifier.threshold_).tolist()
        by_function = PairVerifier(model.get_metric()).pair_distance(X[PAIRS.rows[:5]])
        assert by_function == pytest.approx(expected[:5])

    def test_functions_metrics_and_objects_with_distances(self):
        def city_block(x, z):
            return np.abs(x - z).sum()

        class Furthest:
            def pair_distance(self, pairs):
                return np.abs(np.diff(pairs, axis=1)[:, 0]).max(axis=1)

        assert PairVerifier(city_block).pair_distance(X[PAIRS.rows]) == pytest.approx(np.abs(FIRST - SECOND).sum(axis=1))
        assert PairVerifier(Furthest()).pair_distance(X[PAIRS.rows]) == pytest.approx(np.abs(FIRST - SECOND).max(axis=1))
        model = LearnedKernelMetric().fit(X, y)
        by_metric = PairVerifier(model.get_metric()).pair_distance(X[PAIRS.rows])
        assert by_metric == pytest.approx(model.pair_distance(X[PAIRS.rows]))

    def test_words(self):
        words, kinds = ["banana", "bandana", "cabana", "pepper", "peppers", "pepperoni"], [0, 0, 0, 1, 1, 1]
        model = LearnedKernelMetric(kernel=kernels.Spectrum(2)).fit(words, kinds)
        pairs, same = [("banana", "cabana"), ("pepper", "peppers"), ("banana", "pepper"), ("cabana", "peppers")], [1, 1, -1, -1]
        for metric in (model, make_pipeline(model), model.get_metric()):
            assert PairVerifier(metric).calibrate(pairs, same).predict(pairs).tolist() == same

    @pytest.mark.parametrize(
        "metric", [KNeighborsClassifier(), LearnedKernelMetric, "euclidean", kernels.Spectrum(2), kernels.Scalar("rbf")], ids=repr
    )
    def test_what_is_no_metric(self, metric):
        with pytest.raises(TypeError, match="metric"):
            PairVerifier(metric).score(X[PAIRS.rows], PAIRS.y)


class TestEstimator:
    def test_it_is_one_of_scikit_learn(self):
        model = LearnedKernelMetric().fit(X, y)
        verifier = PairVerifier(model, calibration="logistic", prior=0.1).calibrate(X[PAIRS.rows], PAIRS.y)
        other = clone(verifier)
        assert other.get_params(deep=False) == verifier.get_params(deep=False)
        assert not hasattr(other, "threshold_")
        assert other.metric is model  # clones of fitted metrics would not be fitted
        assert repr(verifier) == "PairVerifier(calibration='logistic', metric=LearnedKernelMetric(), prior=0.1)"
        assert cross_val_score(PairVerifier(model), X[PAIRS.rows], PAIRS.y, cv=3).shape == (3,)
        assert cross_val_score(PairVerifier(model), X[PAIRS.rows], PAIRS.y > 0, cv=3).min() > 0.9
        again = pickle.loads(pickle.dumps(verifier))
        assert np.array_equal(again.predict_proba(X[PAIRS.rows]), verifier.predict_proba(X[PAIRS.rows]))

    def test_files(self, tmp_path):
        verifier = PairVerifier(LMNN().fit(X, y)).calibrate(X[PAIRS.rows], PAIRS.y)
        outmetric.save(verifier, tmp_path / "model")
        again = outmetric.load(tmp_path / "model")
        assert np.array_equal(again.predict(X[PAIRS.rows]), verifier.predict(X[PAIRS.rows]))
        assert np.array_equal(again.predict_proba(X[PAIRS.rows]), verifier.predict_proba(X[PAIRS.rows]))

    def test_all_ways_to_say_the_same(self):
        verifiers = [
            PairVerifier().calibrate(X[PAIRS.rows], same)
            for same in (PAIRS.y, (PAIRS.y > 0).astype(int), PAIRS.y > 0, PAIRS.y.astype(float), (PAIRS.y > 0).astype(object))
        ]
        assert len({verifier.threshold_ for verifier in verifiers}) == 1
        assert set(np.unique(verifiers[0].predict(X[PAIRS.rows]))) == {-1, 1}

    def test_a_threshold_of_ones_own(self):
        verifier = PairVerifier().set_threshold(2.5)
        assert verifier.predict(on_a_line([2.4, 2.6])).tolist() == [1, -1]
        assert not hasattr(verifier, "predict_proba")
        with pytest.raises(ValueError, match="threshold must be a finite number, not nan"):
            verifier.set_threshold(np.nan)

    def test_before_it_is_calibrated(self):
        for ask in (PairVerifier().predict, PairVerifier().predict_proba, PairVerifier().decision_function):
            with pytest.raises(NotFittedError):
                ask(X[PAIRS.rows])
        with pytest.raises(NotFittedError):
            PairVerifier(LearnedKernelMetric()).score(X[PAIRS.rows], PAIRS.y)


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"strategy": "best"}, "one of 'accuracy', 'f_beta', 'max_tpr', 'max_tnr', 'far', not 'best'"),
            ({"strategy": "far"}, "'far' needs far"),
            ({"strategy": "far", "far": 0}, "far must be between 0 and 1.*not 0"),
            ({"strategy": "far", "far": 1.0}, "far must be between"),
            ({"strategy": "far", "far": np.nan}, "far must be between"),
            ({"strategy": "far", "far": "1 %"}, "far must be between"),
            ({"far": 0.1}, "far belongs to the strategy 'far'"),
            ({"strategy": "max_tpr"}, "'max_tpr' needs min_rate, the least rate of true negatives"),
            ({"strategy": "max_tnr"}, "'max_tnr' needs min_rate, the least rate of true positives"),
            ({"strategy": "max_tnr", "min_rate": 1.1}, "min_rate must be a number from 0 to 1, not 1.1"),
            ({"min_rate": 0.5}, "min_rate belongs to"),
            ({"strategy": "f_beta", "beta": -1}, "beta must be"),
        ],
    )
    def test_strategies(self, options, message):
        with pytest.raises(ValueError, match=message):
            PairVerifier().calibrate(X[PAIRS.rows], PAIRS.y, **options)

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            (PAIRS.y[:-1], "each of the 400 pairs"),
            (np.ones(400), "all 400 pairs are the same; pairs that are different are needed"),
            (np.zeros(400), "all 400 pairs are different; pairs that are the same"),
            (np.where(PAIRS.y > 0, np.nan, 0), "gaps .* in 200 places, the first is y\\[0\\]"),
            (np.where(PAIRS.y > 0, "same", "different"), "it holds different, same"),
            (PAIRS.y + 1, "it holds 0, 2"),
            (np.append([0], PAIRS.y[1:]), "it holds -1, 0, 1"),
        ],
    )
    def test_labels(self, labels, message):
        with pytest.raises(ValueError, match=message):
            PairVerifier().calibrate(X[PAIRS.rows], labels)

    @pytest.mark.parametrize("metric", [None, LearnedKernelMetric().fit(X, y), make_pipeline(LearnedKernelMetric()).fit(X, y), max])
    @pytest.mark.parametrize("pairs", [X[:4], X[PAIRS.rows][:, :1], [], 3, np.full((2, 2, 4), np.nan), [["a"], ["b"]]], ids=str)
    def test_pairs(self, metric, pairs):
        with pytest.raises((ValueError, TypeError)):
            PairVerifier(metric).set_threshold(1).predict(pairs)

    def test_distances_that_are_none(self):
        with pytest.raises(ValueError, match="the metric gives nan for pair 0, and for 400 pairs"):
            PairVerifier(lambda x, z: np.nan).score(X[PAIRS.rows], PAIRS.y)
        with pytest.raises(ValueError, match=r"pairs must have the shape \(n_pairs, 2, d\); theirs is \(150, 4\)"):
            PairVerifier().score(X, PAIRS.y)

    def test_parameters(self):
        with pytest.raises(ValueError, match="calibration must be one of 'isotonic', 'logistic', not 'platt'"):
            PairVerifier(calibration="platt").calibrate(X[PAIRS.rows], PAIRS.y)
        with pytest.raises(ValueError, match="prior must be between 0 and 1"):
            PairVerifier(prior=1).calibrate(X[PAIRS.rows], PAIRS.y)
        for options in ({"n_bootstrap": 0}, {"confidence": 1.0}, {"identities": np.zeros(400)}):
            with pytest.raises(ValueError, match=next(iter(options))):
                PairVerifier().equal_error_rate(X[PAIRS.rows], PAIRS.y, **options)
        with pytest.raises(ValueError, match="far must be between"):
            PairVerifier().rates_at(X[PAIRS.rows], PAIRS.y, [0.1, 1.5])
        with pytest.raises(
            ValueError, match="y and identities disagree on 1 pairs: pair 0 is of 0 and 0, and said to be different"
        ):
            PairVerifier().equal_error_rate(X[PAIRS.rows], np.append(-PAIRS.y[:1], PAIRS.y[1:]), PAIRS.identities)
