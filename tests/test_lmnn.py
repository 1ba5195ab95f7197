"""Does LMNN minimise the published objective, exactly, and is it never worse than metric-learn?"""

import json
import runpy
import warnings
from pathlib import Path

import numpy as np
import oracles
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import PCA, KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from outmetric import Status
from outmetric.baselines import LMNN, KernelLMNN, descent, margins

REFERENCE = json.loads((Path(__file__).parent / "reference" / "metric_learn.json").read_text())
DATA = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer, "digits": load_digits}


def blobs(sizes=(9, 7, 8), d=3, seed=0, spread=1.0):
    """Overlapping classes, in mixed order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return rng.normal(size=(len(y), d)) + spread * rng.normal(size=(len(sizes), d))[y], y


def reference_data(name):
    """As in reference/make_metric_learn.py."""
    X, y = DATA[name](return_X_y=True)
    X = StandardScaler().fit_transform(X[:500])
    return X + 1e-3 * np.sin(np.arange(X.size)).reshape(X.shape), y[:500]


def problem(X, y, k=2, mu=0.5):
    return margins.Margins(X, y, margins.target_neighbours(X, y, k), mu)


def padded(neighbours, k):
    return np.array([[*some, *[-1] * (k - len(some))] for some in neighbours])


class TestObjective:
    @pytest.mark.parametrize("sizes", [(9, 7, 8), (12, 12), (6, 2, 1, 5)])
    @pytest.mark.parametrize("k", [1, 2, 4])
    def test_target_neighbours_are_the_nearest_of_the_class(self, sizes, k):
        X, y = blobs(sizes)
        np.testing.assert_array_equal(margins.target_neighbours(X, y, k), padded(oracles.target_neighbours(X, y, k), k))

    def test_equally_near_neighbours_are_taken_in_their_order(self):
        X = np.array([[0.0], [1.0], [-1.0], [1.0]])
        np.testing.assert_array_equal(margins.target_neighbours(X, np.zeros(4, dtype=int), 2)[0], [1, 2])

    @pytest.mark.parametrize("sizes", [(9, 7, 8), (12, 12), (6, 2, 1, 5)])
    @pytest.mark.parametrize("mu", [0.5, 0.2])
    @pytest.mark.parametrize("rows", [1, 3])
    @pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
    def test_equals_its_definition(self, sizes, mu, rows, scale):
        X, y = blobs(sizes)
        L = scale * np.random.default_rng(1).normal(size=(rows, 3))
        model = problem(X, y, mu=mu)
        expected = oracles.lmnn(L, X, y, oracles.target_neighbours(X, y, 2), mu)
        assert model.evaluate(model.inner(L)).objective == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("rounding", [0.0, 0.01, 0.3])
    @pytest.mark.parametrize("sizes", [(9, 7, 8), (6, 2, 1, 5)])
    def test_gradient_equals_finite_differences(self, rounding, sizes):
        X, y = blobs(sizes)
        model = problem(X, y)
        L = np.random.default_rng(1).normal(size=(2, 3))
        numerical = oracles.numerical_gradient(lambda L: model.evaluate(L, rounding).rounded, L, step=1e-6)
        np.testing.assert_allclose(model.evaluate(L, rounding).gradient, numerical, rtol=1e-6, atol=1e-6)

    def test_rounding_adds_an_eighth_of_its_width_at_most(self):
        X, y = blobs()
        model, L = problem(X, y), np.random.default_rng(1).normal(size=(3, 3))
        plain = model.evaluate(L)
        assert plain.rounded == plain.objective
        for rounding in (1.0, 0.1, 0.01):
            rounded = model.evaluate(L, rounding)
            assert rounded.objective == pytest.approx(plain.objective, rel=1e-12)
            assert 0 <= rounded.rounded - plain.objective <= 0.5 * (len(X) * 2 * len(X)) * rounding / 8
        assert model.evaluate(L, 1.0).rounded > plain.objective

    def test_active_triplets_are_counted(self):
        X, y = np.array([[0.0], [1.0], [1.5], [9.0]]), np.array([0, 0, 1, 1])
        # The margin of 0 reaches to a squared distance of 1 + 1, with none in it; that of 1 too, with 1.5; that of 1.5 to
        # 1 + 56.25, with both others; that of 9 too, with none.
        assert problem(X, y, k=1).evaluate(problem(X, y, k=1).inner(np.eye(1))).active == 3

    def test_a_change_of_coordinates_and_back(self):
        X, y = blobs()
        X[:, 1] *= 1e3
        model, start = problem(X, y), np.eye(3)
        L = np.random.default_rng(2).normal(size=(3, 3))
        np.testing.assert_allclose(model.outer(model.inner(L), start), L, rtol=1e-9, atol=1e-9)


class TestImpostorSearch:
    @pytest.mark.parametrize("settings", [{}, {"BLOCK": 50}, {"REMEMBERED": 60}, {"DENSE": 1.0}, {"DENSE": 0.0}, {"SKIN": 0.0}])
    def test_finds_all_pairs_as_the_points_move(self, monkeypatch, settings):
        for name, value in settings.items():
            monkeypatch.setattr(margins, name, value)
        rng = np.random.default_rng(0)
        labels = np.repeat([0, 1, 2, 3], [10, 1, 17, 9])
        search = margins.ImpostorSearch(labels)
        Z, radii = rng.normal(size=(37, 2)), rng.uniform(0.1, 2, size=37)
        for step in (0.0, 1e-3, 1e-3, 0.01, 0.01, 0.1, 0.01, 1.0, 0.0, 1e-3):
            Z = Z + step * rng.normal(size=Z.shape)
            radii = radii * (1 + step * rng.uniform(size=37))
            found = {}
            for block, rows, columns, distances in search.pairs(Z, radii):
                assert (np.diff(rows) >= 0).all()
                assert ((block.start <= rows) & (rows < block.stop)).all()
                found |= dict(zip(zip(rows.tolist(), columns.tolist(), strict=True), distances, strict=True))
            squares = ((Z[:, None] - Z[None]) ** 2).sum(-1)
            wanted = {
                (i, j): squares[i, j] for i in range(37) for j in range(37) if labels[i] != labels[j] and squares[i, j] < radii[i]
            }
            assert found.keys() == wanted.keys()
            np.testing.assert_allclose([found[pair] for pair in wanted], list(wanted.values()), rtol=1e-9, atol=1e-12)

    def test_remembers_while_points_move_little(self):
        X, y = blobs((30, 30, 30), d=2)
        model = problem(X, y)
        for step in range(20):
            model.evaluate(model.inner((1 + 1e-4 * step) * np.eye(2)))
        assert model._search.searches == 1

    @pytest.mark.parametrize("settings", [{"BLOCK": 50}, {"REMEMBERED": 0}, {"DENSE": 1.0, "SKIN": 0.5}])
    def test_memory_settings_do_not_change_the_result(self, monkeypatch, settings):
        X, y = blobs((15, 12, 14))
        expected = LMNN(tol=1e-4).fit(X, y)
        for name, value in settings.items():
            monkeypatch.setattr(margins, name, value)
        found = LMNN(tol=1e-4).fit(X, y)
        assert found.objective_ == pytest.approx(expected.objective_, rel=1e-4)


class TestMinimum:
    @pytest.mark.parametrize("mu", [0.5, 0.2])
    @pytest.mark.parametrize("seed", [0, 1])
    def test_is_that_of_a_semidefinite_program(self, mu, seed):
        X, y = blobs(seed=seed)
        optimum = oracles.lmnn_by_cvxpy(X, y, oracles.target_neighbours(X, y, 3), mu)
        model = LMNN(push_weight=mu, tol=1e-4).fit(X, y)
        assert model.objective_ == pytest.approx(optimum, rel=2e-4)
        assert model.objective_ * (1 - model.dual_gap_) <= optimum * (1 + 1e-6)
        assert optimum <= model.objective_ * (1 + 1e-6)
        assert model.dual_gap_ < 1e-3

    @pytest.mark.parametrize("rounding", [0.001, 0.1, 1.0])
    def test_the_bound_holds_anywhere(self, rounding):
        X, y = blobs()
        optimum = oracles.lmnn_by_cvxpy(X, y, oracles.target_neighbours(X, y, 2), 0.5)
        model, rng = problem(X, y), np.random.default_rng(0)
        for scale in (0.1, 1, 3):
            assert 0 <= model.lower_bound(scale * rng.normal(size=(3, 3)), rounding) <= optimum * (1 + 1e-6)

    @pytest.mark.parametrize("k", [1, 3])
    @pytest.mark.parametrize("name", sorted(DATA))
    def test_is_not_above_that_of_metric_learn(self, name, k):
        X, y = reference_data(name)
        model = LMNN(n_neighbors=k).fit(X, y)
        assert model.objective_ <= REFERENCE["lmnn"][name][str(k)] * (1 + 1e-6)
        assert model.status_ is Status.CONVERGED

    def test_the_reference_is_made_from_the_same_data(self):
        made = runpy.run_path(str(Path(__file__).parent / "reference" / "make_metric_learn.py"))
        for name in DATA:
            np.testing.assert_array_equal(made["data"](name)[0], reference_data(name)[0])

    def test_does_not_depend_on_rotation_or_origin(self):
        X, y = blobs((20, 20))
        turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
        one, other = LMNN(tol=1e-4).fit(X, y), LMNN(tol=1e-4).fit(X @ turn + 7, y)
        assert other.objective_ == pytest.approx(one.objective_, rel=2e-4)

    def test_objective_is_that_of_the_components(self):
        X, y = blobs((20, 20), d=4)
        for model in (LMNN(push_weight=0.3).fit(X, y), LMNN(2, push_weight=0.3).fit(X, y)):
            expected = oracles.lmnn(model.components_, X, y, oracles.target_neighbours(X, y, 3), 0.3)
            assert model.objective_ == pytest.approx(expected, rel=1e-9)

    def test_low_rank_minimum_is_stationary(self):
        X, y = blobs((20, 20, 20), d=5)
        model = LMNN(2, tol=1e-4).fit(X, y)
        assert model.components_.shape == (2, 5)
        assert model.history_[-1].steepness <= 1e-4
        # The full metric can only be better, and bounds the low-rank one from below.
        full = LMNN(tol=1e-4).fit(X, y)
        assert full.objective_ <= model.objective_
        assert model.objective_ * (1 - model.dual_gap_) <= full.objective_ * (1 + 1e-6)

    def test_stops_at_max_iter_with_a_warning(self):
        X, y = blobs((20, 20))
        with pytest.warns(ConvergenceWarning, match="max_iter was reached"):
            model = LMNN(max_iter=3, tol=1e-8).fit(X, y)
        assert model.n_iter_ == len(model.history_) == 3
        assert model.status_ is Status.ITERATION_LIMIT

    def test_history_falls_and_tells(self, capsys):
        X, y = blobs((20, 20))
        model = LMNN(verbose=True, tol=1e-4).fit(X, y)
        for rounding in descent.ROUNDINGS:
            values = [record.rounded for record in model.history_ if record.rounding == rounding]
            assert (np.diff(values) < 0).all()
        assert {record.rounding for record in model.history_} >= set(descent.ROUNDINGS[:2])
        assert len(capsys.readouterr().err.splitlines()) == model.n_iter_

    def test_a_smaller_tol_comes_nearer(self):
        X, y = reference_data("wine")
        loose, tight = LMNN(tol=0.1).fit(X, y), LMNN(tol=1e-3).fit(X, y)
        assert tight.objective_ < loose.objective_
        assert tight.dual_gap_ < loose.dual_gap_


def separated(seed=0):
    """The first feature tells the classes, the others nothing."""
    rng = np.random.default_rng(seed)
    y = np.arange(30) % 2
    X = rng.normal(size=(30, 10))
    X[:, 0] = 3 * y + 0.3 * X[:, 0]
    return X, y


class TestLostDirections:
    """Stationary in L, but not in M = L'L: L = 0, and every L that has lost a direction."""

    @pytest.mark.parametrize("mu", [0.02, 0.03])
    @pytest.mark.parametrize("seed", range(3))
    def test_a_weak_push_does_not_collapse(self, mu, seed):
        X, y = separated(seed)
        optimum = oracles.lmnn_by_cvxpy(X, y, oracles.target_neighbours(X, y, 3), mu)
        model = LMNN(push_weight=mu).fit(X, y)
        assert model.status_ is Status.CONVERGED
        assert model.objective_ * (1 - model.dual_gap_) <= optimum * (1 + 1e-6)
        assert model.objective_ <= optimum / (1 - model.dual_gap_) * (1 + 1e-6)
        assert model.dual_gap_ <= 0.01

    @pytest.mark.parametrize("seed", [1, 16, 34, 58])
    def test_few_points_in_a_plane(self, seed):
        X, y = np.random.default_rng(seed).normal(size=(9, 2)), np.arange(9) % 2
        optimum = oracles.lmnn_by_cvxpy(X, y, oracles.target_neighbours(X, y, 3), 0.571)
        model = LMNN(push_weight=0.571, tol=1e-4).fit(X, y)
        assert model.objective_ == pytest.approx(optimum, rel=2e-4)
        assert model.status_ is Status.CONVERGED

    @pytest.mark.parametrize("rank", [1, 2])
    def test_a_start_without_some_directions(self, rank):
        X, y = blobs()
        optimum = oracles.lmnn_by_cvxpy(X, y, oracles.target_neighbours(X, y, 3), 0.5)
        model = LMNN(init=np.diag([1.0, 1.0, 0.0] if rank == 2 else [1.0, 0.0, 0.0]), tol=1e-4).fit(X, y)
        assert model.objective_ == pytest.approx(optimum, rel=2e-4)

    @pytest.mark.filterwarnings("ignore:Solution may be inaccurate")  # of the semi-definite program
    def test_with_a_kernel(self):
        X, y = separated()
        model = KernelLMNN(4, push_weight=0.02).fit(X, y)
        Z = model.map(X)
        optimum = oracles.lmnn_by_cvxpy(Z, y, oracles.target_neighbours(Z, y, 3), 0.02)
        assert model.objective_ == pytest.approx(optimum, rel=0.01)
        assert model.dual_gap_ <= 0.01

    def test_few_components_leave_zero_too(self):
        X, y = separated()
        model = LMNN(2, push_weight=0.02, init=np.eye(10)[1:3]).fit(X, y)
        assert model.objective_ < 0.5 * 0.02 * 30 * 3 * 15  # of L = 0

    def test_zero_may_be_the_optimum(self):
        X, y = load_wine(return_X_y=True)
        X, y = StandardScaler().fit_transform(X)[::5], y[::5]
        optimum = oracles.lmnn_by_cvxpy(X, y, oracles.target_neighbours(X, y, 3), 0.001)
        model = LMNN(push_weight=0.001).fit(X, y)
        assert model.status_ is Status.CONVERGED
        assert model.dual_gap_ == pytest.approx(0, abs=1e-9)
        assert model.objective_ == pytest.approx(optimum, rel=1e-6)
        np.testing.assert_allclose(model.components_, 0, atol=1e-6)

    def test_what_tells_one_class_from_the_others(self):
        """In the last feature no targets differ, so that it costs nothing there; the bound must still be one, and tight."""
        X, y = blobs()
        X = np.column_stack([X, y == 0])
        optimum = oracles.lmnn_by_cvxpy(X, y, oracles.target_neighbours(X, y, 3), 0.5)
        model = LMNN(tol=1e-3).fit(X, y)
        assert model.status_ is Status.CONVERGED
        assert model.dual_gap_ <= 1e-3
        assert model.objective_ * (1 - model.dual_gap_) <= optimum * (1 + 1e-6)
        assert optimum <= model.objective_ * (1 + 1e-6)

    @pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-4])
    @pytest.mark.parametrize("mu", [0.01, 0.1, 0.9, 0.99])
    def test_converged_means_that_the_gap_is_closed(self, mu, tol):
        for seed in range(5):
            X, y = blobs((7, 6, 8), d=4, seed=seed, spread=2.0)
            model = LMNN(push_weight=mu, tol=tol).fit(X, y)
            left = model.objective_ / (mu * np.sum(model.target_neighbors_ >= 0))
            assert model.status_ is Status.CONVERGED
            assert model.dual_gap_ <= tol or left <= tol

    def test_a_local_optimum_is_not_called_convergence(self):
        X, y = blobs((20, 20, 20), d=5)
        model = LMNN(1).fit(X, y)
        assert model.dual_gap_ > 0.01
        assert model.status_ is Status.LOCAL_OPTIMUM


class TestInit:
    X, y = blobs((20, 20, 20), d=5)

    def start(self, **settings):
        """components_ before the first step."""
        model = LMNN(**settings)
        model.classes_ = np.unique(self.y)
        return model._starts(self.X, self.y)[0]

    def test_named_starts(self):
        np.testing.assert_array_equal(self.start(init="identity"), np.eye(5))
        np.testing.assert_array_equal(self.start(), np.eye(5))
        pca = PCA(3).fit(self.X).components_
        np.testing.assert_allclose(np.abs(self.start(n_components=3, init="pca")), np.abs(pca))
        np.testing.assert_allclose(self.start(n_components=3), self.start(n_components=3, init="pca"))
        lda = LinearDiscriminantAnalysis().fit(self.X, self.y).scalings_.T
        np.testing.assert_allclose(self.start(n_components=2, init="lda"), lda)
        np.testing.assert_allclose(self.start(n_components=2), lda)
        given = np.arange(10.0).reshape(2, 5)
        np.testing.assert_array_equal(self.start(init=given), given)

    @pytest.mark.parametrize("seed", range(4))
    def test_few_components_take_the_best_of_several_starts(self, seed):
        X, y = blobs((20, 20, 20), d=6, seed=seed)
        chosen = LMNN(2).fit(X, y)
        others = [LMNN(2, init=init).fit(X, y).objective_ for init in ("lda", "pca", "identity")]
        assert chosen.objective_ <= min(others) * (1 + 1e-9)

    def test_two_components_of_iris(self):
        X, y = load_iris(return_X_y=True)
        assert LMNN(2).fit(StandardScaler().fit_transform(X), y).objective_ < 303  # 301.8 from two starts, 320 from another

    def test_starts_without_spread_are_not_tried(self):
        X = self.X.copy()
        X[:, :2] = 3.0  # what two rows of the identity choose
        assert LMNN(2).fit(X, self.y).objective_ > 0

    def test_random_starts(self):
        one, same, other = (LMNN(2, init="random", random_state=seed).fit(self.X, self.y).components_ for seed in (0, 0, 1))
        np.testing.assert_array_equal(one, same)
        assert not np.allclose(one, other)
        start = self.start(n_components=2, init="random", random_state=0)
        assert start.shape == (2, 5)
        full = [LMNN(init="random", random_state=seed, tol=1e-4).fit(self.X, self.y).objective_ for seed in range(3)]
        np.testing.assert_allclose(full, LMNN(tol=1e-4).fit(self.X, self.y).objective_, rtol=2e-4)

    def test_the_start_is_used(self):
        given = np.ones((1, 5))
        with pytest.warns(ConvergenceWarning):
            model = LMNN(init=given, max_iter=1).fit(self.X, self.y)
        assert model.history_[0].rounded < problem(self.X, self.y, 3).evaluate(problem(self.X, self.y, 3).inner(given), 0.1).rounded
        assert model.components_.shape == (1, 5)

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"init": "none"}, "init='none' is not known"),
            ({"init": np.ones((2, 4))}, r"shape \(n_components, 5\); its shape is \(2, 4\)"),
            ({"init": np.ones((2, 5)), "n_components": 3}, r"shape \(3, 5\)"),
            ({"init": "lda", "n_components": 3}, "at most 2 directions"),
            ({"n_components": 6}, "from 1 to the number of features, 5"),
            ({"n_components": 0}, "from 1 to the number of features"),
            ({"n_neighbors": 0}, "n_neighbors must be"),
            ({"push_weight": 1.0}, "between 0 and 1"),
            ({"push_weight": 0.0}, "push_weight must be"),
            ({"tol": -1.0}, "tol must be"),
            ({"max_iter": 0}, "max_iter must be"),
        ],
    )
    def test_bad_parameters(self, settings, message):
        with pytest.raises(ValueError, match=message):
            LMNN(**settings).fit(self.X, self.y)

    def test_pca_needs_samples(self):
        with pytest.raises(ValueError, match="at most 4 directions"):
            LMNN(5, init="pca", n_neighbors=1).fit(self.X[:4], [0, 0, 1, 1])


class TestAwkwardData:
    def test_small_classes_use_what_they_have(self):
        X, y = blobs((12, 3, 1))
        with pytest.warns(UserWarning, match="2 classes have n_neighbors=3 samples or fewer, the smallest 1"):
            model = LMNN().fit(X, y)
        np.testing.assert_array_equal(np.sum(model.target_neighbors_ >= 0, axis=1), np.array([3, 2, 0])[y])
        expected = oracles.lmnn(model.components_, X, y, oracles.target_neighbours(X, y, 3), 0.5)
        assert model.objective_ == pytest.approx(expected, rel=1e-9)

    def test_no_class_with_two_samples(self):
        with pytest.raises(ValueError, match="no class has two samples"):
            LMNN().fit(np.eye(3), [0, 1, 2])

    def test_directions_that_the_data_do_not_span_stay_as_they_were(self):
        X, y = blobs((20, 20))
        wider = np.hstack([X[:, :1], np.full((40, 1), 5.0), X[:, 1:]])
        model, narrow = LMNN().fit(wider, y), LMNN().fit(X, y)
        assert model.objective_ == pytest.approx(narrow.objective_, rel=1e-3)
        np.testing.assert_allclose(model.components_[:, 1], [0, 1, 0, 0], atol=1e-9)

    def test_no_two_points_differ(self):
        with pytest.raises(ValueError, match="all training points coincide"):
            LMNN(n_neighbors=1).fit(np.ones((6, 2)), [0, 0, 0, 1, 1, 1])

    @pytest.mark.parametrize("repeats", [2, 6])
    def test_rows_that_repeat(self, repeats):
        X, y = blobs((10, 10))
        model = LMNN(n_neighbors=1).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
        assert model.status_ is Status.CONVERGED
        # All targets coincide with their points: the objective can only push, and the infimum is zero.
        assert model.objective_ <= 0.01 * 0.5 * 20 * repeats

    def test_groups_far_apart(self):
        """Where |x|^2 - 2 x'z + |z|^2 has no digit left."""
        X, y = blobs((30, 30))
        far = X + np.outer(np.arange(60) % 2, [1e8, 0, 0])
        np.testing.assert_array_equal(
            margins.target_neighbours(far, y, 3)[:, 0], padded(oracles.target_neighbours(far, y, 3), 3)[:, 0]
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LMNN().fit(far, y)
        targets = [row.tolist() for row in model.target_neighbors_]
        assert model.objective_ == pytest.approx(oracles.lmnn(model.components_, far, y, targets, 0.5), rel=1e-4)
        assert 0 <= model.dual_gap_ <= 1

    def test_no_progress_is_not_called_convergence(self):
        X, y = blobs((30, 30))
        stamps = np.where(np.arange(60) % 2, 1.6e9, 1.7e9) + np.random.default_rng(0).uniform(0, 10, 60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LMNN().fit(np.column_stack([stamps, X]), y)
        near = model.dual_gap_ <= 0.01 or model.history_[-1].steepness <= 0.01
        assert near == (model.status_ is Status.CONVERGED)

    def test_a_start_without_spread(self):
        X, y = blobs((10, 10))
        X[:, 0] = 3.0
        for settings in ({"init": np.zeros((3, 3))}, {"n_components": 1, "init": "identity"}):
            with pytest.raises(ValueError, match="maps all training points to one"):
                LMNN(**settings).fit(X, y)

    def test_columns_of_very_different_units(self):
        X, y = blobs((20, 20))
        plain, scaled = LMNN(tol=1e-4).fit(X, y), LMNN(tol=1e-4).fit(X, y)
        units = np.array([1e-9, 1.0, 1e9])
        model = margins.Margins(X * units, y, plain.target_neighbors_, 0.5)
        found = descent.minimise(model, np.diag(1 / units), tol=1e-4, max_iter=1000)
        assert found.objective == pytest.approx(scaled.objective_, rel=1e-3)

    def test_a_class_of_one_does_not_undo_the_memory(self):
        X, y = blobs((40, 40, 1))
        model = problem(X, y)
        for step in range(20):
            model.evaluate(model.inner((1 + 1e-4 * step) * np.eye(3)))
        assert model._search.searches == 1

    @pytest.mark.parametrize("scale", [1e-200, 1e-80, 1e80, 1e200])
    def test_distances_beyond_double_precision(self, scale):
        X, y = blobs((8, 8))
        with pytest.raises(ValueError, match="not representable"):
            LMNN().fit(X * scale, y)

    @pytest.mark.parametrize("points", ["duplicates across classes", "more features than samples", "huge", "tiny"])
    def test_answers_are_finite(self, points):
        X, y = blobs((8, 8))
        X = {
            "duplicates across classes": np.vstack([X[:8], X[:8]]),
            "more features than samples": np.random.default_rng(0).normal(size=(16, 40)),
            "huge": X * 1e8,
            "tiny": X * 1e-8,
        }[points]
        model = LMNN().fit(X, y)
        assert np.isfinite(model.transform(X)).all()
        assert np.isfinite(model.objective_)
        assert 0 <= model.dual_gap_ <= 1
        assert model.status_ is Status.CONVERGED

    def test_scale_does_not_matter_to_the_optimum(self):
        X, y = blobs((20, 20))
        models = [LMNN(tol=1e-4).fit(X * scale, y) for scale in (1e-60, 1e-8, 1.0, 1e8, 1e60)]
        np.testing.assert_allclose([model.objective_ for model in models], models[2].objective_, rtol=1e-3)
        assert {model.status_ for model in models} == {Status.CONVERGED}


class TestKernel:
    X, y = blobs((15, 15, 15), d=4)

    def test_map_is_kernel_pca(self):
        model = KernelLMNN(6, bandwidth=2.0).fit(self.X, self.y)
        pca = KernelPCA(6, kernel="rbf", gamma=1 / 8).fit(self.X)
        new = np.random.default_rng(5).normal(size=(7, 4))
        np.testing.assert_allclose(np.abs(model.map(new)), np.abs(pca.transform(new)), atol=1e-9)
        np.testing.assert_allclose(model.transform(new), model.map(new) @ model.components_.T)

    def test_all_components_of_the_linear_kernel_are_plain_lmnn(self):
        # Centred, since kernel PCA is.
        X = self.X - self.X.mean(axis=0)
        linear, kernel = LMNN(tol=1e-4).fit(X, self.y), KernelLMNN(None, kernel="linear", tol=1e-4).fit(X, self.y)
        np.testing.assert_array_equal(kernel.target_neighbors_, linear.target_neighbors_)
        assert kernel.objective_ == pytest.approx(linear.objective_, rel=2e-4)

    def test_objective_is_that_of_the_mapped_points(self):
        model = KernelLMNN(0.9, bandwidth=1.0, n_neighbors=2, push_weight=0.3).fit(self.X, self.y)
        Z = model.map(self.X)
        expected = oracles.lmnn(model.components_, Z, self.y, oracles.target_neighbours(Z, self.y, 2), 0.3)
        assert model.objective_ == pytest.approx(expected, rel=1e-9)

    def test_precomputed_and_strings(self):
        model = KernelLMNN(5, bandwidth=2.0).fit(self.X, self.y)
        K = oracles.gram_matrix(lambda x, z: oracles.gaussian(x, z, 2.0), self.X, self.X)
        given = KernelLMNN(5, kernel="precomputed").fit(K, self.y)
        np.testing.assert_allclose(given.transform(K), model.transform(self.X), atol=1e-6)
        words = ["banana", "bandana", "cabana", "pepper", "peppers", "pepperoni"]
        text = KernelLMNN(None, kernel=lambda s, t: float(len(set(s) & set(t))), n_neighbors=2).fit(words, [0, 0, 0, 1, 1, 1])
        near, far = text.pair_distance([("banana", "cabana"), ("banana", "pepper")])
        assert near < far

    def test_number_of_components(self):
        variances = KernelPCA(kernel="rbf", gamma=1 / 8, eigen_solver="dense").fit(self.X).eigenvalues_
        shares = np.cumsum(variances) / np.sum(variances)
        for share in (0.5, 0.9, 0.95):
            model = KernelLMNN(share, bandwidth=2.0).fit(self.X, self.y)
            assert len(model.components_) == np.sum(shares < share) + 1
        assert len(KernelLMNN(None, bandwidth=2.0).fit(self.X, self.y).components_) == np.sum(variances > 1e-6 * variances[0])
        assert len(KernelLMNN(7, bandwidth=2.0).fit(self.X, self.y).components_) == 7
        assert len(KernelLMNN(99, kernel="linear").fit(self.X, self.y).components_) == 4

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"n_components": 1.5}, "share of variance"),
            ({"n_components": 0}, "share of variance"),
            ({"n_components": True}, "share of variance"),
            ({"bandwidth": [1.0, 2.0]}, "scalar kernel and one bandwidth"),
            ({"kernel": "no such"}, "not known"),
            ({"kernel_params": 3}, "kernel_params must be"),
            ({"kernel": "sigmoid", "kernel_params": {"gamma": 3.0, "coef0": -5.0}}, "semi-definite"),
            ({"kernel": lambda x, z: 1.0}, "does not tell any two training points apart"),
        ],
    )
    def test_bad_parameters(self, settings, message):
        with pytest.raises(ValueError, match=message):
            KernelLMNN(**settings).fit(self.X, self.y)
