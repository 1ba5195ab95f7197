"""Do the commands do on numbers what they do on classes: compare, predict with intervals, tell and draw?"""

import csv
import io
import json

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_friedman1
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import KFold, RepeatedKFold
from sklearn.neighbors import KNeighborsRegressor
from typer.testing import CliRunner

import outmetric
from outmetric import MetricClassifier, MetricRegressor, cli, plots
from outmetric.automatic import comparison, screening
from outmetric.automatic.comparison import REAL_RIVALS, Rival
from outmetric.columns import TableError

mpl.use("Agg")
pytestmark = pytest.mark.usefixtures("one_preparation")

ROWS = 90


def houses():
    """Numbers, categories, dates, gaps and names; prices with decimals, and whole ages."""
    rng = np.random.default_rng(0)
    district = rng.choice(["north", "south"], ROWS)
    area = rng.uniform(30, 150, ROWS)
    price = area * (3 + 1.5 * (district == "north")) + rng.normal(0, 20, ROWS)
    sold = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, ROWS), "D")
    names = [f"house {number}" for number in range(ROWS)]
    frame = pd.DataFrame({"name": names, "district": district, "area": area.round(2), "sold": sold, "price": price.round(3)})
    frame.loc[::17, "area"] = np.nan
    return frame.assign(age=(200 - frame["price"] / 5 + rng.normal(0, 5, ROWS)).round().astype(int))


def run(*arguments):
    """The command's (exit code, stdout, stderr)."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments])
    trouble = result.exception
    assert trouble is None or isinstance(trouble, SystemExit), repr(trouble)
    return result.exit_code, result.stdout, result.stderr


def done(*arguments):
    code, output, talk = run(*arguments)
    assert code == 0, talk
    return output


@pytest.fixture(scope="module")
def folder(tmp_path_factory, one_preparation):
    """The table, and models of it."""
    folder = tmp_path_factory.mktemp("houses")
    houses().to_csv(folder / "houses.csv", index=False)
    fit = ("fit", folder / "houses.csv", "--leave-out", "age", "--id", "name", "-t")
    done(*fit, "price", "-o", folder / "price.model")
    done(*fit, "price", "-o", folder / "learned.model", "--model", "learned")
    done(*fit, "district", "-o", folder / "district.model", "--model", "learned")
    return folder


@pytest.fixture
def two_rivals(monkeypatch):
    """One that tunes nothing, so that its scores can be computed here, and the tuned neighbours; the others take longer."""
    plain = Rival("plain k-NN", lambda n_classes, folds, seed: KNeighborsRegressor(3))
    monkeypatch.setattr(comparison, "REAL_RIVALS", {"plain": plain, "knn": REAL_RIVALS["knn"]})


def numbers():
    X, y = make_friedman1(80, noise=1.0, random_state=0)
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(10)]), y


def test_the_shares_of_r2_have_its_mean_and_the_jackknifes_interval():
    rng = np.random.default_rng(0)
    y = rng.normal(5, 2, size=400)
    predicted = y + rng.standard_t(5, size=400)
    shares = comparison.shares_of_r2(y, (predicted - y) ** 2)
    assert shares.mean() == pytest.approx(r2_score(y, predicted))
    without = np.array([r2_score(np.delete(y, row), np.delete(predicted, row)) for row in range(400)])
    jackknife = np.sqrt(399 / 400 * np.sum((without - without.mean()) ** 2))
    assert comparison.Estimate.over(shares).half == pytest.approx(1.966 * jackknife, rel=0.02)
    # The interval of the mean squared error alone, with the variance for granted, is another.
    alone = 1.966 * ((predicted - y) ** 2).std() / np.sqrt(400) / y.var()
    assert comparison.Estimate.over(shares).half != pytest.approx(alone, rel=0.02)


@pytest.mark.slow
def test_the_intervals_of_r2_hold_that_of_all_rows():
    rng = np.random.default_rng(0)
    held = []
    for _ in range(1000):
        y = rng.normal(size=200)
        found = comparison.Estimate.over(comparison.shares_of_r2(y, rng.normal(0, 0.6, size=200) ** 2))
        held.append(abs(found.mean - (1 - 0.36)) <= found.half)
    assert 0.92 < np.mean(held) < 0.97


def test_scores_are_those_of_scikit_learn(two_rivals):
    X, y = numbers()
    found = comparison.compare(X, y, real=True, folds=3, repeats=2, seed=1)
    assert list(found.values) == ["MetricRegressor", "plain k-NN", "Euclidean k-NN"]
    predicted = np.empty((2, len(y)))
    ours, covered = np.empty((2, len(y))), np.empty((2, len(y)))
    for number, (train, test) in enumerate(RepeatedKFold(n_splits=3, n_repeats=2, random_state=1).split(X)):
        predicted[number // 3, test] = KNeighborsRegressor(3).fit(X.iloc[train], y[train]).predict(X.iloc[test])
        model = MetricRegressor(random_state=1).fit(X.iloc[train], y[train])
        ours[number // 3, test] = model.predict(X.iloc[test])
        low, high = model.predict_interval(X.iloc[test], 0.9).T
        covered[number // 3, test] = (low <= y[test]) * (y[test] <= high)
    assert found.score("plain k-NN").mean == pytest.approx(np.mean([r2_score(y, one) for one in predicted]))
    assert found.absolute_error("plain k-NN").mean == pytest.approx(np.mean([mean_absolute_error(y, one) for one in predicted]))
    lead = np.mean([r2_score(y, one) for one in ours]) - np.mean([r2_score(y, one) for one in predicted])
    assert found.lead("plain k-NN").mean == pytest.approx(lead)
    assert found.lead("plain k-NN").mean > 0.1
    # Both methods err on the same rows, so their difference is known better than either.
    assert found.lead("plain k-NN").half < found.score("plain k-NN").half
    assert found.coverage().mean == pytest.approx(100 * covered.mean())
    per_row = 100 * covered.mean(axis=0)
    assert found.coverage().half == pytest.approx(1.9905 * per_row.std(ddof=1) / np.sqrt(len(y)), rel=1e-4)


def test_classes_have_no_errors_and_no_coverage():
    found = comparison.Comparison({"MetricClassifier": np.array([100.0, 0, 100])}, {"MetricClassifier": 1.0})
    assert not found.real
    assert found.absolute_error("MetricClassifier") is None
    assert found.coverage() is None


@pytest.mark.parametrize("name", REAL_RIVALS)
def test_the_rivals_learn(name):
    X, y = numbers()
    method = REAL_RIVALS[name].build(0, KFold(3), 0)
    scaled, shifted = (method.fit(X[:60], given[:60]).predict(X[60:]) for given in (y, 1000 + 1000 * y))
    assert r2_score(y[60:], scaled) > 0.25
    # None depends on the unit of the targets.
    np.testing.assert_allclose((shifted - 1000) / 1000, scaled, rtol=0.02)


def test_what_cannot_be_evaluated():
    X, y = numbers()
    with pytest.raises(TableError, match="the table has 9 rows; to be tested real targets need at least 10"):
        comparison.compare(X[:9], y[:9], real=True)
    with pytest.raises(TableError, match="all targets are 1"):
        comparison.compare(X, np.ones(80), real=True)


def test_evaluate_numbers(folder, tmp_path, two_rivals):
    picture = tmp_path / "r2.png"
    arguments = ("evaluate", folder / "houses.csv", "--leave-out", "name,age", "-t", "price", "--folds", 2)
    ours, plain, tuned = json.loads(done(*arguments, "--json", "--picture", picture))
    assert [one["method"] for one in (ours, plain, tuned)] == ["MetricRegressor", "plain k-NN", "Euclidean k-NN"]
    assert ours["R2"] > 0.7
    assert ours["lead"] == 0
    assert plain["lead"] == pytest.approx(ours["R2"] - plain["R2"])
    assert ours["absolute_error"] < plain["absolute_error"]
    assert 70 < ours["coverage"] <= 100
    assert "coverage" not in plain
    assert plt.imread(picture).shape[2] == 4
    printed = done(*arguments)
    for shown in ("R2", "mean absolute", f"{ours['R2']:.3f} +- {ours['interval']:.3f}", f"{ours['absolute_error']:.4g}"):
        assert shown in printed
    assert f"for 90 % of the rows held {ours['coverage']:.1f}" in printed
    assert "accuracy" not in printed


def test_evaluate_whole_numbers(folder, monkeypatch):
    seen = {}

    def compared(X, y, *, real, **settings):
        seen.update(y=y, real=real)
        return comparison.Comparison({"MetricRegressor": np.zeros(3)}, {"MetricRegressor": 1.0}, "MetricRegressor")

    monkeypatch.setattr("outmetric.automatic.compare", compared)
    arguments = ("evaluate", folder / "houses.csv", "--leave-out", "name,price")
    done(*arguments, "-t", "age", "--real")
    assert seen["real"]
    np.testing.assert_array_equal(seen["y"], houses()["age"])
    done(*arguments, "-t", "age")
    assert not seen["real"]
    code, _, talk = run(*arguments, "-t", "district", "--real")
    assert code == 2
    assert "holds no numbers; leave out --real" in talk


def test_intervals(folder):
    rows = list(csv.DictReader(io.StringIO(done("predict", folder / "price.model", folder / "houses.csv", "--interval", 0.8))))
    assert list(rows[0]) == ["name", "prediction", "lower", "upper", "novelty"]
    low, middle, high = (np.array([float(row[name]) for row in rows]) for name in ("lower", "prediction", "upper"))
    model = outmetric.load(folder / "price.model")
    np.testing.assert_allclose(np.stack([low, high], axis=1), model.predict_interval(houses(), 0.8))
    np.testing.assert_allclose(middle - low, high - middle)
    sizes = np.sort(np.abs(model.estimator.out_of_fold_errors_[:, 0]))
    np.testing.assert_allclose(high - middle, sizes[int(np.ceil(0.8 * (ROWS + 1))) - 1])
    wider = model.predict_interval(houses(), 0.95)
    assert (np.diff(wider) > np.diff(model.predict_interval(houses(), 0.8))).all()


@pytest.mark.parametrize(
    ("model", "interval", "message"),
    [
        ("price.model", 90, "--interval 90 is no probability between 0 and 1"),
        ("price.model", 0, "--interval 0 is no probability"),
        ("price.model", 0.999, "knows its errors on 90 rows; intervals with a coverage of 0.999 need 999"),
        ("learned.model", 0.9, "does not know its errors. For intervals fit the automatic model: --model auto"),
        ("district.model", 0.9, "the target district has classes; intervals are for numbers"),
    ],
)
def test_intervals_that_cannot_be(folder, model, interval, message):
    code, output, talk = run("predict", folder / model, folder / "houses.csv", "--interval", interval)
    assert (code, output) == (2, "")
    assert message in talk


def test_how_many_rows_intervals_need(folder):
    model = outmetric.load(folder / "price.model")
    errors = model.estimator.out_of_fold_errors_
    model.estimator.out_of_fold_errors_ = errors[:8]
    with pytest.raises(TableError, match=r"errors on 8 rows; intervals with a coverage of 0\.9 need 9\."):
        model.predict_interval(houses(), 0.9)
    model.estimator.out_of_fold_errors_ = errors[:9]
    assert np.isfinite(model.predict_interval(houses(), 0.9)).all()


def test_a_model_of_numbers_tells_so(folder):
    facts = json.loads(done("inspect", folder / "price.model", "--json"))
    assert facts["model"] == "MetricRegressor"
    assert facts["kind"].startswith("numbers")
    assert 0.7 < facts["cross-validated R2"] < 1
    assert "classes" not in facts
    text = done("inspect", folder / "price.model")
    for shown in ("cross-validated R2", "numbers in", "a regressor", ", R2 0."):
        assert shown in text
    assert "accuracy" not in text
    assert "votes of nearest neighbours" not in text


def test_neighbours_and_reasons_of_numbers(folder):
    output = done("neighbors", folder / "price.model", folder / "houses.csv", "-k", 2, "--explain")
    itself, other, *_ = csv.DictReader(io.StringIO(output))
    prices = houses().set_index("name")["price"]
    assert itself["neighbor"] == "house 0"
    assert float(other["price"]) == prices[other["neighbor"]]
    assert "district south in both" in itself["reasons"]
    assert "age" not in other["reasons"]  # left out


def test_a_picture_names_the_target(folder, tmp_path, monkeypatch):
    drawn = []
    plain = outmetric.maps.map_picture
    monkeypatch.setattr("outmetric.maps.map_picture", lambda *args, **kwargs: drawn.append(plain(*args, **kwargs)) or drawn[-1])
    arguments = ("map", folder / "houses.csv", "--leave-out", "name", "-o", tmp_path / "map.png")
    done(*arguments, "-t", "price")
    done(*arguments, "-t", "age", "--real", "--hold-out", 0.3)
    done(*arguments, "-t", "district")
    for ax, name in zip(drawn, ["price", "age", "district"], strict=True):
        texts = [text.get_text() for text in ax.figure.findobj(mpl.text.Text)]
        assert any(text.startswith(f"houses.csv: {name};") for text in texts)
        if name != "district":
            assert name in [other.get_ylabel() for other in ax.figure.axes]  # beside the colours


@pytest.fixture(scope="module")
def regressor(one_preparation):
    X, y = numbers()
    return MetricRegressor(random_state=0).fit(X, y)


def test_pictures_of_a_regressor(regressor):
    X, y = numbers()
    ax = plots.output_map(regressor, X, pd.Series(y, name="friedman"))
    (points,) = ax.collections
    np.testing.assert_allclose(points.get_offsets(), np.column_stack([regressor.transform(X), y]))
    assert ax.get_ylabel() == "friedman"
    page = plots.interactive_map(regressor.transform(X), pd.Series(y, name="friedman"), table=X, model=regressor, X=X)
    assert '"columns":[{"name":"friedman","kind":"number"' in page.html
    assert '"reasons":{' in page.html
    plt.close("all")


def test_pictures_of_classes_refuse_a_regressor(regressor):
    X, y = numbers()
    with pytest.raises(ValueError, match="decision_map draws votes for classes; this model was fitted on real targets"):
        plots.decision_map(regressor, X, y)
    with pytest.raises(
        ValueError, match="neighbor_purity counts neighbours of the same class; this model was fitted on real targets"
    ):
        plots.neighbor_purity(X, regressor, y)


@pytest.mark.parametrize("kind", ["random", "extra"])
@pytest.mark.parametrize("model", [MetricRegressor, MetricClassifier])
def test_novelty_by_forests(model, kind, monkeypatch):
    monkeypatch.setattr(screening, "KERNELS", ())
    monkeypatch.setattr(screening, "FORESTS", (kind,))
    X, y = make_friedman1(300, random_state=0)
    y = y if model is MetricRegressor else y > y.mean()
    fitted = model(random_state=0).fit(X[:150], y[:150])
    assert fitted.best_estimator_[-1].kernel.grown["kind"] == kind
    # A forest of all rows would take the rows of each fold for like none of the others.
    assert np.mean(fitted.novelty(X[:150]) == 1) < 0.05
    assert np.mean(fitted.novelty(X[150:]) == 1) < 0.05
    assert 0.2 < fitted.novelty(X[150:]).mean() < 0.6
    assert fitted.novelty(10 + X[:1]) == 1


@pytest.mark.parametrize(("lowest", "begins"), [(0.62, 0.45), (0.03, 0.0), (-0.31, -0.55)])
def test_bars_of_r2(lowest, begins):
    ax = plots.accuracy_bars(["set"], ["a", "b"], np.array([[0.9], [lowest]]), np.array([[0.05], [0.1]]), measure="R2", best=1.0)
    assert ax.get_ylabel() == "R2"
    assert ax.get_ylim() == pytest.approx((begins, 1.0))
    plt.close("all")
