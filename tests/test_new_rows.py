"""Do models take new rows whose columns come in another type than they were learned in, and say what is wrong with others?"""

import warnings

import matplotlib as mpl
import numpy as np
import pandas
import polars
import pytest

import outmetric
from outmetric import MetricClassifier, MetricMap, MetricRegressor, columns, plots
from outmetric.columns import TableError, table_encoder

mpl.use("Agg")
RNG = np.random.default_rng(0)
N = 60
TABLE = pandas.DataFrame(
    {
        "age": RNG.normal(size=N),
        "town": RNG.choice(["Bonn", "Kiel", "Ulm"], N),
        "postcode": RNG.choice(["12345", "54321", "777"], N),
        "open": RNG.random(N) > 0.5,
        "since": pandas.date_range("2024", periods=N, freq="9D"),
    }
)
LABELS = np.where((TABLE.town == "Ulm") | (TABLE.age > 1), "a", "b")
NUMBERS = TABLE.age + 2.0 * (TABLE.postcode == "777") + 0.5 * TABLE.open
QUICK = {"time_budget": 0.1, "random_state": 0}
GAPS = pandas.Series([None, *TABLE.town[1:]], dtype=object)
# What comes, and the same as it was learned.
COMING = {
    "a column of categories without any": ({"town": np.nan}, {"town": pandas.Series([np.nan] * N, dtype=object)}),
    "a row that lacks one": ({"town": GAPS}, {"town": GAPS.fillna(np.nan)}),
    "whole numbers for text": ({"postcode": TABLE.postcode.astype(int)}, {}),
    "whole numbers as floats": ({"postcode": TABLE.postcode.astype(float)}, {}),
    "whole numbers of pandas' own": ({"postcode": TABLE.postcode.astype(int).astype("Int64")}, {}),
    "truth values as numbers": ({"open": TABLE.open.astype(float)}, {}),
    "truth values as objects": ({"open": TABLE.open.astype(object)}, {}),
    "categories of pandas": ({"town": TABLE.town.astype("category")}, {}),
}


def in_polars(frame):
    return polars.DataFrame({name: [None if pandas.isna(value) else value for value in frame[name]] for name in frame})


@pytest.fixture(scope="module", params=[pandas.DataFrame, polars.DataFrame], ids=["pandas", "polars"])
def frames(request):
    """How a pandas table is given, and models that were learned from tables given so."""
    given = in_polars if request.param is polars.DataFrame else lambda frame: frame
    learned = given(TABLE)
    return given, MetricClassifier(**QUICK).fit(learned, LABELS), MetricRegressor(**QUICK).fit(learned, NUMBERS)


@pytest.mark.parametrize("case", COMING)
def test_columns_that_come_in_another_type(frames, case):
    given, classifier, regressor = frames
    coming, as_was = COMING[case]
    came, expected = given(TABLE.assign(**coming)), given(TABLE.assign(**as_was))
    before = came.to_pandas() if given is in_polars else came.copy()
    for method in (
        classifier.predict,
        classifier.predict_proba,
        classifier.transform,
        classifier.novelty,
        regressor.predict,
        regressor.transform,
        lambda rows: classifier.explain(rows[:5], rows[5:10]).contributions,
    ):
        np.testing.assert_array_equal(method(came), method(expected))
    pandas.testing.assert_frame_equal(came.to_pandas() if given is in_polars else came, before)  # nobody wrote into it


def test_numbers_and_text_in_one_column():
    model = MetricClassifier(**QUICK).fit(TABLE, LABELS)
    new = TABLE.assign(postcode=[int(code) if code == "777" else code for code in TABLE.postcode])
    np.testing.assert_array_equal(model.transform(new), model.transform(TABLE))


def test_a_column_of_truth_values_or_dates_without_any(frames):
    given, classifier, regressor = frames
    for column in ("open", "since"):
        new = given(TABLE.assign(**{column: np.nan}))
        assert classifier.predict_proba(new).shape == (N, 2)
        assert np.isfinite(regressor.predict(new)).all()


def test_a_gap_that_was_learned_is_the_same_gap_in_every_type(frames):
    given, _, _ = frames
    learned = TABLE.assign(town=[None if k % 4 == 0 else town for k, town in enumerate(TABLE.town)])
    model = MetricClassifier(**QUICK).fit(given(learned), np.arange(N) % 4 == 0)
    for new in (TABLE.assign(town=np.nan), in_polars(TABLE.assign(town=np.nan))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert model.predict(new).mean() > 0.9


def test_rows_without_names():
    rows = TABLE.drop(columns="since")
    model = MetricClassifier(**QUICK).fit(rows, LABELS)
    with pytest.warns(UserWarning, match="valid feature names"):
        expected = model.predict_proba(rows.assign(town=np.nan, postcode="777", open=True).to_numpy(dtype=object))
    numbers = np.column_stack([TABLE.age, np.full(N, np.nan), np.full(N, 777), np.ones(N)])
    with pytest.warns(UserWarning, match="valid feature names"):
        np.testing.assert_array_equal(model.predict_proba(numbers), expected)
    with pytest.warns(UserWarning, match="valid feature names"):
        assert model.predict([[1.5, "Ulm", "777", "True"]]).shape == (1,)


def test_reasons_of_a_row_that_lacks_a_category():
    X = TABLE.assign(town=GAPS)
    model = MetricClassifier(**QUICK).fit(TABLE, LABELS)
    ax = plots.reasons(model, X.iloc[0], X.iloc[1])
    assert any("missing" in label.get_text() for label in ax.get_yticklabels())
    expected = model.explain(X.iloc[[0]].assign(town=pandas.Series([np.nan], dtype=object)), X.iloc[[1]])
    np.testing.assert_array_equal(model.explain(X.iloc[[0]].assign(town=np.nan), X.iloc[[1]]).contributions, expected.contributions)


def test_the_metric_alone_takes_them_too():
    metric = MetricClassifier(**QUICK).fit(TABLE, LABELS).get_metric()
    new = TABLE.assign(postcode=TABLE.postcode.astype(int))
    np.testing.assert_array_equal(metric.coordinates(new), metric.coordinates(TABLE))


@pytest.mark.parametrize(("y", "model"), [(LABELS, MetricClassifier(**QUICK)), (NUMBERS, MetricRegressor(**QUICK))])
def test_maps_take_them_too(y, model):
    """With fewer learned coordinates than the plane has, features have a part in the places."""
    shown = MetricMap(model, layout="learned", random_state=0).fit(TABLE, y)
    assert shown.beside_ is not None
    new = TABLE.assign(postcode=TABLE.postcode.astype(int))
    np.testing.assert_array_equal(shown.transform(new), shown.transform(TABLE))
    assert shown.transform(TABLE.assign(town=np.nan)).shape == (N, 2)


def test_stored_models_take_them_too(tmp_path):
    model = MetricClassifier(**QUICK).fit(TABLE, LABELS)
    outmetric.save(model, tmp_path / "model")
    new = TABLE.assign(postcode=TABLE.postcode.astype(int), town=np.nan)
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").predict(new), model.predict(new))


WRONG = {
    "a word": (["x", *TABLE.age[1:].astype(str)], "column 'age' has 'x' in row 1"),
    "words": ([*TABLE.age[:-2], "?", "x"], r"column 'age' has '\?' in row 59, and 1 more such rows"),
    "dates": (pandas.date_range("2024", periods=N), r"column 'age' has 2024-01-01.* in row 1, and 59 more"),
}


@pytest.mark.parametrize("case", WRONG)
def test_numbers_that_are_none_are_located(frames, case):
    given, classifier, regressor = frames
    values, message = WRONG[case]
    new = TABLE.assign(age=pandas.Series(values, dtype=None if case == "dates" else object))
    new = polars.from_pandas(new.astype({"age": str})) if given is in_polars and case != "dates" else given(new)
    for method in (classifier.predict, classifier.novelty, regressor.predict):
        with pytest.raises(TableError, match=rf"X: {message}.* \(counted from 1\)\. The model was learned from numbers there"):
            method(new)


def test_numbers_as_text_are_numbers():
    model = MetricClassifier(**QUICK).fit(TABLE, LABELS)
    np.testing.assert_allclose(model.transform(TABLE.assign(age=TABLE.age.map(repr))), model.transform(TABLE))


def test_nested_values_are_no_categories():
    model = MetricClassifier(**QUICK).fit(TABLE, LABELS)
    with pytest.raises(TableError, match="'town' holds nested values"):
        model.predict(TABLE.assign(town=[["Ulm"]] * N))


def test_a_table_without_rows(frames):
    given, classifier, regressor = frames
    for model in (classifier, regressor):
        with pytest.raises(TableError, match=r"X has no rows; at least one is needed\."):
            model.predict(given(TABLE)[:0])


def test_a_row_that_is_no_table():
    model = MetricClassifier(**QUICK).fit(TABLE, LABELS)
    for row in (TABLE.iloc[0], TABLE.drop(columns=["town", "since"]).iloc[0], in_polars(TABLE)["age"]):
        with pytest.raises(ValueError, match=r"X is a Series of \d+ values, .* One row of a table is X\.iloc\[\[0\]\]"):
            model.predict(row)
        with pytest.raises(ValueError, match=r"One row of a table is X\.iloc\[\[0\]\]"):
            model.explain(row, row)
    with pytest.warns(UserWarning, match="valid feature names"), pytest.raises(ValueError, match="Expected 2D array"):
        model.predict(TABLE.iloc[0].to_numpy())


def test_other_preparations_are_left_alone():
    assert columns.as_learned(TABLE, None) is TABLE
    numbers = TABLE[["age"]]
    assert columns.as_learned(numbers, table_encoder(numbers).fit(numbers)) is numbers
    assert columns.as_learned(TABLE, table_encoder(TABLE).fit(TABLE)) is TABLE
