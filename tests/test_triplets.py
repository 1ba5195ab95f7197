"""Does LMNN learn from given triplets and quadruplets what it says, exactly?"""

import numpy as np
import oracles
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError
from test_lmnn import blobs

from outmetric import Status, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN, comparisons


def triplets_of(y, count=60, seed=0):
    """Some triplets (anchor, near, far) that agree with the labels."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(y), size=(50 * count, 3))
    a, b, c = y[rows].T
    return rows[(rows[:, 0] != rows[:, 1]) & (a == b) & (a != c)][:count]


def quadruplets_of(y, count=60, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.integers(len(y), size=(50 * count, 4))
    a, b, c, e = y[rows].T
    return rows[(rows[:, 0] != rows[:, 1]) & (a == b) & (c != e)][:count]


def as_quadruplets(triplets):
    return np.asarray(triplets)[:, [0, 1, 0, 2]]


GIVEN = {
    "triplets": (lambda y, **settings: as_quadruplets(triplets_of(y, **settings))),
    "quadruplets": quadruplets_of,
}


class TestObjective:
    @pytest.mark.parametrize("kind", GIVEN)
    @pytest.mark.parametrize("mu", [0.5, 0.2])
    @pytest.mark.parametrize("rows", [1, 3])
    @pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
    def test_equals_its_definition(self, kind, mu, rows, scale):
        X, y = blobs()
        given = GIVEN[kind](y)
        given = np.vstack([given, given[:7]])
        L = scale * np.random.default_rng(1).normal(size=(rows, 3))
        loss = comparisons.Comparisons(X, given, mu)
        expected = oracles.comparisons(L, X, given.tolist(), mu)
        assert loss.evaluate(loss.inner(L)).objective == pytest.approx(expected, rel=1e-12)

    @pytest.mark.parametrize("kind", GIVEN)
    @pytest.mark.parametrize("rounding", [0.0, 0.01, 0.3])
    def test_gradient_equals_finite_differences(self, kind, rounding):
        X, y = blobs()
        loss = comparisons.Comparisons(X, GIVEN[kind](y), 0.4)
        L = np.random.default_rng(1).normal(size=(2, 3))
        numerical = oracles.numerical_gradient(lambda L: loss.evaluate(L, rounding).rounded, L, step=1e-6)
        np.testing.assert_allclose(loss.evaluate(L, rounding).gradient, numerical, rtol=1e-6, atol=1e-6)

    def test_a_toy_worked_by_hand(self):
        X = np.array([[0.0], [1.0], [1.5]])
        # The near pair is at 1, the far one at 2.25, and then at 0.25: the margin is kept, and missed by 1 + 1 - 0.25.
        loss = comparisons.Comparisons(X, np.array([[0, 1, 0, 2], [1, 0, 1, 2]]), 0.5)
        found = loss.evaluate(loss.inner(np.eye(1)))
        assert found.objective == pytest.approx(0.5 * (1 + 1) + 0.5 * 1.75)
        assert found.active == 1

    @pytest.mark.parametrize("block", [1, 7])
    def test_blocks_do_not_change_the_certificate(self, monkeypatch, block):
        X, y = blobs()
        given, L = triplets_of(y), np.random.default_rng(1).normal(size=(3, 3))
        whole = comparisons.Comparisons(X, as_quadruplets(given), 0.5).certify(L, 0.1)
        monkeypatch.setattr(comparisons, "BLOCK", block)
        parts = comparisons.Comparisons(X, as_quadruplets(given), 0.5).certify(L, 0.1)
        assert parts.bound == pytest.approx(whole.bound, rel=1e-9)
        np.testing.assert_allclose(parts.gradient, whole.gradient, rtol=1e-9, atol=1e-9)


class TestMinimum:
    @pytest.mark.parametrize("kind", GIVEN)
    @pytest.mark.parametrize("mu", [0.8, 0.5, 0.2])
    @pytest.mark.parametrize("seed", [0, 1, 2])
    def test_is_that_of_a_semidefinite_program(self, kind, mu, seed):
        X, y = blobs(seed=seed)
        given = GIVEN[kind](y, seed=seed)
        optimum = oracles.comparisons_by_cvxpy(X, given.tolist(), mu)
        model = LMNN(push_weight=mu, tol=1e-4).fit_quadruplets(given, X)
        assert model.status_ is Status.CONVERGED
        assert model.dual_gap_ <= 1e-4
        assert model.objective_ == pytest.approx(optimum, rel=2e-4)
        assert model.objective_ * (1 - model.dual_gap_) <= optimum * (1 + 1e-6)
        assert optimum <= model.objective_ * (1 + 1e-6)

    @pytest.mark.parametrize("rounding", [0.001, 0.1, 1.0])
    def test_the_bound_holds_anywhere(self, rounding):
        X, y = blobs()
        given = quadruplets_of(y)
        optimum = oracles.comparisons_by_cvxpy(X, given.tolist(), 0.5)
        loss, rng = comparisons.Comparisons(X, given, 0.5), np.random.default_rng(0)
        for scale in (0.1, 1, 3):
            assert 0 <= loss.lower_bound(scale * rng.normal(size=(3, 3)), rounding) <= optimum * (1 + 1e-6)

    @pytest.mark.parametrize("sizes", [(9, 7, 8), (12, 12)])
    def test_with_all_triplets_of_a_sample_it_is_lmnn(self, sizes):
        X, y = blobs(sizes)
        labelled = LMNN(tol=1e-4, n_neighbors=2).fit(X, y)
        targets = oracles.target_neighbours(X, y, 2)
        everything = [(i, j, other) for i in range(len(y)) for j in targets[i] for other in np.flatnonzero(y != y[i])]
        model = LMNN(tol=1e-4).fit_triplets(everything, X)
        assert model.objective_ == pytest.approx(labelled.objective_, rel=2e-4)

    def test_objective_is_that_of_the_components(self):
        X, y = blobs((20, 20), d=4)
        given = triplets_of(y)
        for model in (LMNN(push_weight=0.3), LMNN(2, push_weight=0.3)):
            model.fit_triplets(given, X)
            expected = oracles.comparisons(model.components_, X, as_quadruplets(given).tolist(), 0.3)
            assert model.objective_ == pytest.approx(expected, rel=1e-9)

    def test_few_components(self):
        X, y = blobs((20, 20, 20), d=5)
        given = triplets_of(y, 200)
        few, full = LMNN(2).fit_triplets(given, X), LMNN(tol=1e-4).fit_triplets(given, X)
        assert few.components_.shape == (2, 5)
        assert full.objective_ <= few.objective_
        assert few.objective_ * (1 - few.dual_gap_) <= full.objective_ * (1 + 1e-6)
        others = [LMNN(2, init=init).fit_triplets(given, X).objective_ for init in ("pca", "identity")]
        assert few.objective_ <= min(others) * (1 + 1e-9)

    def test_a_triplet_is_a_quadruplet_with_its_anchor_twice(self):
        X, y = blobs()
        given = triplets_of(y)
        one, other = LMNN().fit_triplets(given, X), LMNN().fit_quadruplets(as_quadruplets(given), X)
        np.testing.assert_array_equal(one.components_, other.components_)
        np.testing.assert_array_equal(one.comparisons_, as_quadruplets(given))

    def test_one_that_is_given_twice_counts_twice(self):
        X, y = blobs()
        given = as_quadruplets(triplets_of(y, 30))
        twice = np.vstack([given, given[:10]])
        optimum = oracles.comparisons_by_cvxpy(X, twice.tolist(), 0.5)
        model = LMNN(tol=1e-4).fit_quadruplets(twice, X)
        assert model.objective_ == pytest.approx(optimum, rel=2e-4)
        assert model.objective_ > 1.01 * LMNN(tol=1e-4).fit_quadruplets(given, X).objective_

    def test_where_all_can_be_kept_for_nothing(self):
        X = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 1.0]])  # near in the second feature, far in it only
        model = LMNN().fit_triplets([[0, 1, 2]], X)
        assert model.status_ is Status.CONVERGED
        assert model.objective_ <= 0.01 * 0.5
        assert model.pair_distance(X[[[0, 1]]]) < model.pair_distance(X[[[0, 2]]])

    def test_near_pairs_that_coincide_ask_for_the_margin_alone(self):
        X = np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 1.0], [5.0, 3.0]])
        model = LMNN(tol=1e-4).fit_triplets([[0, 0, 1], [2, 2, 3]], X)
        assert model.status_ is Status.CONVERGED
        assert (model.pair_distance(X[[[0, 1], [2, 3]]]) ** 2 >= 1 - 1e-3).all()

    def test_what_contradicts_itself_evenly_leaves_nothing(self):
        X = np.random.default_rng(0).normal(size=(8, 2))
        some = np.array([[0, 1, 2], [3, 4, 5], [6, 7, 0]])
        model = LMNN().fit_triplets(np.vstack([some, some[:, [0, 2, 1]]]), X)
        assert model.status_ is Status.CONVERGED
        assert model.objective_ == pytest.approx(0.5 * 6, rel=1e-6)  # that of L = 0
        np.testing.assert_allclose(model.components_, 0, atol=1e-4)

    def test_contradictions_that_leave_something(self):
        X, y = blobs()
        given = triplets_of(y, 40)
        mixed = as_quadruplets(np.vstack([given, given[:8, [0, 2, 1]]]))
        optimum = oracles.comparisons_by_cvxpy(X, mixed.tolist(), 0.7)
        model = LMNN(tol=1e-4, push_weight=0.7).fit_quadruplets(mixed, X)
        assert model.objective_ == pytest.approx(optimum, rel=2e-4)


class TestForms:
    X, y = blobs()
    given = triplets_of(y)
    kinds = pytest.mark.parametrize("kind", [LMNN, KernelLMNN])

    @kinds
    def test_points_and_row_numbers_agree(self, kind):
        used = np.unique(self.given)
        numbered = kind(tol=1e-5).fit_triplets(np.searchsorted(used, self.given), self.X[used])
        pointed = kind(tol=1e-5).fit_triplets(self.X[self.given])
        prepared = kind(tol=1e-5, preprocessor=self.X).fit_triplets(self.given)
        called = kind(tol=1e-5, preprocessor=lambda rows: self.X[rows]).fit_triplets(self.given.tolist())
        np.testing.assert_array_equal(prepared.components_, pointed.components_)
        np.testing.assert_array_equal(called.components_, pointed.components_)
        np.testing.assert_array_equal(prepared.comparisons_, pointed.comparisons_)
        assert numbered.objective_ == pytest.approx(pointed.objective_, rel=1e-4)
        pairs = self.X[:10].reshape(5, 2, 3)
        np.testing.assert_allclose(numbered.pair_distance(pairs), pointed.pair_distance(pairs), rtol=0.02)

    @kinds
    def test_comparisons_are_of_distinct_points_as_they_come(self, kind):
        model = kind().fit_triplets(self.X[[[5, 3, 8], [5, 8, 1]]])
        np.testing.assert_array_equal(model.comparisons_, [[0, 1, 0, 2], [0, 2, 0, 3]])
        assert model.n_samples_fit_ == 4

    def test_sparse_points(self):
        dense, sparse = (LMNN().fit_triplets(self.given, form(self.X)) for form in (np.asarray, scipy.sparse.csr_array))
        np.testing.assert_array_equal(sparse.components_, dense.components_)

    def test_objects(self):
        words = [("banana", "bandana", "pepper"), ("pepper", "peppers", "banana"), ("cabana", "banana", "pepper")]
        model = KernelLMNN(None, kernel=kernels.Spectrum(2)).fit_triplets(words)
        near, far = model.pair_distance([("banana", "cabana"), ("cabana", "peppers")])
        assert near < far
        prepared = KernelLMNN(None, kernel=kernels.Spectrum(2), preprocessor=["banana", "bandana", "pepper", "peppers", "cabana"])
        prepared.fit_triplets([[0, 1, 2], [2, 3, 0], [4, 0, 2]])
        np.testing.assert_allclose(prepared.pair_distance([[0, 4], [4, 3]]), [near, far])
        np.testing.assert_allclose(prepared.transform([0, 4]), model.transform(["banana", "cabana"]))

    def test_kernel_matrices(self):
        K = self.X @ self.X.T
        given = KernelLMNN(None, kernel="precomputed").fit_triplets(self.given, K)
        prepared = KernelLMNN(None, kernel="precomputed", preprocessor=K).fit_triplets(self.given)
        np.testing.assert_array_equal(prepared.components_, given.components_)
        np.testing.assert_allclose(prepared.pair_distance([[0, 1]]), given.pair_distance(K[[[0, 1]]]))

    @kinds
    def test_a_refit_forgets(self, kind):
        model = kind().fit(self.X, self.y).fit_triplets(self.given, self.X)
        assert not hasattr(model, "classes_")
        assert not hasattr(model, "target_neighbors_")
        assert f"{len(self.given)} comparisons" in model.summary()
        model.fit(self.X, self.y)
        assert not hasattr(model, "comparisons_")
        assert "3 target neighbours" in model.summary()


class TestBadInput:
    X = np.random.default_rng(0).normal(size=(4, 3))

    @pytest.mark.parametrize("kind", [LMNN, KernelLMNN])
    @pytest.mark.parametrize(
        ("triplets", "X", "message"),
        [
            ([[0, 1, 2]], None, "Row numbers need X"),
            ([[0, 1, 4]], X, "row numbers from 0 to 3"),
            ([[0, -1, 2]], X, "row numbers from 0 to 3"),
            ([[0, 1]], X, r"\(n_triplets, 3\)"),
            ([[0.5, 1.0, 2.0]], X, r"\(n_triplets, 3\)"),
            (np.empty((0, 3), dtype=int), X, "at least one triplet"),
            (np.empty((0, 3, 2)), None, "0 sample"),
            (np.full((1, 3, 3), np.nan), None, "NaN"),
            (np.ones((2, 2, 3)), None, r"shape \(n_triplets, 3, d\)"),
            (np.ones((2, 3, 3)), None, "1 sample"),
            (["abc", "def"], None, "sequence of triplets"),
            ([[0, 1, 0]], X, "no metric can satisfy any"),
            ([[0, 1, 1]], X, "no metric can satisfy any"),
        ],
    )
    def test_of_triplets(self, kind, triplets, X, message):
        with pytest.raises(ValueError, match=message):
            kind().fit_triplets(triplets, X)

    def test_hopeless_ones_are_left_out(self):
        with pytest.warns(UserWarning, match="3 quadruplets were left out"):
            model = LMNN().fit_quadruplets([[0, 1, 2, 3], [0, 1, 2, 2], [0, 1, 1, 0], [2, 3, 2, 3]], self.X)
        np.testing.assert_array_equal(model.comparisons_, [[0, 1, 2, 3]])

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"push_weight": 1.0}, "between 0 and 1"),
            ({"tol": -1.0}, "tol must be"),
            ({"n_components": 4}, "from 1 to the number of features, 3"),
            ({"init": "lda"}, "needs labels"),
            ({"init": "none"}, "is not known"),
        ],
    )
    def test_of_parameters(self, settings, message):
        with pytest.raises(ValueError, match=message):
            LMNN(**settings).fit_triplets([[0, 1, 2]], self.X)

    def test_forests_learn_from_labels(self):
        with pytest.raises(ValueError, match="learns from targets"):
            KernelLMNN(kernel=kernels.Forest()).fit_triplets([[0, 1, 2]], self.X)


@pytest.mark.parametrize("kind", [LMNN, ITML, KernelLMNN, KernelITML])
class TestPreprocessor:
    X, y = blobs((15, 15, 15), d=4)
    rows = np.random.default_rng(0).permutation(45)

    @pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array, np.ndarray.tolist])
    def test_row_numbers_in_the_place_of_points(self, kind, form):
        plain = kind(random_state=0).fit(self.X[self.rows], self.y[self.rows])
        model = kind(random_state=0, preprocessor=form(self.X)).fit(self.rows, self.y[self.rows])
        np.testing.assert_allclose(model.components_, plain.components_, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(model.transform([3, 7]), plain.transform(self.X[[3, 7]]), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(model.transform(self.X[[3, 7]]), plain.transform(self.X[[3, 7]]), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(model.pair_distance([[3, 7]]), plain.pair_distance(self.X[[[3, 7]]]), rtol=1e-9)
        np.testing.assert_allclose(model.pair_score(self.X[[[3, 7]]]), plain.pair_score(self.X[[[3, 7]]]), rtol=1e-9)
        reasons = model.explain([3], [7])
        np.testing.assert_allclose(reasons.contributions, plain.explain(self.X[[3]], self.X[[7]]).contributions, rtol=1e-6)

    def test_names_in_the_place_of_points(self, kind):
        files = {f"image{row}.png": point for row, point in enumerate(self.X)}
        model = kind(random_state=0, preprocessor=lambda names: np.array([files[name] for name in names]))
        model.fit(list(files), self.y)
        np.testing.assert_array_equal(model.transform(["image3.png"]), model.transform(self.X[[3]]))

    @pytest.mark.parametrize(
        ("preprocessor", "numbers", "message"),
        [
            (X, [0, 45], "from 0 to 44; they are int64 from 0 to 45"),
            (X, [0, -1], "from 0 to 44"),
            (X, [0.0, 1.0], "they are float64"),
            (X, ["a", "b"], "whole numbers"),
            (3, [0, 1], "preprocessor must be None.*it is a int"),
            ("points", [0, 1], "it is a str"),
            (lambda rows: np.ones((1, 4)), [0, 1], "1 points for 2 row numbers"),
            (lambda rows: np.full((len(rows), 4), np.nan), [0, 1], "NaN"),
        ],
    )
    def test_bad_ones(self, kind, preprocessor, numbers, message):
        with pytest.raises(ValueError, match=message):
            kind(preprocessor=preprocessor).fit(numbers, [0, 1])

    def test_old_names(self, kind):
        model = kind()
        with pytest.raises(NotFittedError), pytest.warns(FutureWarning):
            model.score_pairs(self.X[[[0, 1]]])
        model.fit(self.X, self.y)
        with pytest.warns(FutureWarning, match="pair_distance"):
            found = model.score_pairs(self.X[[[0, 1]]])
        np.testing.assert_array_equal(found, model.pair_distance(self.X[[[0, 1]]]))
