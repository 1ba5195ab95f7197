"""Is every column of a table used as what it is, and a column that cannot be used named with the reason?"""

import datetime
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.preprocessing import OneHotEncoder

from outmetric import MetricClassifier
from outmetric.columns import Remedy, content
from outmetric.columns.encoding import table_encoder
from outmetric.tables import Columns, TableError, align, check_columns

N = 40
RNG = np.random.default_rng(0)
NUMBERS = RNG.standard_normal(N)


def table(**changes):
    columns = {"size": NUMBERS, "colour": ["red", "blue"] * (N // 2), "kind": ["a", "b"] * (N // 2), **changes}
    return pd.DataFrame(columns)


USED = {
    "whole": (range(N), "number"),
    "single": (NUMBERS.astype(np.float32), "number"),
    "gaps": (np.where(NUMBERS > 0, NUMBERS, np.nan), "number"),
    "nothing": (np.full(N, np.nan), "number"),
    "nullable": (pd.array([1, None] * (N // 2), dtype="Int64"), "number"),
    "decimals": ([decimal.Decimal("1.5")] * N, "number"),
    "numbers as text": ([str(number) for number in NUMBERS], "number"),
    "constant": ([1] * N, "number"),
    "truth": (NUMBERS > 0, "category"),
    "truth with gaps": (pd.Series([True, None] * (N // 2), dtype=object), "category"),
    "text with gaps": (["x", None] * (N // 2), "category"),
    "no text": (pd.Series([None] * N, dtype=object), "category"),
    "constant text": (["x"] * N, "category"),
    "categories": (pd.Categorical(["x", "y"] * (N // 2)), "category"),
    "whole categories": (pd.Categorical([1, 2] * (N // 2)), "category"),
    "few numbers and a text": ((["0", "1", "2", "3+"] * N)[:N], "category"),
    "mixed": (["a", 1] * (N // 2), "category"),
    "dates": (pd.date_range("2020", periods=N), "date"),
    "dates with a time zone": (pd.date_range("2020", periods=N, tz="Europe/Berlin"), "date"),
    "dates with gaps": ([pd.Timestamp("2020-01-01"), None] * (N // 2), "date"),
    "days": ([datetime.date(2020, 1, 1)] * N, "date"),
    "days and times": ([datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 2, 3)] * (N // 2), "date"),
    "dates in text": (["2020-01-01", "2020-02-01T12:00"] * (N // 2), "date"),
    "dates in text with offsets": (
        ["2020-01-01 12:00:00+01:00", "2020-07-01 12:00+0200", None, "2020-01-01 12:00 UTC"] * (N // 4),
        "date",
    ),
    "dates as categories": (pd.Categorical(pd.date_range("2020", periods=2).repeat(N // 2)), "date"),
    "dates of Arrow": (pd.array([datetime.date(2020, 1, 1), None] * (N // 2), dtype=pd.ArrowDtype(pa.date32())), "date"),
    "parts like dates": (["1234-56-78", "1234-99-01"] * (N // 2), "category"),
    "a date and words": (["2020-01-01", "soon", "later", "never"] * (N // 4), "category"),
    "half are different": ([f"w{k // 2}" for k in range(N)], "category"),
}


@pytest.mark.parametrize("case", USED)
def test_columns_that_are_used(case):
    values, kind = USED[case]
    found = check_columns(table(extra=values), "kind")
    assert found == Columns(("size", "colour", "extra"), ("number", "category", kind), "kind", True, None)


REFUSED = {
    "times": ([datetime.time(12, k) for k in range(N)], "'extra' holds times of day or spans of time"),
    "durations": (pd.to_timedelta(range(N), unit="s"), "'extra' holds times of day or spans of time"),
    "periods": (pd.period_range("2020", periods=N, freq="D"), "'extra' holds times of day or spans of time"),
    "a stray among dates": (
        [f"2020-01-{k % 28 + 1:02d}" for k in range(N - 1)] + ["soon"],
        "'extra' should hold dates, .* has 'soon' in row 40",
    ),
    "no such day": (["2020-01-01", "2020-02-30"] * (N // 2), "'extra' should hold dates, .* has '2020-02-30' in row 2"),
    "zones": (["2020-01-01 12:00", "2020-01-01 12:00Z"] * (N // 2), "'extra' mixes dates with and without a time zone"),
    "other dates": (["31.12.2020", "1/1/21"] * (N // 2), "'extra' holds dates, such as '31.12.2020'; .* year first"),
    "complex": ([1j] * N, "'extra' holds complex numbers"),
    "bytes": ([b"x"] * N, "'extra' holds bytes"),
    "lists": ([[1]] * N, "'extra' holds nested or mixed values"),
    "structs": ([{"a": 1}] * N, "'extra' holds nested or mixed values"),
    "infinite": ([1.0] * 4 + [-np.inf] * (N - 4), "'extra' has an infinite number in row 5"),
    "a text": ([str(k) for k in range(N - 1)] + ["abc"], f"'extra' should hold numbers, but has 'abc' in row {N}"),
    "some texts": (
        [str(k) for k in range(N - 3)] + ["x", "y", "z"],
        "'extra' should hold .* has 'x' in row 38, and 2 more such rows",
    ),
    "identifiers": ([f"id{k}" for k in range(N)], "'extra' has 40 different texts in 40 rows, such as 'id0', 'id1', .* identifier"),
    "free text": ([f"word {k // 2} {k % 3}" for k in range(N)], "'extra' has 40 different .* free text"),
    "commas": ([f"{k},5" for k in range(N)], "'extra' seems to hold numbers with commas, such as '0,5'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_columns_that_cannot_be_used(case):
    values, message = REFUSED[case]
    frame = table(extra=values)
    with pytest.raises(TableError, match=f"points.csv: {message}"):
        check_columns(frame, "kind", source="points.csv")
    assert check_columns(frame, "kind", leave_out=["extra"]).features == ("size", "colour")
    assert check_columns(frame, "kind", identifier="extra").features == ("size", "colour")


def test_all_troubles_are_told_at_once():
    bad = {f"d{k}": [1j] * N for k in range(12)}
    with pytest.raises(TableError, match=r"'d0' holds .*; 'd9' holds complex numbers; and 2 more\. Mend ") as caught:
        check_columns(table(**bad), "kind")
    assert caught.value.remedies == (Remedy("leave_out", tuple(bad)),)


@pytest.mark.parametrize("target", ["kind", "extra"])
def test_decimal_commas_are_a_remedy(target):
    with pytest.raises(TableError, match="decimal mark") as caught:
        check_columns(table(extra=[f"{k},5" for k in range(N)]), target)
    assert Remedy("decimal") in caught.value.remedies
    assert "--" not in str(caught.value)


CONTENTS = {
    "number": [np.arange(2), np.ones(2, np.float32), pd.Series([1, None], dtype="Int64"), pl.Series([1.5, None]), pa.float16()],
    "truth": [np.array([True]), pd.Series([True, None], dtype="boolean"), pa.bool_()],
    "date": [pd.date_range("2020", periods=2), np.array([1], "M8[s]"), pa.timestamp("us", "UTC"), pa.date32()],
    "span": [pd.to_timedelta([1], unit="s"), np.array([1], "m8[s]"), pa.duration("s")],
    "category": [np.array(["a"]), pd.Categorical([1, 2]), pl.Series(["a"]), pa.string(), pa.dictionary(pa.int8(), pa.int8())],
    "other": [np.array([1j]), pa.struct([("a", pa.int8())])],
}


@pytest.mark.parametrize("expected", CONTENTS)
def test_what_columns_hold(expected):
    assert {content(column) for column in CONTENTS[expected]} == {expected}


def test_messages_are_fit_for_a_terminal():
    with pytest.raises(TableError) as caught:
        check_columns(table(**{"\x1b[31m" + "long" * 100: [f"\x1b{k}" * 500 for k in range(N)]}), "kind")
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    ("values", "classes"),
    [
        (["a", "b"] * (N // 2), True),
        ([1, 2] * (N // 2), True),
        ([True, False] * (N // 2), True),
        ([1.0, 2.0] * (N // 2), True),
        (pd.Categorical(["a", "b"] * (N // 2)), True),
        (NUMBERS, False),
        ([str(number) for number in NUMBERS], False),
    ],
)
def test_targets_are_classes_or_real(values, classes):
    frame = table(kind=values)
    found = check_columns(frame, "kind")
    assert found.classes == classes
    targets = found.targets(frame)
    assert targets.dtype.kind == (np.asarray(list(values)).dtype.kind if classes else "f")
    np.testing.assert_array_equal(targets, np.asarray(list(values)) if classes else NUMBERS)


def test_no_target():
    assert check_columns(table(), None).features == ("size", "colour", "kind")


BAD_TARGETS = {
    "missing": (["a", None, "b", None] * (N // 4), r"20 of 40 values of the target 'kind' are missing, the first in row 2"),
    "one class": (["a"] * N, "the target 'kind' has one value only, 'a'"),
    "constant": ([0.5] * N, "the target 'kind' has one value only, 0.5"),
    "a text": ([str(k) for k in range(N - 1)] + ["abc"], "the target 'kind' should hold numbers, but has 'abc' in row 40"),
    "identifiers": ([f"id{k}" for k in range(N)], "the target 'kind' has 40 different texts"),
    "dates": (pd.date_range("2020", periods=N), "the target 'kind' holds dates"),
    "infinite": ([1.0, np.inf] * (N // 2), "the target 'kind' has an infinite number in row 2"),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_targets_that_cannot_be_learned(case):
    values, message = BAD_TARGETS[case]
    with pytest.raises(TableError, match=f"points.csv: {message}"):
        check_columns(table(kind=values), "kind", source="points.csv")


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (["kin"], {}, "points.csv has no column 'kin'. Perhaps 'kind'?"),
        (["KIND"], {}, "Perhaps 'kind'?"),
        (["z"], {}, "no column 'z'. It has 'size', 'colour', 'kind'."),
        (["kind"], {"leave_out": ["sizes", "x"]}, "no columns 'sizes', 'x'. Perhaps 'size'?"),
        (["kind"], {"identifier": "id"}, "no column 'id'"),
        (["kind"], {"identifier": "kind"}, "at once: 'kind', 'kind'"),
        (["kind"], {"leave_out": ["kind"]}, "at once: 'kind', 'kind'"),
        (["kind"], {"leave_out": ["size", "colour"]}, "no columns to learn from beside 'kind', 'size', 'colour'"),
    ],
)
def test_names_that_are_wrong(arguments, options, message):
    with pytest.raises(TableError) as caught:
        check_columns(table(), *arguments, **options, source="points.csv")
    assert message in str(caught.value)


@pytest.mark.parametrize(("rows", "message"), [(0, "has 0 rows"), (1, "has 1 row;")])
def test_too_few_rows(rows, message):
    with pytest.raises(TableError, match=message):
        check_columns(table().head(rows), "kind")


COLUMNS = Columns(("size", "colour"), ("number", "category"), "kind", True, "id")


def test_later_tables_are_matched_by_name():
    frame = pd.DataFrame({"more": [0, 0, 0], "colour": ["red", None, "new"], "kind": ["a"] * 3, "id": [1, 2, 3], "size": [1, 2, 3]})
    aligned = align(frame, COLUMNS)
    assert list(aligned.columns) == ["size", "colour"]
    assert aligned["size"].tolist() == [1.0, 2.0, 3.0]
    assert aligned["size"].dtype == np.float64
    assert aligned["colour"].dtype == object
    assert aligned["colour"].fillna("-").tolist() == ["red", "-", "new"]
    assert COLUMNS.unused(frame) == ["more"]
    assert align(frame.drop(columns=["kind", "id", "more"]), COLUMNS).equals(aligned)


@pytest.mark.parametrize(
    "values",
    [
        ["1", None, "2"],
        [1.0, np.nan, 2.0],
        pd.array([1, None, 2], dtype="Int64"),
        pd.Categorical([1, None, 2]),
        pd.Categorical(["1", None, "2"]),
        pd.Series(["1", None, "2"], dtype=object),
    ],
)
def test_categories_are_compared_as_text(values):
    aligned = align(pd.DataFrame({"size": [1, 2, 3], "colour": values}), COLUMNS)
    assert aligned["colour"].fillna("-").tolist() == ["1", "-", "2"]


@pytest.mark.parametrize(
    "values", [["1.5", None], [1.5, np.nan], pd.array([1.5, None], dtype="Float64"), [decimal.Decimal("1.5"), None]]
)
def test_numbers_are_numbers_however_they_come(values):
    aligned = align(pd.DataFrame({"size": values, "colour": "red"}), COLUMNS)
    np.testing.assert_array_equal(aligned["size"], [1.5, np.nan])


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"siz": [1]}), "new.csv has no columns 'size', 'colour'. Perhaps 'siz'?"),
        (pd.DataFrame({"size": ["1", "x"], "colour": "red"}), "new.csv: 'size' should hold numbers, but has 'x' in row 2"),
        (pd.DataFrame({"size": pd.date_range("2020", periods=2), "colour": "red"}), "'size' holds dates. The model"),
        (pd.DataFrame({"size": [1.0, np.inf], "colour": "red"}), "'size' has an infinite number in row 2"),
        (pd.DataFrame({"size": [], "colour": []}), "new.csv has no rows"),
    ],
)
def test_later_tables_that_do_not_fit(frame, message):
    with pytest.raises(TableError) as caught:
        align(frame, COLUMNS, source="new.csv")
    assert message in str(caught.value)


def test_the_classifier_takes_what_is_aligned():
    frame = table(**{name: values for name, (values, _) in USED.items()})
    found = check_columns(frame, "kind")
    X = align(frame, found)
    encoder = table_encoder(X)
    assert [list(places) for _, _, places in encoder.transformers] == [
        [place for place, kind in enumerate(found.kinds) if kind == wanted] for wanted in ("number", "category", "date")
    ]
    assert np.isfinite(encoder.fit_transform(X)).all()
    again = pd.DataFrame({"colour": ["blue", None], "size": ["1", ""]}).replace("", None)
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(X[["colour"]])
    np.testing.assert_array_equal(one_hot.transform(align(again, COLUMNS)[["colour"]]), [[1, 0], [0, 0]])
    with pytest.warns(UserWarning, match="column '(nothing|no text)' has no value in any row") as caught:
        model = MetricClassifier(time_budget=0.01, random_state=0).fit(X, found.targets(frame))
    assert len(caught) == 2
    assert set(model.predict(X)) <= {"a", "b"}
