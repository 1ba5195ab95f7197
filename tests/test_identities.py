"""Pairs and splits by identities, and how well rows of an identity are found: are they what they say?"""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.metrics import average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, kernels
from outmetric.baselines import LMNN
from outmetric.verification import draw_pairs, retrieval_scores, split_identities

X, y = load_iris(return_X_y=True)
NAMES = st.lists(st.sampled_from("abcd"), min_size=3, max_size=9).filter(lambda names: 1 < len(set(names)) < len(names))


class TestPairs:
    @settings(max_examples=50, deadline=None)
    @given(names=NAMES)
    def test_all_of_them(self, names):
        pairs = draw_pairs(names, "all")
        expected = {(i, j): 1 if names[i] == names[j] else -1 for i, j in itertools.combinations(range(len(names)), 2)}
        assert {tuple(rows): kind for rows, kind in zip(pairs.rows.tolist(), pairs.y.tolist(), strict=True)} == expected
        assert len(pairs.rows) == len(expected)
        assert pairs.identities.tolist() == [[names[i], names[j]] for i, j in pairs.rows]

    @settings(max_examples=50, deadline=None)
    @given(names=NAMES, seed=st.integers(0, 5))
    def test_as_many_of_both(self, names, seed):
        pairs = draw_pairs(names, random_state=seed)
        same = sum(a == b for a, b in itertools.combinations(names, 2))
        different = len(names) * (len(names) - 1) // 2 - same
        assert (pairs.y == 1).sum() == (pairs.y == -1).sum() == min(same, different)
        assert len({tuple(rows) for rows in pairs.rows.tolist()}) == len(pairs.rows)
        assert ((pairs.identities[:, 0] == pairs.identities[:, 1]) == (pairs.y == 1)).all()
        assert (pairs.rows[:, 0] < pairs.rows[:, 1]).all()

    def test_each_is_as_likely_as_any_other(self):
        names = ["a", "a", "a", "b", "b"]
        counts = {}
        for seed in range(600):
            for rows in draw_pairs(names, 2, random_state=seed).rows.tolist():
                counts[tuple(rows)] = counts.get(tuple(rows), 0) + 1
        assert len(counts) == 10
        assert [counts[pair] for pair in ((0, 1), (0, 2), (1, 2), (3, 4))] == pytest.approx([150] * 4, abs=45)

    def test_the_same_number_draws_the_same(self):
        one, other, third = (draw_pairs(y, 50, random_state=seed).rows for seed in (0, 0, 1))
        assert np.array_equal(one, other)
        assert not np.array_equal(one, third)

    def test_many_rows(self):
        """Pairs are drawn without a list of all of them."""
        names = np.arange(200_000) // 4
        pairs = draw_pairs(names, 1000, random_state=0)
        assert ((names[pairs.rows[:, 0]] == names[pairs.rows[:, 1]]) == (pairs.y == 1)).all()

    @pytest.mark.parametrize(
        ("names", "n_pairs", "message"),
        [
            (["a", "b", "c"], None, "0 pairs of the same identity and 3 of different ones"),
            (["a", "a"], None, "1 pairs of the same identity and 0 of different ones"),
            (["a", "a", "b"], 4, "n_pairs must be even and at most 2"),
            (["a", "a", "b"], 1, "n_pairs must be an integer >= 2"),
            (["a", "a", "b", "b"], 3, "must be even"),
            (["a", "a", "b"], "some", "not 'some'"),
            ([["a", "a", "b"]], None, r"shape \(n,\)"),
            ([], None, r"shape \(n,\)"),
            ([1.0, np.nan, 1.0], None, r"1 identities are missing, the first is identities\[1\]"),
            (np.array(["a", None, "a"], dtype=object), None, "identities are missing"),
        ],
    )
    def test_what_cannot_be_drawn(self, names, n_pairs, message):
        with pytest.raises(ValueError, match=message):
            draw_pairs(names, n_pairs)


class TestSplit:
    @pytest.mark.parametrize(("test_size", "count"), [(0.25, 10), (7, 7)])
    def test_no_identity_is_on_both_sides(self, test_size, count):
        names = np.random.default_rng(0).permutation(np.repeat(np.arange(40), 3))
        train, test = split_identities(names, test_size, random_state=0)
        assert sorted([*train, *test]) == list(range(120))
        assert set(names[train]).isdisjoint(names[test])
        assert len(set(names[test])) == count
        assert np.array_equal(test, split_identities(names, test_size, random_state=0)[1])
        assert not np.array_equal(test, split_identities(names, test_size, random_state=1)[1])

    @pytest.mark.parametrize("test_size", [0, 3, 1.0, -0.5, np.nan, True, "half"])
    def test_sizes_that_cannot_be(self, test_size):
        with pytest.raises(ValueError, match="a share between 0 and 1, or a number of identities from 1 to 2; not"):
            split_identities(["a", "b", "c", "a"], test_size)

    def test_one_identity(self):
        with pytest.raises(ValueError, match="all 3 rows have the same identity"):
            split_identities(["a"] * 3)


class TestRetrieval:
    @settings(max_examples=60, deadline=None)
    @given(
        ranking=st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=6).filter(
            lambda rows: any(hit for _, hit in rows)
        ),
        k=st.integers(1, 2),
    )
    def test_a_query_is_that_of_the_definitions(self, ranking, k):
        """With ties, and by scikit-learn's average precision."""
        distances, hits = (list(part) for part in zip(*ranking, strict=True))
        gallery, names = np.array(distances, dtype=float)[:, None], np.where(hits, "a", "b")
        found = retrieval_scores(None, [[0.0]], ["a"], gallery=gallery, gallery_identities=names, k=k)
        expected = oracles.retrieval(distances, hits, k)
        assert (found.mean_average_precision, found.r_precision, *found.precision) == pytest.approx(expected)
        assert found.mean_average_precision == pytest.approx(average_precision_score(hits, -np.array(distances)))

    @pytest.mark.parametrize(
        "metric",
        [LearnedKernelMetric().fit(X, y), make_pipeline(StandardScaler(), LMNN()).fit(X, y), LMNN().fit(X, y).get_metric()],
        ids=["model", "pipeline", "metric"],
    )
    def test_queries_do_not_find_themselves(self, metric):
        some = np.arange(0, 150, 5)
        coordinates = metric.transform(X[some]) if hasattr(metric, "transform") else metric.coordinates(X[some])
        averages, firsts = [], []
        for number in range(len(some)):
            others = np.delete(np.arange(len(some)), number)
            distances = np.linalg.norm(coordinates[others] - coordinates[number], axis=1)
            hits = y[some][others] == y[some][number]
            averages.append(average_precision_score(hits, -distances))
            firsts.append(hits[np.argmin(distances)])
        for gallery in ({}, {"gallery": X[some], "gallery_identities": y[some]}):
            found = retrieval_scores(metric, X[some], y[some], k=1, **gallery)
            assert (found.mean_average_precision == pytest.approx(np.mean(averages))) == (not gallery)
        found = retrieval_scores(metric, X[some], y[some], k=[1])
        assert found.average_precisions == pytest.approx(averages)
        assert found.precision == pytest.approx([np.mean(firsts)])
        assert (found.n_queries, found.n_unmatched) == (30, 0)
        rows = X[some]
        assert retrieval_scores(metric, rows, y[some], gallery=rows, k=1).mean_average_precision == pytest.approx(np.mean(averages))

    def test_functions_and_words(self):
        def city_block(x, z):
            return np.abs(x - z).sum()

        class CityBlock:
            def pair_distance(self, pairs):
                return [city_block(*pair) for pair in pairs]

        some = slice(0, 150, 10)
        found, same = (retrieval_scores(metric, X[some], y[some], k=3) for metric in (city_block, CityBlock()))
        assert found.mean_average_precision == same.mean_average_precision > 0.7
        words, kinds = ["banana", "bandana", "cabana", "pepper", "peppers", "pepperoni"], [0, 0, 0, 1, 1, 1]
        model = LearnedKernelMetric(kernel=kernels.Spectrum(2)).fit(words, kinds)
        assert retrieval_scores(model, words, kinds, k=2).mean_average_precision == 1

    def test_queries_without_a_match_are_left_out(self):
        found = retrieval_scores(None, [[0.0], [1.0], [2.0]], ["a", "a", "b"], k=1)
        assert (found.n_queries, found.n_unmatched) == (2, 1)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"identities": np.arange(150)}, "none of the 150 queries has a row of its identity in the gallery besides itself"),
            ({"identities": y[:-1]}, "149 identities of 150 rows of the queries"),
            ({"k": 150}, "k = 150 is more than the 149 rows"),
            ({"k": 0}, "k must be an integer >= 1"),
            ({"gallery": X[:5]}, "without gallery_identities"),
            ({"gallery_identities": y}, "without a gallery"),
            ({"X": np.full((150, 4), np.nan)}, "NaN"),
        ],
    )
    def test_bad_input(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            retrieval_scores(None, **{"X": X, "identities": y, **arguments})
