"""Does the interactive map hold what it was given, and keep to itself?"""

import base64
import datetime
import hashlib
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, StandardScaler
from web_pages import ATTACKS, Elements, cells, class_opinions, content, explained, prepared_model, scripts, unpacked

from outmetric import FixedKernelMetric, LearnedKernelMetric
from outmetric.columns import table_encoder
from outmetric.kernels import Callable, Separable
from outmetric.maps import interactive_map, web_placer


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(40, 4))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_coordinates_are_in_the_page_exactly(points, dimensions, dtype):
    points = points.astype(dtype)
    found = content(interactive_map(points[:, :dimensions], metric_coordinates=points, neighbors=3))
    np.testing.assert_array_equal(np.stack([unpacked(axis) for axis in found["axes"]], axis=1), points[:, :dimensions], strict=True)
    np.testing.assert_array_equal(np.stack([unpacked(axis) for axis in found["metric"]], axis=1), points, strict=True)
    assert (found["neighbors"], found["ids"], found["columns"], found["labelled"]) == (3, None, [], False)


def test_a_single_coordinate_becomes_bands_that_do_not_overlap(points):
    labels = np.arange(40) % 3
    found = content(interactive_map(points[:, :1], labels))
    x, y = map(unpacked, found["axes"])
    np.testing.assert_array_equal(x, points[:, 0])
    np.testing.assert_array_equal(np.round(y), labels)
    np.testing.assert_array_equal(unpacked(found["metric"][0]), points[:, 0])
    assert found["height"] == "nothing"


def test_a_single_coordinate_is_drawn_against_a_real_target(points):
    found = content(interactive_map(points[:, :1], points[:, 1]))
    np.testing.assert_array_equal(unpacked(found["axes"][1]), points[:, 1])
    np.testing.assert_array_equal(unpacked(found["metric"][0]), points[:, 0])
    assert found["height"] == "target"
    with_gap = np.where(np.arange(40) == 3, np.nan, points[:, 1])
    assert content(interactive_map(points[:, :1], with_gap))["height"] == "nothing"


TABLE = {"size": [1.5, np.nan, -3.0], "kind": ["b", None, "a"], "count": [3, 4, 70000]}


@pytest.mark.parametrize("make", [dict, pd.DataFrame, lambda table: pl.DataFrame(table, strict=False)])
def test_tables_of_every_sort(make, points):
    found = content(interactive_map(points[:3, :2], ["x", "y", "x"], table=make(TABLE)))
    assert [column["name"] for column in found["columns"]] == ["class", "size", "kind", "count"]
    assert [cells(column) for column in found["columns"]] == [
        ["x", "y", "x"],
        [1.5, None, -3.0],
        ["b", None, "a"],
        [3, 4, 70000],
    ]
    assert [column["kind"] for column in found["columns"]] == ["text", "number", "text", "number"]


def milliseconds(*when):
    return datetime.datetime(*when, tzinfo=datetime.UTC).timestamp() * 1000


CLOCK = [datetime.datetime(2024, 1, 1, 1, 30), None]


@pytest.mark.parametrize(
    ("column", "kind", "expected"),
    [
        (np.array([True, False]), "text", ["True", "False"]),
        ([True, None], "text", ["True", None]),
        ([1, None], "number", [1, None]),
        ([Decimal("1.5"), float("nan")], "number", [1.5, None]),
        ([2**60, 1], "text", [str(2**60), "1"]),
        (np.array([2**60, 1]), "text", [str(2**60), "1"]),
        (np.array([-(2**40), 2**50]), "number", [-(2**40), 2**50]),
        (np.array([-1, 200], dtype=np.int16), "number", [-1, 200]),
        (np.array([0.5, np.inf], dtype=np.float16), "number", [0.5, np.inf]),
        (np.ma.array([1, 2], mask=[True, False]), "number", [None, 2]),
        (pd.Series([1, None], dtype="Int64"), "number", [1, None]),
        (pd.Series(["x", pd.NA], dtype="string"), "text", ["x", None]),
        (pd.Series([3, 1], dtype="category"), "text", ["3", "1"]),
        (pl.Series(["x", None], dtype=pl.Categorical), "text", ["x", None]),
        (pd.Series(pd.to_datetime(["2024-02-29 12:00", None])), "date", [milliseconds(2024, 2, 29, 12), None]),
        ([datetime.date(2024, 2, 29), None], "date", [milliseconds(2024, 2, 29), None]),
        (pd.Series(CLOCK).dt.tz_localize("Europe/Berlin"), "date", [milliseconds(2024, 1, 1, 1, 30), None]),
        (pl.Series(CLOCK).dt.replace_time_zone("Europe/Berlin"), "date", [milliseconds(2024, 1, 1, 1, 30), None]),
        (np.array([90, "NaT"], dtype="timedelta64[m]"), "number", [5400, None]),
        ([{"a": 1}, [1, 2]], "text", ["{'a': 1}", "[1, 2]"]),
        ([np.zeros(2), np.ones(2)], "text", ["[0. 0.]", "[1. 1.]"]),
        ([None, np.nan], "text", [None, None]),
        (np.array([np.nan, np.nan]), "number", [None, None]),
    ],
)
def test_columns_of_every_sort(column, kind, expected, points):
    (found,) = content(interactive_map(points[:2, :2], table={"x": column}))["columns"]
    assert (found["kind"], cells(found)) == (kind, expected)


def test_more_texts_than_a_byte_can_count():
    texts = [*(f"{row:03}" for row in range(256)), None]
    (found,) = content(interactive_map(np.zeros((257, 2)), table={"x": texts}))["columns"]
    assert cells(found) == texts


def test_texts_come_in_their_order(points):
    table = {
        "number": np.array(["10", "9", "9"]),
        "category": pd.Categorical(["high", "low", None], categories=["low", "high", "never"]),
        "mixed": [2, "b", (1,)],
        "enum": pl.Series(["z", "a", "z"], dtype=pl.Enum(["z", "a"])),
    }
    columns = content(interactive_map(points[:3, :2], [10, 9, 9], table=table))["columns"]
    assert [column["texts"] for column in columns] == [["9", "10"], ["10", "9"], ["low", "high"], ["(1,)", "2", "b"], ["z", "a"]]


@pytest.mark.parametrize(
    ("labels", "kind", "name"),
    [
        (np.array([1, 2]), "text", "class"),
        (np.array([1.0, np.nan]), "text", "class"),
        (np.array([1.5, 2.0]), "number", "class"),
        (np.array([[1.5], [2.0]]), "number", "class"),
        ([True, False], "text", "class"),
        (pd.Series(["a", "b"], name="species"), "text", "species"),
        (pl.Series([0.5, None]), "number", "class"),
        (np.array([[1.0], [2.0]]), "number", "class"),
        (np.array([[1], [2]]), "text", "class"),
        (pd.DataFrame({"year": [1970.0, 1971.0]}), "number", "year"),
    ],
)
def test_labels_are_classes_unless_they_are_real_targets(labels, kind, name, points):
    found = content(interactive_map(points[:2, :2], labels))
    assert (found["columns"][0]["kind"], found["columns"][0]["name"], found["labelled"]) == (kind, name, True)


def test_ids(points):
    frame = pd.DataFrame({"a": [1, 2]}, index=["p", "q"])
    assert content(interactive_map(points[:2, :2], table=frame))["ids"] == ["p", "q"]
    assert content(interactive_map(points[:2, :2], table=frame, ids=np.array([7, 8])))["ids"] == ["7", "8"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"coordinates": np.zeros((3, 5))}, r"coordinates have shape \(3, 5\)"),
        ({"coordinates": np.zeros(3)}, "Expected 2D array"),
        ({"coordinates": np.zeros((0, 2))}, "0 sample"),
        ({"coordinates": [[0, np.nan]]}, "coordinates contains NaN"),
        ({"metric_coordinates": np.zeros((2, 9))}, "metric_coordinates have 2 rows, but coordinates have 3"),
        ({"metric_coordinates": np.full((3, 9), np.inf)}, "metric_coordinates contains infinity"),
        ({"labels": [1, 2]}, r"labels have shape \(2,\), but coordinates have 3 rows"),
        ({"table": {"a": [1, 2]}}, r"column 'a' has shape \(2,\), but coordinates have 3 rows"),
        ({"table": {"a": np.zeros((3, 2))}}, r"column 'a' has shape \(3, 2\)"),
        ({"table": np.zeros((3, 2))}, "a ndarray came"),
        ({"table": pd.Series([1, 2, 3])}, "a Series came"),
        ({"ids": ["a"]}, "1 ids came, but coordinates have 3 rows"),
        ({"neighbors": 0}, "at least 1, not 0"),
        ({"neighbors": 2.5}, "at least 1, not 2.5"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        interactive_map(**{"coordinates": np.zeros((3, 2)), **arguments})


def test_without_plotly(monkeypatch, points):
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ImportError, match=r"pip install 'outmetric\[web\]'"):
        interactive_map(points[:, :2])


def test_the_page_refers_to_nothing_outside(points):
    elements = Elements(interactive_map(points[:, :2]).html).found
    assert not [attributes for _, attributes, _ in elements if {"src", "href", "srcset", "action"} & attributes.keys()]
    (style,) = [text for tag, _, text in elements if tag == "style"]
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_lets_only_the_scripts_of_the_page_run(points):
    page = interactive_map(points[:, :2])
    (policy,) = [found["content"] for _, found, _ in Elements(page.html).found if "http-equiv" in found]
    directives = dict(directive.split(maxsplit=1) for directive in policy.split("; "))
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for _, found, text in scripts(page) if not found]
    assert directives["default-src"] == "'none'"
    assert directives["script-src"].split() == [*(f"'sha256-{value}'" for value in hashes), "'unsafe-eval'"]
    assert len(hashes) == 2


@pytest.mark.parametrize("attack", [*ATTACKS, "half a pair: \ud800"])
def test_hostile_texts_stay_data(attack, points):
    harmless = interactive_map(points[:2, :2], ["x", "y"], table={"column": ["a", "b"]}, ids=["p", "q"])
    page = interactive_map(points[:2, :2], [attack, "y"], table={attack: [attack, "b"]}, ids=[attack, "q"], title=attack)
    assert [tag for tag, _, _ in Elements(page.html).found] == [tag for tag, _, _ in Elements(harmless.html).found]
    found = content(page)
    assert found["ids"] == [attack, "q"]
    assert found["columns"][1]["name"] == attack
    assert cells(found["columns"][1]) == [attack, "b"]


def test_the_size_of_a_page(points):
    rows = 20_000
    table = {"text": np.resize(["a", "b"], rows), "count": np.arange(rows) % 200}
    small = len(interactive_map(points[:1, :2], ["x"], table={"text": ["a"], "count": [1]}).html)
    large = len(interactive_map(np.resize(points, (rows, 2)), np.resize(["x", "y"], rows), table=table).html)
    assert large - small < rows * (2 * 11 + 3 * 2)


def test_a_page_is_written_whole_or_not_at_all(tmp_path, monkeypatch, points):
    page, path = interactive_map(points[:, :2], title="half a pair: \ud800"), tmp_path / "map.html"
    with pytest.raises(ValueError, match="there is no folder"):
        page.write(tmp_path / "nowhere" / "map.html")
    assert page.write(str(path)) == path
    assert path.read_bytes().decode("utf-8") == page.html.replace("\ud800", "&#55296;")

    def fail(*_):
        raise OSError("full")

    monkeypatch.setattr(type(path), "replace", fail)
    with pytest.raises(OSError, match="full"):
        interactive_map(points[:5, :2]).write(path)
    assert list(tmp_path.iterdir()) == [path]
    assert "half a pair" in path.read_text("utf-8")


def test_the_page_is_not_printed(points):
    assert repr(interactive_map(points[:, :2], title="Wine")) == "InteractiveMap(title='Wine', rows=40)"


def test_reasons_need_the_rows_and_their_columns(points):
    table, classes, model = explained(points)
    places = model.transform(table)
    with pytest.raises(ValueError, match="give table, or X"):
        interactive_map(places, classes, model=model)
    with pytest.raises(ValueError, match="no column 'first'"):
        interactive_map(places, classes, table=table.drop(columns="first"), model=model, X=table)
    with pytest.raises(ValueError, match="X has 5 rows, but coordinates have 40"):
        interactive_map(places, classes, table=table, model=model, X=table[:5])


def test_a_single_row(visit):
    visit.show([[1.0, 2.0]], ["only"])
    visit.look_for("0")
    assert (visit.row, visit.neighbours) == ("0", [])


def test_columns_of_what_a_model_says_of_classes(points):
    labels, shares, classes = class_opinions(points)
    novelty = np.linspace(0, 1, 40)
    table = {"size": points[:, 2], "error": points[:, 3]}
    page = interactive_map(points[:, :2], labels, table=table, probabilities=shares, classes=classes, novelty=novelty)
    found = {column["name"]: cells(column) for column in content(page)["columns"]}
    assert list(found) == ["class", "prediction", "error (model)", "confidence", "novelty", "size", "error"]
    named = shares.argmax(axis=1)
    assert found["prediction"] == [None if row == 5 else classes[named[row]] for row in range(40)]
    expected = [None if row in (0, 5) else "wrong" if row == 2 else "right" for row in range(40)]
    assert found["error (model)"] == expected
    assert found["confidence"][5] is None
    np.testing.assert_allclose(np.delete(np.array(found["confidence"], dtype=float), 5), np.delete(shares.max(axis=1), 5))
    np.testing.assert_allclose(found["novelty"], novelty, rtol=1e-6)
    np.testing.assert_allclose(unpacked(content(page)["probabilities"]).reshape(40, 3), shares, rtol=1e-6)


def test_columns_of_what_a_model_says_of_real_targets(points):
    targets, predictions = np.arange(40), points[:, 2]
    columns = content(interactive_map(points[:, :2], targets, predictions=predictions))["columns"]
    assert [(column["name"], column["kind"]) for column in columns] == [
        (name, "number") for name in ("class", "prediction", "error")
    ]
    np.testing.assert_allclose(cells(columns[2]), predictions - targets)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fitted_coordinates": np.zeros((3, 3))}, r"fitted_coordinates have shape \(3, 3\), but coordinates have \(3, 2\)"),
        ({"fitted_coordinates": np.full((3, 2), np.nan)}, "fitted_coordinates contains NaN"),
        ({"probabilities": np.zeros((3, 2))}, "come together"),
        ({"probabilities": np.zeros((3, 2)), "classes": ["a"]}, r"each of 1 classes; their shape is \(3, 2\)"),
        (
            {"probabilities": np.full((3, 1), 2.0), "classes": ["a"]},
            "probabilities must be within 0 and 1 .*; they are from 2 to 2",
        ),
        (
            {"probabilities": np.ones((3, 1)), "classes": ["a"], "labels": ["b"] * 3},
            "no label is one of the classes .* 'a'; .* 'b'",
        ),
        ({"probabilities": np.ones((3, 1)), "classes": ["a"], "labels": [0.5] * 3}, "give predictions instead"),
        ({"predictions": np.ones(3), "labels": ["b"] * 3}, "predictions are for real targets"),
        ({"predictions": np.ones(3), "probabilities": np.ones((3, 1)), "classes": ["a"]}, "predictions are for real targets"),
        ({"predictions": np.ones(2)}, r"predictions must have one number for each of the 3 rows; their shape is \(2,\)"),
        ({"novelty": [0, 0.5, 1.5]}, "novelty must be within 0 and 1 .*; they are from 0 to 1.5"),
    ],
)
def test_bad_opinions(arguments, message):
    with pytest.raises(ValueError, match=message):
        interactive_map(**{"coordinates": np.zeros((3, 2)), **arguments})


def test_a_single_fitted_coordinate_has_the_heights_of_the_others(points):
    found = content(interactive_map(points[:, :1], np.arange(40) % 3, fitted_coordinates=points[:, 1:2]))
    np.testing.assert_array_equal(unpacked(found["fitted"][0]), points[:, 1])
    assert found["fitted"][1] == found["axes"][1]


def test_axes_are_components_only_where_they_are(points):
    assert content(interactive_map(points[:, :2], metric_coordinates=points))["height"] == "component"
    assert content(interactive_map(points[:, :2], metric_coordinates=points[:, ::-1]))["height"] == "place"


def test_why_a_model_cannot_be_in_a_page(points, monkeypatch):
    model, table, classes = prepared_model(points, "rbf")
    metric = model.transform(table)

    def reason(model, X=table, metric=metric):
        found = web_placer(model, X, points[:, :2], metric)
        assert list(found) == ["missing"]
        return found["missing"]

    def fitted(*steps, X=table):
        return make_pipeline(*steps, LearnedKernelMetric()).fit(X, classes)

    def rbf(one, other):
        return float(one @ other)

    additive = make_pipeline(LearnedKernelMetric(kernel="additive")).fit(table, classes)
    assert "its kernel is 'additive', and known are rbf, exponential, laplacian, linear" in reason(additive)
    assert "something else than rows of numbers" in reason(LearnedKernelMetric(kernel=rbf).fit(points, classes), points)
    partly = Separable("rbf") + Callable(lambda one, other: float(one @ other) * np.eye(2), 2)
    assert "something else than rows of numbers" in reason(FixedKernelMetric(kernel=partly).fit(points, classes), points)
    assert "PCA, a step of the model, is not known here" in reason(fitted(PCA()))
    assert "a step after the metric changes its coordinates" in reason(
        make_pipeline(LearnedKernelMetric(), PCA()).fit(table, classes)
    )
    assert "clips" in reason(fitted(MinMaxScaler(clip=True)))
    assert "normal distribution" in reason(fitted(QuantileTransformer(n_quantiles=9, output_distribution="normal")))
    assert "the model has 2 coordinates, and the metric of this map 4" in reason(model, metric=points)
    dated = table.assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(40), unit="D"))
    assert "DateParts" in reason(fitted(table_encoder(dated), X=dated), dated)
    assert "no metric of outmetric" in reason(StandardScaler().fit(table))
    monkeypatch.setattr("outmetric.maps.webplacer.MOST_LETTERS", 100)
    assert "MB that are allowed" in reason(model)
