"""Are string kernels what their formulas say, and do they serve wherever a kernel does?"""

import itertools
import os
import pickle

import numpy as np
import oracles
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV
from outmetric.automatic.comparison import NEIGHBOURS
from outmetric.datasets import load_uci
from outmetric.kernels import Diagonal, Precomputed, Scalar, Separable, Spectrum, WeightedDegree, strings
from outmetric.paper.protocol import Trial, split


def random_strings(n, size, alphabet="ACGT", seed=0):
    """Strings of one size, or of sizes between two."""
    rng = np.random.default_rng(seed)
    sizes = np.broadcast_to(size, n) if isinstance(size, int) else rng.integers(*size, size=n)
    return ["".join(alphabet[letter] for letter in rng.integers(len(alphabet), size=length)) for length in sizes]


def planted(n=40, size=12, seed=0):
    """Two classes of strings with different motifs at one place."""
    labels = np.arange(n) % 2
    plain = random_strings(n, size, seed=seed)
    return [s[:4] + ("GTA", "CCT")[c] + s[7:] for s, c in zip(plain, labels, strict=True)], labels


# Letters of one, two and four bytes, a surrogate, and a zero, which fixed-width arrays of strings lose at the end.
ODD = "aß漢🧬\ud800\0"
WORDS = [*random_strings(9, (0, 8), ODD), *random_strings(4, (5, 9), "ab"), "", "a", ODD]
NEW_WORDS = [*random_strings(5, (1, 9), ODD, seed=1), "", "zzzz"]
SEQUENCES, NEW_SEQUENCES = random_strings(12, 9), [*random_strings(4, 9, seed=1), "A" * 9, "ACACACACA", "漢" * 9]
RELEVANCE = (0.5, 0, 1, 2, 4, 2, 1, 0.25, 0)
PLAIN = {
    "one letter": (Spectrum(1, normalize=False), lambda s, t: oracles.spectrum(s, t, 1)),
    "three letters": (Spectrum(3, normalize=False), lambda s, t: oracles.spectrum(s, t, 3)),
    "up to three letters": (Spectrum(3, blended=True, normalize=False), lambda s, t: oracles.spectrum(s, t, 3, blended=True)),
    "degree 1": (WeightedDegree(1, normalize=False), lambda s, t: oracles.weighted_degree(s, t, 1)),
    "degree 4": (WeightedDegree(4, normalize=False), lambda s, t: oracles.weighted_degree(s, t, 4)),
    "a degree above the length": (WeightedDegree(14, normalize=False), lambda s, t: oracles.weighted_degree(s, t, 14)),
    "a shift": (WeightedDegree(3, 1, normalize=False), lambda s, t: oracles.weighted_degree(s, t, 3, 1)),
    "all shifts": (WeightedDegree(3, 100, normalize=False), lambda s, t: oracles.weighted_degree(s, t, 3, 100)),
    "weights": (
        WeightedDegree(3, position_weights=RELEVANCE, normalize=False),
        lambda s, t: oracles.weighted_degree(s, t, 3, 0, RELEVANCE),
    ),
    "weights and shifts": (
        WeightedDegree(3, 2, RELEVANCE, normalize=False),
        lambda s, t: oracles.weighted_degree(s, t, 3, 2, RELEVANCE),
    ),
}


def variant(kernel, **changed):
    names = ("length", "blended", "degree", "shift", "position_weights", "normalize", "bandwidth")
    return type(kernel)(**{name: getattr(kernel, name) for name in names if hasattr(kernel, name)} | changed)


@pytest.mark.parametrize("bandwidth", [None, 0.7])
@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_kernels_are_their_formulas(name, normalize, bandwidth):
    kernel, formula = PLAIN[name]
    kernel = variant(kernel, normalize=normalize, bandwidth=bandwidth)
    formula = oracles.normalised(formula) if normalize else formula
    formula = oracles.gaussian_of(formula, bandwidth) if bandwidth else formula
    X, Z = (NEW_WORDS, WORDS) if isinstance(kernel, Spectrum) else (NEW_SEQUENCES, SEQUENCES)
    np.testing.assert_allclose(kernel(X, Z), oracles.gram_matrix(formula, X, Z), rtol=1e-12, atol=1e-14)
    gram = oracles.gram_matrix(formula, Z, Z)
    np.testing.assert_allclose(kernel(Z), gram, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel(Z[::-1], Z), gram[::-1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(kernel.diag(Z), np.diagonal(gram), rtol=1e-12)
    assert np.linalg.eigvalsh(kernel(Z))[0] > -1e-12 * gram.max()


def test_a_degree_beyond_all_lengths():
    """All lengths count the same then: as often as both have the same d letters from i on, for any d and i."""
    shared = [
        [sum(s[i : i + d] == t[i : i + d] for d in range(1, 10) for i in range(10 - d)) for t in SEQUENCES] for s in SEQUENCES
    ]
    np.testing.assert_allclose(WeightedDegree(2**62)(SEQUENCES), np.array(shared) / 45)


def test_a_toy_worked_by_hand():
    """GATTACA and GACTACA agree at six positions, GA, TA, AC and CA being the pairs among them; beta is 2/3 and 1/3."""
    value = WeightedDegree(2, normalize=False)(["GATTACA"], ["GACTACA"])
    np.testing.assert_allclose(value, [[6 * 2 / 3 + 4 / 3]])


@pytest.mark.parametrize("shift", range(6))
def test_shifts_keep_the_kernel_positive(shift):
    words = ["".join(letters) for letters in itertools.product("ab", repeat=6)]
    assert np.linalg.eigvalsh(WeightedDegree(2, shift)(words))[0] > -1e-12


def test_blocks_do_not_matter(monkeypatch):
    kernel = WeightedDegree(3, 1, bandwidth=1.0)
    whole = kernel(NEW_SEQUENCES, SEQUENCES)
    monkeypatch.setattr(strings, "BLOCK_VALUES", 30)
    np.testing.assert_array_equal(kernel(NEW_SEQUENCES, SEQUENCES), whole)


def test_strings_without_substrings_are_like_nothing_and_do_no_harm():
    words, labels = ["banana", "bandana", "", "pepper", "peppers", "pe"], [0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(Spectrum(3)(["", "pe"], words), np.zeros((2, 6)))
    coordinates = LearnedKernelMetric(kernel=Spectrum(3)).fit(words, labels).transform([*words, "x"])
    assert np.isfinite(coordinates).all()
    np.testing.assert_array_equal(coordinates[2], coordinates[6])


@pytest.mark.parametrize("kernel", [Spectrum(2), WeightedDegree(2)])
def test_no_strings_have_no_values(kernel):
    assert kernel([], ["banana", "cabana"]).shape == (0, 2)
    assert kernel.evaluator(["banana", "cabana"])([]).shape == (0, 2)


def test_a_bandwidth_far_too_small_is_harmless():
    assert Spectrum(2, bandwidth=1e-10)(random_strings(30, 20)).max() <= 1


def test_kernels_are_values():
    kernel = WeightedDegree(3, position_weights=np.ones(4))
    assert kernel == WeightedDegree(3, position_weights=[1.0, 1, 1, 1]) != WeightedDegree(3)
    assert len({kernel, pickle.loads(pickle.dumps(kernel)), clone(kernel, safe=False)}) == 1
    assert repr(Spectrum(4, bandwidth=0.5)) == "Spectrum(length=4, bandwidth=0.5)"
    assert repr(kernel) == "WeightedDegree(degree=3, position_weights=(1.0, 1.0, 1.0, 1.0))"


CONTAINERS = {
    "array": np.array,
    "objects": lambda words: np.array(words, dtype=object),
    "column": lambda words: np.array(words)[:, None],
    "pandas": pd.Series,
    "pandas strings": lambda words: pd.Series(words, index=range(5, 5 + len(words)), dtype="string"),
    "pandas frame": lambda words: pd.DataFrame({"word": words}),
    "polars": pl.Series,
    "polars frame": lambda words: pl.DataFrame({"word": words}),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_any_container_of_strings(kind):
    words, labels = planted()
    new, _ = planted(seed=1)
    expected = LearnedKernelMetric(kernel=WeightedDegree(3)).fit(words, labels).transform(new)
    contain = CONTAINERS[kind]
    model = LearnedKernelMetric(kernel=WeightedDegree(3)).fit(contain(words), labels)
    np.testing.assert_array_equal(model.transform(contain(new)), expected)
    search = MetricSearchCV(LearnedKernelMetric(), {"kernel": [WeightedDegree(3)]}, cv=2).fit(contain(words), labels)
    np.testing.assert_array_equal(search.transform(contain(new)), expected)


def test_matrix_kernels_on_strings():
    words, labels = planted()
    one, other = Spectrum(2)(words), WeightedDegree(3)(words)
    B = np.array([[2.0, 1.0], [1.0, 2.0]])
    cases = [
        (Separable(Spectrum(2), B), oracles.separable_blocks(one, B)),
        (Diagonal([Spectrum(2), WeightedDegree(3)]), oracles.diagonal_blocks([one, other])),
        (
            Separable(Spectrum(2), B) + 0.5 * Separable(WeightedDegree(3)),
            oracles.separable_blocks(one, B) + 0.5 * oracles.separable_blocks(other, np.eye(2)),
        ),
    ]
    similar = np.column_stack([labels, np.arange(len(labels)) % 3]).astype(float)
    rows = np.arange(len(words))[:, None]
    for kernel, blocks in cases:
        ours = FixedKernelMetric(kernel=kernel).fit(words, similar)
        known = FixedKernelMetric(kernel=Precomputed(blocks)).fit(rows, similar)
        np.testing.assert_allclose(ours.transform(words), known.transform(rows), rtol=1e-5, atol=1e-7)


def test_a_search_shares_decompositions_and_has_the_scores_of_a_grid_search():
    words, labels = planted()
    folds = StratifiedKFold(4)
    grid = {"kernel": [WeightedDegree(1), WeightedDegree(4, 1), Spectrum(3)], "regression_weight": [0.1, 10.0]}
    search = MetricSearchCV(LearnedKernelMetric(), grid, n_neighbors=[3], scoring="accuracy", cv=folds).fit(words, labels)
    assert search.n_decompositions_ == 3 * 4
    named = {f"learnedkernelmetric__{name}": values for name, values in grid.items()}
    peer = GridSearchCV(make_pipeline(LearnedKernelMetric(), KNeighborsClassifier(3)), named, cv=folds).fit(words, labels)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], peer.cv_results_["mean_test_score"])
    assert len(np.unique(search.cv_results_["mean_test_score"])) > 1
    assert search.best_params_["kernel"] in grid["kernel"]


def test_the_metric_outlives_the_estimator():
    words, labels = planted()
    model = LearnedKernelMetric(kernel=WeightedDegree(3, 1)).fit(words, labels)
    metric = pickle.loads(pickle.dumps(model.get_metric()))
    assert metric(words[0], words[1]) == pytest.approx(model.pair_distance([(words[0], words[1])])[0])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.transform(words), model.transform(words))
    np.testing.assert_array_equal(clone(model).fit(words, labels).transform(words), model.transform(words))


@pytest.mark.parametrize("how", ["uniform", "kmeans++", "leverage"])
def test_landmarks_of_strings(how):
    words, labels = planted(60)
    settings = {"solver": "nystroem", "landmarks": how, "random_state": 0}
    few = LearnedKernelMetric(kernel=WeightedDegree(3), n_landmarks=15, **settings).fit(words, labels)
    known = LearnedKernelMetric(kernel="precomputed", n_landmarks=15, **settings).fit(WeightedDegree(3)(words), labels)
    np.testing.assert_array_equal(few.landmark_indices_, known.landmark_indices_)
    np.testing.assert_allclose(few.transform(words), known.transform(WeightedDegree(3)(words)), atol=1e-6)
    search = MetricSearchCV(few, {"kernel": [WeightedDegree(2), WeightedDegree(3)]}).fit(words, labels)
    assert search.best_estimator_.solver_ == "nystroem"


def test_landmarks_see_k_of_x_and_x_at_once(monkeypatch):
    monkeypatch.setattr(Spectrum, "__call__", None)
    np.testing.assert_allclose(Scalar(Spectrum(2, normalize=False)).diagonal(["abab", "abc"]), [5, 2])


def test_functions_may_say_that_they_take_samples():
    class Lengths:
        pairwise = False

        def __call__(self, X, Z):
            return np.multiply.outer([float(len(x)) for x in X], [float(len(z)) for z in Z])

    np.testing.assert_array_equal(Scalar(Lengths()).cross(["a", "bb"], ["ccc"]), [[3], [6]])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Spectrum(0), "Spectrum: length must be an integer >= 1, not 0"),
        (lambda: Spectrum(True), "integer >= 1, not True"),
        (lambda: Spectrum(bandwidth=0.0), "Spectrum: bandwidth must be None or a finite number > 0, not 0.0"),
        (lambda: WeightedDegree(2.5), "WeightedDegree: degree must be an integer >= 1, not 2.5"),
        (lambda: WeightedDegree(shift=-1), "shift must be an integer >= 0, not -1"),
        (lambda: WeightedDegree(bandwidth="median"), "bandwidth must be None or a finite number > 0, not 'median'"),
        (lambda: WeightedDegree(position_weights=[1.0, -1.0]), r"numbers >= 0, .*got \[1.0, -1.0\]"),
        (lambda: WeightedDegree(position_weights=[0.0, 0.0]), "not all of them zero"),
        (lambda: WeightedDegree(position_weights=[[1.0]]), "one for each position"),
    ],
)
def test_kernels_that_cannot_be(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("kernel", "X", "message"),
    [
        (WeightedDegree(3), ["abc", "abd", "ab", "abe"], "expects 3 letters as in the first training string; number 2 has 2: 'ab'"),
        (WeightedDegree(3, position_weights=[1, 1]), ["ab", "abc"] * 2, "2 letters as in position_weights; number 1 has 3: 'abc'"),
        (Spectrum(3), ["abc", b"abc", "abd", "b"], "number 1 is b'abc', a bytes"),
        (Spectrum(3), ["abc", "abd", pd.NA, "b"], "number 2 is <NA>, a NAType"),
        (Spectrum(3), np.ones((4, 2)), "number 0 is array.*a ndarray"),
        (Spectrum(3), ["ab", "b", "", "cd"], r"Spectrum\(3\) is zero for all training strings, the longest of which has 2 letters"),
        (Spectrum(3, blended=True), [""] * 4, "the longest of which has 0"),
    ],
)
def test_strings_that_do_not_suit(kernel, X, message):
    with pytest.raises(ValueError, match=message):
        LearnedKernelMetric(kernel=kernel).fit(X, [0, 0, 1, 1])


def test_new_strings_that_do_not_suit():
    model = LearnedKernelMetric(kernel=WeightedDegree(2)).fit(["abc", "abd", "cca", "ccb"], [0, 0, 1, 1])
    with pytest.raises(ValueError, match="expects 3 letters as in the first training string; number 0 has 4: 'abcd'"):
        model.transform(["abcd", "abc"])
    with pytest.raises(ValueError, match=r"give it \[s\] and \[t\]"):
        Spectrum(2)("abc", "abd")


@pytest.mark.skipif("OUTMETRIC_DATA" not in os.environ, reason="the UCI files are not here (OUTMETRIC_DATA)")
@pytest.mark.slow
def test_on_splice_junctions_substrings_beat_letters():
    """A tenth for training; both kernels with four settings, the same weights and the same neighbours."""
    table, words = load_uci("molecular"), load_uci("molecular", raw=True).data
    letters = {"bandwidth": ["0.25*median", "0.5*median", "median", "2*median"]}
    substrings = {"kernel": [WeightedDegree(degree) for degree in (2, 4, 8, 16)]}
    accuracies = []
    for repeat in range(4):
        trial = Trial(repeat, 0.1, "molecular", "method2")
        rows = split(np.arange(len(words)), table.target, trial)
        folds = StratifiedKFold(5, shuffle=True, random_state=trial.split_seed)
        for X, grid in ((table.data, letters), (words, substrings)):
            grid = {**grid, "regression_weight": [1.0, 10.0, 100.0]}
            search = MetricSearchCV(LearnedKernelMetric(), grid, n_neighbors=NEIGHBOURS, scoring="accuracy", cv=folds)
            search.fit(X[rows.X_train], rows.y_train)
            accuracies.append(search.score(X[rows.X_test], rows.y_test))
    differences = np.diff(np.reshape(accuracies, (4, 2)), axis=1)
    assert differences.mean() > 0
