"""Does ITML solve the published problem, exactly, and is it never worse than metric-learn?"""

import json
import warnings
from pathlib import Path

import numpy as np
import oracles
import pytest
from scipy.spatial.distance import pdist
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from test_lmnn import blobs, reference_data

from outmetric import Status
from outmetric.baselines import ITML, KernelITML, projections

REFERENCE = json.loads((Path(__file__).parent / "reference" / "metric_learn.json").read_text())["itml"]


def pairs_of(y, count=20, seed=0):
    """Some pairs with their signs."""
    rng = np.random.default_rng(seed)
    pairs = np.array([rng.choice(len(y), 2, replace=False) for _ in range(count)])
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1.0, -1.0)


def parts(model, X):
    """What the oracles need: differences, signs, bounds."""
    differences = X[model.pairs_[:, 0]] - X[model.pairs_[:, 1]]
    return differences, model.pair_signs_, np.where(model.pair_signs_ > 0, *model.bounds_)


def positive_definite(d, seed=0):
    root = np.random.default_rng(seed).normal(size=(d, d))
    return root @ root.T / d + 0.2 * np.eye(d)


class TestOptimum:
    @pytest.mark.parametrize("gamma", [0.1, 1.0, 30.0])
    @pytest.mark.parametrize("prior", ["identity", "matrix"])
    def test_is_that_of_a_convex_program(self, gamma, prior):
        X, y = blobs((10, 10))
        pairs, signs = pairs_of(y)
        given = "identity" if prior == "identity" else positive_definite(3)
        matrix = np.eye(3) if prior == "identity" else given
        model = ITML(gamma, prior=given, bounds=(1.0, 4.0)).fit_pairs(pairs, signs, X)
        differences, signs, bounds = parts(model, X)
        A, optimum = oracles.itml_by_cvxpy(differences, signs, bounds, matrix, gamma)
        np.testing.assert_allclose(model.get_mahalanobis_matrix(), A, rtol=1e-3, atol=1e-3 * np.abs(A).max())
        assert oracles.itml(model.get_mahalanobis_matrix(), differences, signs, bounds, matrix, gamma) <= optimum * (1 + 1e-6)
        assert model.divergence_ == pytest.approx(oracles.log_det_divergence(model.get_mahalanobis_matrix(), matrix), rel=1e-9)

    @pytest.mark.parametrize("gamma", [0.3, 3.0])
    def test_the_duality_gap_closes(self, gamma):
        X, y = blobs((20, 20, 20), d=4)
        model = ITML(gamma, random_state=0).fit(X, y)
        upper = oracles.itml(model.get_mahalanobis_matrix(), *parts(model, X), np.eye(4), gamma)
        lower = oracles.itml_dual(model.multipliers_, *parts(model, X), np.eye(4), gamma)
        assert upper - lower + 1e-9 * upper >= 0
        assert upper - lower < 1e-6 * upper

    def test_constraints_are_kept_and_multipliers_fit_them(self):
        X, y = blobs((20, 20, 20), d=4)
        model = ITML(2.0, random_state=0).fit(X, y)
        differences, signs, bounds = parts(model, X)
        distances = np.einsum("ij,jk,ik->i", differences, model.get_mahalanobis_matrix(), differences)
        assert (signs * (distances - model.relaxed_bounds_) <= 1e-4 * model.relaxed_bounds_).all()
        idle = model.multipliers_ == 0
        assert 0 < idle.sum() < len(idle)
        np.testing.assert_allclose(model.relaxed_bounds_[idle], bounds[idle])
        np.testing.assert_allclose(distances[~idle], model.relaxed_bounds_[~idle], rtol=1e-4)
        inverse = np.eye(4) + differences.T @ ((signs * model.multipliers_)[:, None] * differences)
        np.testing.assert_allclose(np.linalg.inv(model.get_mahalanobis_matrix()), inverse, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("name", sorted(REFERENCE))
    def test_is_not_above_that_of_metric_learn(self, name):
        X, y = reference_data(name)
        n, reference = len(X), REFERENCE[name]
        first = np.repeat(np.arange(n), 3)
        second = (first + np.tile([1, n // 3, n // 2 + 1], n)) % n
        signs = np.where(y[first] == y[second], 1, -1)
        model = ITML(reference["gamma"], bounds=reference["bounds"]).fit_pairs(np.stack([first, second], axis=1), signs, X)
        problem = (*parts(model, X), np.eye(X.shape[1]), reference["gamma"])
        theirs = oracles.itml(np.array(reference["matrix"]), *problem)
        assert oracles.itml(model.get_mahalanobis_matrix(), *problem) <= theirs * (1 + 1e-7)
        assert model.divergence_ <= reference["divergence"] * (1 + 1e-4)

    def test_without_relaxation_the_bounds_are_kept(self):
        X, y = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 1.0], [2.0, 1.0]]), np.array([0, 0, 1, 1])
        model = ITML(np.inf, bounds=(1.0, 4.0)).fit(X, y)
        assert model.status_ is Status.CONVERGED
        A = model.get_mahalanobis_matrix()
        # Within the classes (2, 0), between them (0, 1), (2, 1) and (-2, 1): A = diag(1/4, 4) is nearest to I.
        np.testing.assert_allclose(A, np.diag([0.25, 4.0]), atol=1e-4)

    @pytest.mark.parametrize("bounds", [(1.0, 4.0), (1.0, 1e20), (1e-20, 1.0)])
    def test_bounds_that_cannot_be_kept(self, bounds):
        X, y = np.array([[0.0], [2.0], [1.0], [3.0]]), np.array([0, 0, 1, 1])
        with pytest.warns(ConvergenceWarning, match="max_iter|round-off"):
            model = ITML(np.inf, bounds=bounds).fit(X, y)
        assert model.status_ is not Status.CONVERGED
        assert np.isfinite(model.components_).all()

    @pytest.mark.parametrize(("gamma", "sweeps"), [(1e-3, 10), (1.0, 20), (1e3, 100), (1e5, 1000)])
    def test_any_weight_of_the_relaxation(self, gamma, sweeps):
        X, y = load_iris(return_X_y=True)
        model = ITML(gamma, random_state=0).fit(X, y)
        assert model.status_ is Status.CONVERGED
        assert model.n_iter_ < sweeps
        upper = oracles.itml(model.get_mahalanobis_matrix(), *parts(model, X), np.eye(4), gamma)
        assert upper == pytest.approx(oracles.itml_dual(model.multipliers_, *parts(model, X), np.eye(4), gamma), rel=1e-4)

    @pytest.mark.parametrize("low", [1e-8, 1e-12, 1e-15])
    def test_tight_bounds_end_near_the_optimum_or_say_so(self, low):
        X, y = blobs((20, 20))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = ITML(bounds=(low, 1.0), random_state=0).fit(X, y)
        assert (model.status_ is Status.CONVERGED) == (not caught)
        assert np.isfinite(model.components_).all()

    @pytest.mark.parametrize("scale", [1e-60, 1e-9, 1e9, 1e60])
    def test_the_unit_of_the_data_does_not_matter(self, scale):
        X, y = blobs((20, 20))
        plain = ITML(random_state=0).fit(X, y)
        # With a prior in the same unit only the multipliers change.
        model = ITML(random_state=0, prior=np.eye(3) / scale**2, bounds=tuple(plain.bounds_)).fit(X * scale, y)
        found = model.get_mahalanobis_matrix() * scale**2
        np.testing.assert_allclose(found, plain.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-6)
        assert model.status_ is Status.CONVERGED
        # With bounds in the new unit the metric is the same.
        model = ITML(random_state=0).fit(X * scale, y)
        np.testing.assert_allclose(model.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-6)
        assert model.n_iter_ <= 2 * plain.n_iter_


class TestProjections:
    @pytest.mark.parametrize("block", [1, 7, 100])
    def test_a_sweep_is_the_published_one(self, monkeypatch, block):
        monkeypatch.setattr(projections, "BLOCK", block)
        monkeypatch.setattr(projections, "NEWTON", 0)
        rng = np.random.default_rng(0)
        V, signs, prior = rng.normal(size=(30, 4)), rng.choice([1.0, -1.0], 30), positive_definite(4)
        bounds = np.where(signs > 0, 0.5, 3.0)
        constraints = projections.Constraints(V, signs, bounds)
        found = projections.project(constraints, np.linalg.cholesky(prior).T, gamma=0.7, tol=0, max_iter=1)
        A, multipliers, relaxed = oracles.itml_sweep(V, signs, bounds, prior, 0.7)
        np.testing.assert_allclose(found.factor.T @ found.factor, A, rtol=1e-9)
        np.testing.assert_allclose(found.multipliers, multipliers, rtol=1e-9)
        np.testing.assert_allclose(found.relaxed_bounds, relaxed, rtol=1e-9)

    @pytest.mark.slow
    def test_sweeps_alone_reach_the_same_optimum(self, monkeypatch):
        X, y = blobs((20, 20), d=3)
        model = ITML(random_state=0).fit(X, y)
        monkeypatch.setattr(projections, "NEWTON", 0)
        plain = ITML(random_state=0, tol=1e-8, max_iter=100_000).fit(X, y)
        np.testing.assert_allclose(model.get_mahalanobis_matrix(), plain.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-5)
        assert plain.n_iter_ > 5 * model.n_iter_

    def test_fewer_pairs_than_dimensions(self):
        X, y = blobs((10, 10), d=8)
        pairs, signs = pairs_of(y, 5)
        prior = positive_definite(8)
        model = ITML(prior=prior).fit_pairs(pairs, signs, X)
        differences, signs, bounds = parts(model, X)
        inverse = np.linalg.inv(prior) + differences.T @ ((signs * model.multipliers_)[:, None] * differences)
        np.testing.assert_allclose(model.get_mahalanobis_matrix(), np.linalg.inv(inverse), rtol=1e-7, atol=1e-9)
        upper = oracles.itml(model.get_mahalanobis_matrix(), differences, signs, bounds, prior, 1.0)
        assert upper == pytest.approx(oracles.itml_dual(model.multipliers_, differences, signs, bounds, prior, 1.0), rel=1e-5)

    def test_history_tells(self, capsys):
        X, y = blobs((20, 20), d=3)
        model = ITML(random_state=0, verbose=True).fit(X, y)
        assert len(capsys.readouterr().err.splitlines()) == model.n_iter_
        assert model.history_[-1].correction <= 1e-5 < model.history_[0].correction


class TestPairs:
    @pytest.mark.parametrize("count", [5, 50, 10_000])
    def test_drawn_pairs_are_distinct_and_of_the_right_kind(self, count):
        y = np.random.default_rng(0).permutation(np.repeat([3, 5, 9], [10, 7, 1]))
        similar, dissimilar = projections.sample_pairs(y, count, np.random.default_rng(1))
        assert len(similar) == min(count, 45 + 21)
        assert len(dissimilar) == min(count, 70 + 10 + 7)
        for pairs, same in ((similar, True), (dissimilar, False)):
            assert len({tuple(sorted(pair)) for pair in pairs.tolist()}) == len(pairs)
            assert (pairs[:, 0] != pairs[:, 1]).all()
            assert ((y[pairs[:, 0]] == y[pairs[:, 1]]) == same).all()

    def test_every_pair_is_as_likely(self):
        y = np.array([0, 0, 0, 1, 1])
        rng = np.random.default_rng(0)
        drawn = [projections.sample_pairs(y, 1, rng) for _ in range(3000)]
        for kind, pairs in ((0, 4), (1, 6)):
            counts = np.unique([sorted(draw[kind][0].tolist()) for draw in drawn], axis=0, return_counts=True)[1]
            assert len(counts) == pairs
            np.testing.assert_allclose(counts / 3000, 1 / pairs, atol=0.05)

    def test_number_of_pairs(self):
        X, y = blobs((30, 30, 30))
        assert len(ITML(random_state=0).fit(X, y).pairs_) == 2 * 20 * 9
        assert len(ITML(n_constraints=7, random_state=0).fit(X, y).pairs_) == 14

    def test_random_state_decides_the_pairs(self):
        X, y = blobs((30, 30, 30))
        one, same, other = (ITML(n_constraints=7, random_state=seed).fit(X, y).pairs_ for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert not np.array_equal(one, other)

    def test_default_number_has_a_limit(self):
        X = np.random.default_rng(0).normal(size=(400, 2))
        with pytest.warns(ConvergenceWarning):
            model = ITML(max_iter=1, random_state=0).fit(X, np.arange(400) // 4)
        assert len(model.pairs_) == 600 + 5000

    def test_bounds_are_percentiles_of_squared_distances(self):
        X, y = blobs((30, 30))
        squares = pdist(X) ** 2
        np.testing.assert_allclose(ITML(random_state=0).fit(X, y).bounds_, np.percentile(squares, [5, 95]))
        np.testing.assert_allclose(ITML(random_state=0, percentiles=(20, 60)).fit(X, y).bounds_, np.percentile(squares, [20, 60]))
        twice = np.vstack([X, X])  # distances of zero do not count
        assert ITML(random_state=0, percentiles=(0, 95)).fit(twice, [*y, *y]).bounds_[0] == pytest.approx(squares.min())

    def test_bounds_of_many_points_are_estimated(self, monkeypatch):
        X, _ = blobs((100, 100))
        exact = projections.distance_percentiles(X, (5, 95), np.random.default_rng(0))
        monkeypatch.setattr(projections, "PERCENTILE_POINTS", 150)
        np.testing.assert_allclose(projections.distance_percentiles(X, (5, 95), np.random.default_rng(0)), exact, rtol=0.1)

    def test_points_or_row_numbers(self):
        X, y = blobs((10, 10))
        pairs, signs = pairs_of(y)
        numbered = ITML(bounds=(1.0, 4.0)).fit_pairs(pairs, signs, X)
        pointed = ITML(bounds=(1.0, 4.0)).fit_pairs(X[pairs], signs)
        np.testing.assert_allclose(pointed.get_mahalanobis_matrix(), numbered.get_mahalanobis_matrix(), rtol=1e-6, atol=1e-9)

    @pytest.mark.parametrize("prior", ["identity", "covariance"])
    def test_points_count_once_however_many_pairs_they_are_in(self, prior):
        X, y = blobs((10, 10))
        X[0] += 9
        pairs = np.array([[0, other] for other in range(1, 20)] + [[1, 2], [3, 4]])
        signs = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
        numbered = ITML(prior=prior).fit_pairs(pairs, signs, X)
        pointed = ITML(prior=prior).fit_pairs(X[pairs], signs)
        np.testing.assert_allclose(numbered.bounds_, np.percentile(pdist(X) ** 2, [5, 95]))
        np.testing.assert_allclose(pointed.bounds_, numbered.bounds_)
        np.testing.assert_allclose(pointed.get_mahalanobis_matrix(), numbered.get_mahalanobis_matrix(), rtol=1e-4, atol=1e-7)
        np.testing.assert_array_equal(pointed.pairs_, pairs)
        assert pointed.n_samples_fit_ == 20
        repeated = ITML(prior=prior).fit_pairs(pairs, signs, np.vstack([X, X[[0] * 30]]))
        np.testing.assert_allclose(repeated.bounds_, numbered.bounds_)

    def test_objects_count_once_too(self):
        words = [("a", "b"), ("a", "bc"), ("a", "d"), ("bc", "d")]
        kernel = lambda s, t: float(len(set(s) & set(t)))  # noqa: E731
        model = KernelITML(kernel=kernel).fit_pairs(words, [1, -1, 1, -1])
        np.testing.assert_array_equal(model.pairs_, [[0, 1], [0, 2], [0, 3], [2, 3]])
        lists = [[list(word) for word in pair] for pair in words]  # which do not know when they are equal
        assert KernelITML(kernel=kernel).fit_pairs(lists, [1, -1, 1, -1]).n_samples_fit_ == 8

    def test_equal_points_are_left_out(self):
        X, y = blobs((10, 10))
        pairs, signs = pairs_of(y)
        plain = ITML(bounds=(1.0, 4.0)).fit_pairs(pairs, signs, X)
        with pytest.warns(UserWarning, match="2 dissimilar pairs are of equal points"):
            model = ITML(bounds=(1.0, 4.0)).fit_pairs([*pairs, [0, 0], [1, 1], [2, 2]], [*signs, -1, -1, 1], X)
        np.testing.assert_array_equal(model.components_, plain.components_)

    @pytest.mark.parametrize(
        ("pairs", "y", "X", "message"),
        [
            ([[0, 1]], [1], None, "Row numbers need X"),
            ([[0, 9]], [1], np.eye(3), "row numbers from 0 to 2"),
            ([[0, -1]], [1], np.eye(3), "row numbers from 0 to 2"),
            ([[0, 1, 2]], [1], np.eye(3), r"\(n_pairs, 2\)"),
            ([[0.5, 1.0]], [1], np.eye(3), r"\(n_pairs, 2\)"),
            ([[0, 1]], [1, 1], np.eye(3), "one y each"),
            ([[0, 1]], [0], np.eye(3), "1 for similar pairs and -1"),
            ([[0, 0]], [1], np.eye(3), "every pair is of two equal points"),
            (np.empty((0, 2), dtype=int), [], np.eye(3), "at least one pair"),
            (np.full((1, 2, 3), np.nan), [1], None, "NaN"),
            (["ab", "cd"], [1, -1], None, "sequence of pairs"),
            ([("a", "b", "c"), ("d", "e", "f")], [1, 1, -1], None, "sequence of pairs"),
        ],
    )
    def test_bad_pairs(self, pairs, y, X, message):
        with pytest.raises(ValueError, match=message):
            ITML().fit_pairs(pairs, y, X)


class TestParameters:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"gamma": 0.0}, "gamma must be"),
            ({"gamma": np.nan}, "gamma must be"),
            ({"n_constraints": 0}, "n_constraints must be"),
            ({"percentiles": (95, 5)}, "percentiles must be"),
            ({"percentiles": (5, 50, 95)}, "percentiles must be"),
            ({"bounds": (0.0, 1.0)}, "bounds"),
            ({"bounds": (1.0,)}, "bounds"),
            ({"percentiles": ("a", "b")}, "percentiles must be"),
            ({"gamma": np.array([1.0, 2.0])}, "gamma must be"),
            ({"prior": None}, "prior=None is not known"),
            ({"prior": "none"}, "prior='none' is not known"),
            ({"prior": np.eye(2)}, r"shape \(3, 3\)"),
            ({"prior": np.diag([1.0, 1.0, 0.0])}, "singular"),
            ({"prior": np.diag([1.0, 1.0, -1.0])}, "semi-definite"),
            ({"tol": -1}, "tol must be"),
            ({"max_iter": 0}, "max_iter must be"),
        ],
    )
    def test_bad_ones(self, settings, message):
        with pytest.raises(ValueError, match=message):
            ITML(**settings).fit(*blobs())

    @pytest.mark.parametrize("bounds", [(1.0, 4.0), [[1.0, 4.0]], [[1.0], [4.0]], np.array([[1.0], [4.0]])])
    def test_two_bounds_in_any_shape(self, bounds):
        X, y = blobs((10, 10))
        model = ITML(bounds=bounds, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.bounds_, [1.0, 4.0])
        plain = ITML(bounds=(1.0, 4.0), random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.components_, plain.components_)

    def test_random_prior(self):
        X, y = blobs((10, 10))
        pairs, signs = pairs_of(y)
        one, same, other = (ITML(prior="random", random_state=seed).fit_pairs(pairs, signs, X).components_ for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert not np.allclose(one, other)
        # Similar pairs that are near enough change nothing: what is left is the prior, with the identity as mean.
        priors = [
            ITML(prior="random", bounds=(1e9, 1e9), random_state=seed).fit_pairs([[0, 1]], [1], X).get_mahalanobis_matrix()
            for seed in range(300)
        ]
        np.testing.assert_allclose(np.mean(priors, axis=0), np.eye(3), atol=0.2)
        assert np.linalg.eigvalsh(priors).min() > 0

    @pytest.mark.parametrize(
        "matrix", [np.diag([1.0, 1.0, 0.0]), np.ones((3, 3)), np.diag([1.0, 2.0, 3.0]) @ np.ones((3, 3)) @ np.diag([1.0, 2, 3])]
    )
    def test_singular_priors_are_linear_algebra_errors(self, matrix):
        X, y = blobs((10, 10))
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            ITML(prior=matrix).fit(X, y)
        with pytest.raises(np.linalg.LinAlgError, match="singular"):
            ITML(prior="covariance").fit(np.hstack([X, X[:, :1]]), y)

    def test_covariance_as_prior(self):
        X, y = blobs((20, 20))
        named = ITML(prior="covariance", random_state=0).fit(X, y).get_mahalanobis_matrix()
        given = ITML(prior=np.linalg.inv(np.cov(X.T)), random_state=0).fit(X, y).get_mahalanobis_matrix()
        np.testing.assert_allclose(named, given, rtol=1e-5, atol=1e-7)
        units = np.array([1e-6, 1.0, 1e6])
        scaled = ITML(prior="covariance", random_state=0, bounds=(1.0, 6.0)).fit(X * units, y).get_mahalanobis_matrix()
        plain = ITML(prior="covariance", random_state=0, bounds=(1.0, 6.0)).fit(X, y).get_mahalanobis_matrix()
        np.testing.assert_allclose(scaled * np.outer(units, units), plain, rtol=1e-4, atol=1e-6)
        with pytest.raises(ValueError, match="remove constant or collinear"):
            ITML(prior="covariance").fit(np.hstack([X, np.ones((40, 1))]), y)


class TestKernel:
    X, y = blobs((12, 12), d=3)

    def kernel(self, X, Z):
        return oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 1.5), X, Z)

    def test_distances_are_those_of_the_feature_space(self):
        """A^-1 = I + sum_c s_c lambda_c v_c v_c' with v_c = phi(a) - phi(b), written in kernel values only."""
        model = KernelITML(bandwidth=1.5, random_state=0, n_constraints=15).fit(self.X, self.y)
        new = np.random.default_rng(3).normal(size=(5, 3))
        points = np.vstack([self.X, new])
        K = self.kernel(points, points)
        E = np.eye(len(points))
        V = E[model.pairs_[:, 0]] - E[model.pairs_[:, 1]]  # coordinates of the v_c in terms of the phi(x_i)
        moved = model.multipliers_ > 0
        V, weights = V[moved], (model.pair_signs_ * model.multipliers_)[moved]
        # Woodbury: A = I - Phi'V' (diag(1/w) + V K V')^-1 V Phi.
        learned = K - K @ V.T @ np.linalg.solve(np.diag(1 / weights) + V @ K @ V.T, V @ K)
        squares = np.add.outer(np.diag(learned), np.diag(learned)) - 2 * learned
        n = len(self.X)
        train = np.array([(i, j) for i in range(n) for j in range(i)])
        found = model.pair_distance(np.stack([points[train[:, 0]], points[train[:, 1]]], axis=1))
        np.testing.assert_allclose(found**2, squares[train[:, 0], train[:, 1]], rtol=1e-5, atol=1e-8)
        # Between a new point and training points all is the same but for what the new point has outside of their span.
        coordinates = model.transform(points)
        across = ((coordinates[n:, None] - coordinates[None, :n]) ** 2).sum(-1)
        missing = squares[n:, :n] - across
        from_mean = np.diag(K)[n:] - 2 * K[n:, :n].mean(axis=1) + K[:n, :n].mean()
        outside = from_mean - np.sum(model.map(new) ** 2, axis=1)
        assert (outside > 1e-3).all()
        np.testing.assert_allclose(missing, np.repeat(outside[:, None], n, axis=1), rtol=1e-5, atol=1e-7)

    def test_all_components_of_the_linear_kernel_are_plain_itml(self):
        linear = ITML(random_state=0).fit(self.X, self.y)
        kernel = KernelITML(kernel="linear", random_state=0).fit(self.X, self.y)
        pairs = self.X[pairs_of(self.y)[0]]
        np.testing.assert_allclose(kernel.pair_distance(pairs), linear.pair_distance(pairs), rtol=1e-5)
        assert kernel.divergence_ == pytest.approx(linear.divergence_, rel=1e-6)

    @pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
    @pytest.mark.parametrize("repeats", [2, 6])
    def test_points_that_repeat(self, kernel, repeats):
        X, y = np.repeat(self.X, repeats, axis=0), np.repeat(self.y, repeats)
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            model = KernelITML(kernel=kernel, bandwidth=1.5, random_state=0).fit(X, y)
        assert np.linalg.norm(model.map(X)[model.pairs_[:, 0]] - model.map(X)[model.pairs_[:, 1]], axis=1).min() > 1e-3
        distinct = KernelITML(kernel=kernel, bandwidth=1.5, random_state=0).fit(self.X, self.y)
        np.testing.assert_allclose(model.bounds_, distinct.bounds_, rtol=0.1)

    def test_equal_points_are_recognised(self):
        X = np.vstack([self.X, self.X[:3]])
        pairs, signs = [[0, 24], [1, 25], [0, 1], [2, 5], [6, 7]], [-1, -1, 1, -1, 1]
        with pytest.warns(UserWarning, match="2 dissimilar pairs"):
            kernel = KernelITML(kernel="linear", bounds=(0.1, 1.0)).fit_pairs(pairs, signs, X)
        with pytest.warns(UserWarning, match="2 dissimilar pairs"):
            linear = ITML(bounds=(0.1, 1.0)).fit_pairs(pairs, signs, X)
        assert kernel.divergence_ == pytest.approx(linear.divergence_, rel=1e-6)

    def test_a_refit_forgets(self):
        model = KernelITML(kernel=lambda s, t: float(np.all(s == t)), random_state=0).fit(
            np.array([[1.0], [2.0], [3.0], [4.0]]), [0, 0, 1, 1]
        )
        model.fit_pairs([("a", "b"), ("c", "d")], [1, -1])
        assert not hasattr(model, "classes_")
        assert not hasattr(model, "n_features_in_")
        np.testing.assert_array_equal(model.pairs_, [[0, 1], [2, 3]])

    def test_pairs_of_anything(self):
        words = ["banana", "bandana", "cabana", "pepper", "peppers", "pepperoni"]
        kernel = lambda s, t: float(len(set(s) & set(t)))  # noqa: E731
        pairs, signs = [("banana", "cabana"), ("pepper", "peppers"), ("banana", "pepper")], [1, 1, -1]
        model = KernelITML(kernel=kernel, bounds=(1.0, 9.0)).fit_pairs(pairs, signs)
        near, _, far = model.pair_distance(pairs)
        assert near < far
        KernelITML(kernel=kernel).fit_pairs(pairs * 10, signs * 10)  # with bounds from the points
        K = np.array([[kernel(s, t) for t in words] for s in words])
        given = KernelITML(kernel="precomputed", bounds=(1.0, 9.0)).fit_pairs([[0, 2], [3, 4], [0, 3]], signs, K)
        coordinates = given.transform(K)
        assert np.linalg.norm(coordinates[0] - coordinates[3]) == pytest.approx(far, rel=1e-5)
