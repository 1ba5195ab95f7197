"""Does the interactive map show what it was given, answer clicks with the true neighbours, and keep to itself?"""

import base64
import datetime
import hashlib
import json
import re
import shutil
import sys
from decimal import Decimal
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, QuantileTransformer, RobustScaler, StandardScaler

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricSearchCV, kernels
from outmetric.baselines import LMNN
from outmetric.choosing import usual_contributions
from outmetric.columns import FeatureWeights, table_encoder
from outmetric.maps import interactive_map, web_placer, webreasons
from outmetric.tables import write_table

ATTACKS = [
    "</script><script>window.ran = true</script>",
    '<img src=x onerror="window.ran = true">\'`${window.ran = true}',
    "<!-- <script> \u2028\u2029 \x00 &lt;b&gt; <b>bold</b> <a href='javascript:window.ran = true'>link</a>",
    '"}]; window.ran = true; //' + "long " * 1000,
]


class Elements(HTMLParser):
    """The elements of a page: [tag, attributes, text]."""

    def __init__(self, html):
        super().__init__()
        self.found = [["page", {}, ""]]
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append([tag, dict(attrs), ""])

    def handle_endtag(self, tag):
        self.found.append([f"/{tag}", {}, ""])

    def handle_data(self, data):
        self.found[-1][2] += data


def scripts(page):
    return [element for element in Elements(page.html).found if element[0] == "script"]


def content(page):
    (data,) = [text for _, attributes, text in scripts(page) if attributes.get("id") == "data"]
    return json.loads(data)


def unpacked(packed):
    return np.frombuffer(base64.b64decode(packed["bytes"]), dtype="<" + packed["type"])


def cells(column):
    """The cells of a column, None for gaps."""
    values = unpacked(column["values"])
    if column["kind"] == "text":
        return [None if code == len(column["texts"]) else column["texts"][code] for code in values]
    return [None if np.isnan(value) else value for value in values]


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


# In a real browser.


class Visit:
    """A page in the browser, with what a reader sees and does."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder
        self.find, self.find_all = driver.find_element, driver.find_elements

    def open(self, html):
        path = self.folder / "map.html"
        path.write_text(html, encoding="utf-8", errors="xmlcharrefreplace", newline="\n")
        self.driver.get(path.as_uri())

    def show(self, *args, **settings):
        self.open(interactive_map(*args, **settings).html)
        self.until(lambda: self.run("return !!plot._fullLayout && !!document.querySelector('#plot canvas')"))
        return self

    def run(self, code, *args):
        return self.driver.execute_script("const plot = document.getElementById('plot');" + code, *args)

    def until(self, condition):
        return WebDriverWait(self.driver, 20, poll_frequency=0.05).until(lambda _: condition())

    def look_for(self, text):
        box = self.find(By.ID, "wanted")
        box.clear()
        box.send_keys(text, Keys.ENTER)

    def colour_by(self, name):
        Select(self.find(By.ID, "colour")).select_by_visible_text(name)

    def point_at(self, x, y):
        """Move to a place of the plot in pixels from its upper left corner."""
        plot = self.find(By.ID, "plot")
        width, height = plot.size["width"], plot.size["height"]
        return ActionChains(self.driver).move_to_element_with_offset(plot, round(x - width / 2), round(y - height / 2))

    def point_at_coordinates(self, x, y):
        pixels = "const {xaxis, yaxis} = plot._fullLayout;"
        pixels += "return [xaxis._offset + xaxis.d2p(arguments[0]), yaxis._offset + yaxis.d2p(arguments[1])];"
        return self.point_at(*self.run(pixels, x, y))

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector)

    @property
    def row(self):
        return "".join(self.texts("#row h2")).removeprefix("Row ")

    @property
    def entries(self):
        return self.find_all(By.CSS_SELECTOR, "#row ol button")

    @property
    def neighbours(self):
        """What the list says: (id, label, distance)."""
        found = self.texts("#row ol button span")
        return [(name, label, float(distance)) for name, label, distance in zip(*[iter(found)] * 3, strict=True)]

    @property
    def legend(self):
        """Its heading, the ends of the colour bar, and name and count of each class."""
        return self.texts("#legend h2, #legend .ends span, #legend .name, #legend .count")

    @property
    def traces(self):
        """What is drawn: the coordinates of each trace, and whether it is shown."""
        code = "return plot.data.map((one) => [[...one.x], [...one.y], one.visible ?? true, one.marker?.color])"
        return [(np.array([x, y]).T, visible, colour) for x, y, visible, colour in self.run(code)]

    @property
    def errors(self):
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


@pytest.fixture(scope="module")
def driver():
    browser, service = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
    if browser is None or service is None:
        pytest.skip("needs chromium (or google-chrome) and chromedriver on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(service))
    yield driver
    driver.quit()


@pytest.fixture
def visit(driver, tmp_path):
    driver.set_window_size(1200, 800)
    driver.get("about:blank")
    driver.get_log("browser")
    visit = Visit(driver, tmp_path)
    yield visit
    assert visit.errors == []


def median_places(metric, layout, new):
    """Where new rows belong: at the median of the places of their seven nearest rows."""
    nearest = np.argsort(np.linalg.norm(metric[None] - new[:, None], axis=2), axis=1)[:, :7]
    return np.median(layout[nearest], axis=1)


def true_neighbours(metric, row, count):
    """Independent of the page: all distances, sorted."""
    distances = np.linalg.norm(metric - metric[row], axis=1)
    order = [other for other in np.argsort(distances, kind="stable") if other != row]
    return order[:count], distances[order[:count]]


def assert_neighbours(visit, metric, row, count, names=str, labels=lambda _: ""):
    expected, distances = true_neighbours(metric, row, count)
    assert [(name, label) for name, label, _ in visit.neighbours] == [(names(other), labels(other)) for other in expected]
    np.testing.assert_allclose([distance for *_, distance in visit.neighbours], distances, rtol=1e-3)


def test_a_click_lists_and_marks_the_nearest_neighbours(visit, points):
    labels = np.resize(["north", "south"], 40)
    names = [f"row {row}" for row in range(40)]
    visit.show(points[:, :2], labels, metric_coordinates=points, ids=names, neighbors=4)
    lonely = int(np.argmax(np.linalg.norm(points[:, :2] - points[:, :2].mean(axis=0), axis=1)))
    visit.point_at_coordinates(*points[lonely, :2]).click().perform()
    visit.until(lambda: visit.row == names[lonely])
    assert_neighbours(visit, points, lonely, 4, names.__getitem__, labels.__getitem__)
    # The ends of the lines, the rings, and the dot.
    expected, _ = true_neighbours(points, lonely, 4)
    *_, (lines, _, _), (rings, _, _), (dot, _, _) = visit.traces
    np.testing.assert_allclose(rings, points[expected, :2])
    np.testing.assert_allclose(lines[1::3].astype(float), points[expected, :2])
    np.testing.assert_allclose(dot, points[[lonely], :2])
    # On to the second in the list, by mouse, and from there by keyboard.
    visit.entries[1].click()
    assert visit.row == names[expected[1]]
    assert_neighbours(visit, points, expected[1], 4, names.__getitem__, labels.__getitem__)
    assert visit.driver.switch_to.active_element.text == f"Row {names[expected[1]]}"
    onward, _ = true_neighbours(points, expected[1], 4)
    ActionChains(visit.driver).send_keys(Keys.TAB, Keys.ENTER).perform()
    assert visit.row == names[onward[0]]


def explained(points):
    """A table, classes that its first columns decide, and a model of both."""
    table = pd.DataFrame(points[:, :3], columns=["first", "second", "<b>third</b>"])
    table["colour"] = np.where(points[:, 3] > 0, "red", "blue")
    classes = np.where(points[:, 0] > 0, np.where(points[:, 3] > 0, "a", "b"), "c")
    model = MetricSearchCV(make_pipeline(table_encoder(table), StandardScaler(), LearnedKernelMetric()), {}, n_neighbors=3, cv=2)
    return table, classes, model.fit(table, classes)


def test_reasons_of_the_neighbours_of_a_chosen_row(visit, points):
    table, classes, model = explained(points)
    visit.show(model.transform(table), classes, table=table.assign(more=1), neighbors=4, model=model, X=table)
    visit.look_for("7")
    near, _ = true_neighbours(model.transform(table), 7, 4)
    seven = table.iloc[[7] * 4]
    usual = usual_contributions(model, table.iloc[[7]], table)
    saved = usual - model.explain(seven, table.iloc[near]).contributions
    told = visit.texts("#row ol button .why")
    assert len(told) == 4
    for text, other, row in zip(told, near, saved, strict=True):
        expected = [table.columns[place] for place in np.argsort(-row)[:3] if row[place] > 0.01 * usual.sum()]
        reasons = text.split("; ")
        assert [next(name for name in table.columns if reason.startswith(name)) for reason in reasons] == expected
        for reason, name in zip(reasons, expected, strict=True):
            one, two = (value if isinstance(value, str) else f"{value:.5g}" for value in (table[name][7], table[name][other]))
            assert reason == (f"{name} {one} in both" if one == two else f"{name} {one} beside {two}")
    assert "why they are near" in visit.texts("#row p")[0]
    visit.entries[0].click()
    assert len(visit.texts("#row ol button .why")) == 4


def test_too_many_rows_have_no_reasons_and_the_page_says_so(visit, points, monkeypatch):
    monkeypatch.setattr(webreasons, "MOST_PAIRS", 30 * 39)
    table, classes, model = explained(points)
    visit.show(model.transform(table), classes, table=table, model=model)
    visit.look_for("7")
    assert visit.texts("#row ol button .why") == []
    assert "Reasons are given in maps of up to 39 rows." in visit.texts("#row p")[0]


def test_reasons_need_the_rows_and_their_columns(points):
    table, classes, model = explained(points)
    places = model.transform(table)
    with pytest.raises(ValueError, match="give table, or X"):
        interactive_map(places, classes, model=model)
    with pytest.raises(ValueError, match="no column 'first'"):
        interactive_map(places, classes, table=table.drop(columns="first"), model=model, X=table)
    with pytest.raises(ValueError, match="X has 5 rows, but coordinates have 40"):
        interactive_map(places, classes, table=table, model=model, X=table[:5])


def test_neighbours_are_those_of_the_map_without_other_coordinates(visit, points):
    points = np.round(points[:, :2])  # many ties and equal points
    visit.show(points, neighbors=100)
    visit.look_for("7")
    assert_neighbours(visit, points, 7, 39)


def test_the_height_of_a_single_coordinate_is_named(visit, points):
    for labels, title in ((points[:, 1], "target"), (np.arange(40) % 2, "")):
        visit.show(points[:, :1], labels)
        assert visit.driver.execute_script("return document.querySelector('.js-plotly-plot').layout.yaxis.title.text") == title


def test_a_solid_map(visit, points):
    visit.show(points[:, :3], np.arange(40) % 2, neighbors=5)

    def hover(x, y):
        visit.point_at(x, y).pause(0.05).perform()
        return visit.find(By.ID, "tip").is_displayed()

    x, y = next((x, y) for y in range(300, 600, 30) for x in range(300, 600, 30) if hover(x, y))
    row = int(visit.find(By.CSS_SELECTOR, "#tip strong").text)
    visit.point_at(x, y).click().perform()
    visit.until(lambda: visit.row == str(row))
    assert_neighbours(visit, points[:, :3], row, 5, labels=lambda other: str(other % 2))
    np.testing.assert_allclose(
        visit.run("const [one] = plot.layout.scene.annotations; return [one.x, one.y, one.z]"), points[row, :3]
    )
    np.testing.assert_allclose(visit.run("return [...plot.data.at(-1).z]"), points[[row], 2])


def test_fifty_thousand_rows(visit):
    rng = np.random.default_rng(0)
    metric = rng.normal(size=(50_000, 6))
    metric[-1, :2] = 9.0
    visit.show(metric[:, :2], rng.integers(0, 5, 50_000), metric_coordinates=metric, table={"noise": metric[:, 5]})
    visit.point_at_coordinates(9, 9).click().perform()
    visit.until(lambda: visit.row == "49999")
    assert [name for name, _, _ in visit.neighbours] == [str(row) for row in true_neighbours(metric, 49_999, 10)[0]]


def test_hovering_shows_the_row(visit, points):
    table = {f"column {place}": points[:, 0] for place in range(25)} | {"column 3": np.full(40, 0.123456789)}
    visit.show(points[:, :2], ["first", *["rest"] * 39], table=table, ids=[f"id {row}" for row in range(40)])
    visit.point_at_coordinates(*points[0, :2]).perform()
    tip = visit.find(By.ID, "tip")
    visit.until(tip.is_displayed)
    lines = tip.text.split("\n")
    assert lines[:2] == ["id 0", "class first"]
    assert "column 3 0.12346" in lines
    assert lines[-2:] == ["column 18 0.12573", "… 6 more columns"]
    visit.point_at_coordinates(*points[0, :2]).click().perform()
    assert "column 3 0.123456789" in visit.find(By.ID, "row").text


def test_classes_are_switched_on_and_off(visit, points):
    labels = np.arange(40) % 4 // 2
    visit.show(points[:, :2], labels)
    assert visit.legend == ["class", "0", "20", "1", "20"]
    first, second = visit.find_all(By.CSS_SELECTOR, "#legend input")
    first.click()
    (drawn, *_), (others, *_) = visit.traces[:2]
    np.testing.assert_array_equal(drawn, points[labels == 0, :2])
    np.testing.assert_array_equal(others, points[labels == 1, :2])

    def shown():
        return [visible for _, visible, _ in visit.traces[:2]]

    visit.until(lambda: shown() == [False, True])
    everything, nothing = visit.find_all(By.CSS_SELECTOR, "#legend button")
    nothing.click()
    visit.until(lambda: shown() == [False, False])
    everything.click()
    visit.until(lambda: shown() == [True, True])
    assert first.is_selected()
    second.send_keys(Keys.SPACE)
    visit.until(lambda: shown() == [True, False])


def test_colour_by_a_column(visit, points):
    points = np.resize(points, (400, 2)) + np.arange(400)[:, None]
    size = np.arange(400.0)
    size[:3] = np.nan, np.inf, -np.inf
    table = {
        "kind": ["a", None, *["b"] * 398],
        "size": size,
        "outlier": [1e9, *np.linspace(0, 1, 399)],
        "same": np.ones(400),
        "nothing": np.full(400, np.nan),
        "day": np.datetime64("2024-01-01") + np.arange(400),
        "many": [f"value {row % 40 if row < 200 else row % 20:02}" for row in range(400)],
    }
    visit.show(points, np.arange(400) % 2, table=table)
    visit.colour_by("kind")
    assert visit.legend == ["kind", "a", "1", "b", "398", "missing", "1"]
    np.testing.assert_array_equal(visit.traces[0][0], points[[1]])  # what is missing lies below
    visit.colour_by("size")
    assert visit.legend == ["size", "≤ 7", "≥ 395", "missing", "3"]
    (missing, *_), (drawn, _, colours), *_ = visit.traces
    np.testing.assert_array_equal(missing, points[:3])
    np.testing.assert_array_equal(drawn, points[3:])
    np.testing.assert_array_equal(colours, size[3:])
    visit.colour_by("outlier")
    assert visit.legend[2] == "≥ 0.99246"
    visit.colour_by("same")
    assert visit.legend == ["same", "1", "1"]
    visit.colour_by("nothing")
    assert visit.legend == ["nothing", "missing", "400"]
    visit.colour_by("day")
    assert visit.legend == ["day", "≤ 2024-01-05", "≥ 2025-01-30"]
    visit.colour_by("many")
    assert visit.legend[1:5] == ["value 00", "15", "value 01", "15"]
    assert visit.legend[-2:] == ["other (11 values)", "55"]
    assert len(visit.find_all(By.CSS_SELECTOR, "#legend input")) == 30
    looks = [tuple(look) for look in visit.run("return plot.data.slice(0, 30).map(({marker: {color, symbol}}) => [color, symbol])")]
    assert len(set(looks)) == 30


def test_a_map_without_classes_can_be_coloured_too(visit, points):
    visit.show(points[:, :1], table={"size": points[:, 2]})
    assert visit.legend == ["rows", "rows", "40"]
    visit.colour_by("size")
    assert visit.legend[0] == "size"
    visit.colour_by("nothing")
    assert visit.legend == ["rows", "rows", "40"]


def test_search(visit, points):
    ids = [f"row {row}" for row in range(40)]
    ids[3], ids[4] = "Wine", " padded "
    visit.show(points[:, :2], ids=ids, neighbors=2)

    def said():
        return visit.find(By.ID, "found").text

    visit.look_for("row 1")
    assert (visit.row, said()) == ("row 1", "")
    assert_neighbours(visit, points[:, :2], 1, 2, ids.__getitem__)
    visit.look_for("padded")
    assert (visit.row, said()) == (" padded ", "")
    visit.look_for("wi")
    assert visit.row == "Wine"
    visit.look_for("ROW 2")
    assert (visit.row, said()) == ("row 2", "1 of 11 rows; Find again for the next.")
    visit.find(By.CSS_SELECTOR, "#search button").click()
    assert (visit.row, said()) == ("row 20", "2 of 11 rows; Find again for the next.")
    visit.look_for("9")
    assert visit.row == "row 9"
    visit.look_for("nobody")
    assert (visit.row, said()) == ("row 9", "No row has an id like nobody.")


def test_a_row_out_of_view_is_brought_into_view(visit, points):
    visit.show(points[:, :2])
    code = "return Plotly.relayout(plot, {'xaxis.range': [50, 51], 'yaxis.range': [50, 51]})"
    visit.run(code + ".then(() => null)")
    visit.look_for("0")

    def ranges():
        return np.array(visit.run("return [plot.layout.xaxis.range, plot.layout.yaxis.range]"))

    visit.until(lambda: np.allclose(ranges().mean(axis=1), points[0, :2]))
    visit.run("Plotly.relayout(plot, {'xaxis.range': [-9, 9], 'yaxis.range': [-9, 9]}).then(() => null)")
    before = ranges()
    visit.entries[0].click()
    np.testing.assert_array_equal(ranges(), before)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_nothing_is_loaded_and_nothing_can_be_sent(visit, points, dimensions):
    visit.show(points[:, :dimensions])
    assert visit.run("return performance.getEntriesByType('resource').map((entry) => entry.name)") == []
    titles = [button.get_attribute("data-title") for button in visit.find_all(By.CSS_SELECTOR, ".modebar-btn")]
    assert titles
    assert not [title for title in titles if re.search("(?i)share|cloud|edit|plotly", title)]
    assert visit.run("return Plotly.toImage(plot, {width: 200, height: 200})").startswith("data:image/png")
    assert visit.errors == []
    # The policy stops what should never be tried.
    fetched = "return fetch('https://example.org').then(() => 'fetched', () => 'refused')"
    assert visit.run(fetched) == "refused"
    visit.run("document.body.insertAdjacentHTML('beforeend', arguments[0])", '<img src="data:," onerror="window.ran = true">')
    assert [error for error in visit.until(lambda: visit.errors) if "Content Security Policy" in error]
    assert not visit.run("return window.ran")


def test_hostile_texts_are_shown_and_not_run(visit, points):
    count = len(ATTACKS)
    visit.show(points[:count, :2], ATTACKS, table=dict.fromkeys(ATTACKS, ATTACKS), ids=ATTACKS, title=ATTACKS[1])
    assert visit.driver.title == ATTACKS[1]
    for place in range(count):
        visit.point_at_coordinates(*points[place, :2]).pause(0.1).click().perform()
        visit.until(lambda place=place: visit.row == ATTACKS[place])
        assert visit.texts("#row td") == [ATTACKS[place]] * (count + 1)
        assert max(map(len, visit.texts("#tip td"))) <= 81
    for place in range(count + 1):
        Select(visit.find(By.ID, "colour")).select_by_index(place)
        assert [text.rstrip("…") for text in visit.texts("#legend .name")] == [attack[:80] for attack in sorted(ATTACKS)]
    visit.look_for("<b>bold")
    assert "bold" in visit.row
    assert visit.find_all(By.CSS_SELECTOR, "img, b, #legend a, #row a, #tip a") == []
    assert not visit.run("return window.ran")
    assert visit.run("return document.documentElement.scrollWidth <= innerWidth")


def test_texts_of_a_megabyte_are_cut_where_they_are_shown_and_found_whole(visit, points):
    texts = [f"{place} {'word ' * 200_000}{place} end" for place in range(4)]
    page = interactive_map(points[:4, :2], texts, table={texts[0]: texts}, ids=texts)
    assert content(page)["ids"] == texts
    visit.show(points[:4, :2], texts, table={texts[0]: texts}, ids=texts)
    visit.look_for("2 end")
    visit.until(lambda: visit.row.startswith("2 word"))
    shown = visit.texts("#row td, #row th, #row h2, #legend h2, #legend .name, option")
    assert max(map(len, shown)) <= 10_010


def test_every_control_has_a_label_and_is_reached_by_the_keyboard(visit, points):
    visit.show(points[:, :2], np.arange(40) % 2)
    visit.find(By.ID, "wanted").click()
    reached = []
    for _ in range(20):
        active = visit.driver.switch_to.active_element
        reached.append((active.aria_role, active.accessible_name))
        active.send_keys(Keys.TAB)
    assert reached[:3] == [("searchbox", "Find row"), ("button", "Find"), ("combobox", "Colour by")]
    assert {name.split()[1] for role, name in reached if role == "checkbox"} == {"0", "1"}
    assert {("button", "All"), ("button", "None")} <= set(reached)


def test_a_narrow_window(visit, points):
    visit.driver.set_window_size(500, 700)
    visit.show(points[:, :2], np.arange(40) % 2, table={"text": ["word" * 100] * 40})
    visit.look_for("5")
    assert visit.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    plot, panel = visit.find(By.ID, "plot").rect, visit.find(By.TAG_NAME, "aside").rect
    assert panel["y"] >= plot["y"] + plot["height"]
    assert plot["width"] > 400


def test_a_notebook_shows_the_page_in_place(visit, points):
    page = interactive_map(points[:, :2])
    visit.open(f"<!DOCTYPE html><meta charset='utf-8'>{page._repr_html_()}")
    visit.driver.switch_to.frame(visit.find(By.TAG_NAME, "iframe"))
    visit.look_for("5")
    assert_neighbours(visit, points[:, :2], 5, 10)


def test_a_single_row(visit):
    visit.show([[1.0, 2.0]], ["only"])
    visit.look_for("0")
    assert (visit.row, visit.neighbours) == ("0", [])


# What the model says of the rows.


def class_opinions(points):
    """Labels of 40 rows, of which one has none, probabilities, which name another class in row 2 and none in row 5, and classes."""
    classes = ["x", "y", "<b>z</b>"]
    codes = np.arange(40) % 3
    shares = np.full((40, 3), 0.1)
    shares[np.arange(40), codes] = 0.8
    shares[2] = 0.7, 0.3, 0.0
    shares[5] = np.nan
    labels = [None, *(classes[code] for code in codes[1:])]
    return labels, shares, classes


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


def test_the_chosen_row_has_bars_and_is_said_to_be_far(visit, points):
    labels, shares, classes = class_opinions(points)
    novelty = np.where(np.arange(40) == 1, 0.975, 0.5)
    visit.show(points[:, :2], labels, probabilities=shares, classes=classes, novelty=novelty)

    def bars():
        widths = visit.run("return [...document.querySelectorAll('#row .share')].map((one) => one.style.width)")
        return list(zip(visit.texts("#row .bars .name"), visit.texts("#row .bars .count"), widths, strict=True))

    visit.look_for("1")
    assert bars() == [("y", "80.0 %", "80%"), ("x", "10.0 %", "10%"), ("<b>z</b>", "10.0 %", "10%")]
    assert visit.texts("#row .warning") == ["Far from all other rows: 97 % of the rows are less so."]
    visit.look_for("2")  # a class of no probability has no bar
    assert bars() == [("x", "70.0 %", "70%"), ("y", "30.0 %", "30%")]
    assert visit.texts("#row .warning") == []
    visit.look_for("5")
    assert bars() == []
    visit.colour_by("error")
    assert visit.legend == ["error", "right", "37", "wrong", "1", "missing", "2"]
    visit.colour_by("confidence")
    assert [*visit.legend[:1], *visit.legend[2:]] == ["confidence", "0.8", "missing", "1"]


# Where rows are drawn.


def test_the_switch_to_fitted_positions(visit, points):
    fitted = points[:, 2:] + 50
    visit.show(points[:, :2], np.arange(40) % 2, metric_coordinates=points, fitted_coordinates=fitted, neighbors=3)
    note = visit.find(By.ID, "seen")
    assert "have not seen" in note.text
    visit.look_for("7")
    before = visit.neighbours
    one, other = visit.find_all(By.CSS_SELECTOR, "#positions input")
    assert (one.accessible_name, other.accessible_name) == ("out of fold", "fitted")
    assert one.is_selected()
    other.send_keys(Keys.SPACE)
    np.testing.assert_array_equal(visit.traces[0][0], fitted[::2])
    np.testing.assert_array_equal(visit.traces[-1][0], fitted[[7]])
    assert note.text == "Where the model puts rows whose labels it has seen: classes look better apart than they are."
    low, high = visit.run("return plot.layout.xaxis.range")
    assert low < fitted[:, 0].min() < fitted[:, 0].max() < high
    assert visit.neighbours == before
    one.send_keys(Keys.SPACE)
    np.testing.assert_array_equal(visit.traces[0][0], points[::2, :2])
    visit.show(points[:, :2])
    assert not visit.find(By.ID, "positions").is_displayed()
    assert not visit.find(By.ID, "seen").is_displayed()


def test_a_single_fitted_coordinate_has_the_heights_of_the_others(points):
    found = content(interactive_map(points[:, :1], np.arange(40) % 3, fitted_coordinates=points[:, 1:2]))
    np.testing.assert_array_equal(unpacked(found["fitted"][0]), points[:, 1])
    assert found["fitted"][1] == found["axes"][1]


def test_axes_are_components_only_where_they_are(points):
    assert content(interactive_map(points[:, :2], metric_coordinates=points))["height"] == "component"
    assert content(interactive_map(points[:, :2], metric_coordinates=points[:, ::-1]))["height"] == "place"


def test_honesty_is_under_the_title(visit, points):
    visit.show(points[:, :2], title="Map", honesty=ATTACKS[1])
    assert visit.find(By.ID, "honesty").text == ATTACKS[1]
    assert not visit.run("return window.ran")
    visit.show(points[:, :2], title="Map")
    assert visit.find_all(By.ID, "honesty") == []


def island_names(visit):
    """Names on the map with the coordinates of their middles."""
    code = """const {xaxis, yaxis} = plot._fullLayout; const {left, top} = plot.getBoundingClientRect();
    return [...document.querySelectorAll('#names span')].map((one) => {
      const box = one.getBoundingClientRect();
      const place = [box.left + box.width / 2 - left - xaxis._offset, box.top + box.height / 2 - top - yaxis._offset];
      return [one.textContent, xaxis.p2d(place[0]), yaxis.p2d(place[1])];
    })"""
    return {name: place for name, *place in visit.run(code)}


def test_classes_are_named_on_their_islands(visit):
    rng = np.random.default_rng(0)
    names = ["first", ATTACKS[1], "third", "two points"]
    codes = np.repeat([0, 1, 2, 3], [20, 20, 20, 2])
    islands = np.array([[0, 0], [9, 0], [0, 9], [9, 9]])[codes] + rng.normal(size=(62, 2)) / 2
    visit.show(islands, [names[code] for code in codes])

    def assert_named(*expected):
        found = island_names(visit)
        assert list(found) == [name if len(name) <= 24 else f"{name[:24]}…" for name in (names[code] for code in expected)]
        for code, place in zip(expected, found.values(), strict=True):
            np.testing.assert_allclose(place, np.median(islands[codes == code], axis=0), atol=0.05)

    assert_named(1, 0, 2)  # as frequent ones, in the order of their texts
    visit.run("return Plotly.relayout(plot, {'xaxis.range': [-5, 25]}).then(() => null)")
    assert_named(1, 0, 2)
    visit.find_all(By.CSS_SELECTOR, "#legend input")[1].click()
    assert_named(1, 2)
    switch = visit.find(By.ID, "named")
    assert (switch.aria_role, switch.accessible_name) == ("switch", "Names")
    switch.send_keys(Keys.SPACE)
    assert island_names(visit) == {}
    assert not visit.run("return window.ran")


def test_names_do_not_lie_on_one_another(visit):
    labels = np.repeat([f"class {code}" for code in range(12)], 4)
    visit.show(np.random.default_rng(0).normal(size=(48, 2)) / 1e6 + [[1, 1]] * 48, labels)
    visit.run("return Plotly.relayout(plot, {'xaxis.range': [-9, 9], 'yaxis.range': [-9, 9]}).then(() => null)")
    boxes = visit.run("return [...document.querySelectorAll('#names span')].map((one) => one.getBoundingClientRect().top)")
    assert len(boxes) == 12
    assert np.diff(np.sort(boxes)).min() > 10


@pytest.mark.parametrize("labels", [None, "numbers"])
def test_maps_without_classes_have_no_names(visit, points, labels):
    visit.show(points[:, :2], None if labels is None else points[:, 2])
    assert island_names(visit) == {}
    assert not visit.find(By.ID, "named").is_displayed()


# Filter, selection and file.


def open_details(visit, name):
    visit.find(By.CSS_SELECTOR, f"#{name} summary").send_keys(Keys.ENTER)


def filter_by(visit, column, **values):
    """Type values into the controls of a column's filter, by their names."""
    Select(visit.find(By.ID, "filtered")).select_by_visible_text(column)
    for name, value in values.items():
        (field,) = [one for one in visit.find_all(By.CSS_SELECTOR, "#condition input") if one.accessible_name == name]
        field.clear()
        field.send_keys(value)


def drawn_points(visit):
    """All points of the groups that are switched on, in the order of their first coordinate."""
    code = "return plot.data.filter((one) => one.mode === 'markers' && one.hoverinfo === 'none' && one.visible !== false)"
    parts = visit.run(code + ".map((one) => [[...one.x], [...one.y]])")
    found = np.concatenate([np.array(part).T.reshape(-1, 2) for part in parts])
    return found[np.argsort(found[:, 0])]


def in_order(points):
    return points[np.argsort(points[:, 0])]


def test_filter_by_numbers_dates_and_texts(visit, points):
    size = np.where(np.arange(40) == 3, np.nan, points[:, 2])
    kind = np.array(["Red", "green", None, "<b>blue</b>"], dtype=object)[np.arange(40) % 4]
    day = np.datetime64("2024-01-01T12:00") + np.arange(40).astype("timedelta64[D]")
    visit.show(points[:, :2], np.arange(40) % 2, table={"size": size, "kind": kind, "day": day})
    open_details(visit, "filter")

    def assert_shown(kept):
        visit.until(lambda: visit.texts("#kept") == [f"{kept.sum()} of 40 rows shown"])
        np.testing.assert_array_equal(drawn_points(visit), in_order(points[kept, :2]))
        counts = [str((kept & (np.arange(40) % 2 == code)).sum()) for code in (0, 1)]
        assert visit.legend == ["class", "0", counts[0], "1", counts[1]]

    filter_by(visit, "size", **{"from": "-0.5"})
    assert_shown(size >= -0.5)
    filter_by(visit, "size", to="0.5")
    between = (size >= -0.5) & (size <= 0.5)
    assert_shown(between)
    filter_by(visit, "kind", contains="RE")
    assert_shown(between & np.isin(kind, ["Red", "green"]))
    assert visit.texts("#conditions li") == ["size: from -0.5, to 0.5 remove", "kind: contains RE remove"]
    visit.find(By.CSS_SELECTOR, "#conditions button").click()
    assert_shown(np.isin(kind, ["Red", "green"]))
    Select(visit.find(By.ID, "filtered")).select_by_visible_text("kind")
    field, *boxes = visit.find_all(By.CSS_SELECTOR, "#condition input")
    field.send_keys(Keys.BACKSPACE, Keys.BACKSPACE)
    visit.until(lambda: visit.texts("#kept") == [""])
    assert [box.accessible_name for box in boxes] == ["<b>blue</b>", "Red", "green", "missing"]
    boxes[1].click()
    boxes[3].click()
    assert_shown(np.isin(kind, ["<b>blue</b>", "green"]))
    visit.find(By.CSS_SELECTOR, "#conditions button").click()
    visit.until(lambda: visit.texts("#kept") == [""])
    Select(visit.find(By.ID, "filtered")).select_by_visible_text("day")
    first, last = visit.find_all(By.CSS_SELECTOR, "#condition input")
    first.send_keys("01032024")  # month, day, year
    last.send_keys("01072024")
    assert_shown((np.arange(40) >= 2) & (np.arange(40) <= 6))


def test_a_filter_keeps_what_is_switched_off_and_the_colours(visit, points):
    visit.show(points[:, :2], np.arange(40) % 4, table={"size": points[:, 2]})
    looks = visit.run("return plot.data.map(({marker}) => marker?.color)")
    visit.find_all(By.CSS_SELECTOR, "#legend input")[1].click()
    open_details(visit, "filter")
    filter_by(visit, "size", **{"from": str(points[points[:, 2].argsort()[-3], 2])})
    visit.until(lambda: visit.texts("#kept") == ["3 of 40 rows shown"])
    assert visit.run("return plot.data.map(({marker}) => marker?.color)") == looks
    assert [box.is_selected() for box in visit.find_all(By.CSS_SELECTOR, "#legend input")] == [True, False, True, True]
    assert visit.traces[1][1] is False


def drag(visit, corners):
    """Press the button at the first of some places of the plot, in data coordinates, and go around."""
    code = """const {xaxis, yaxis} = plot._fullLayout;
    return arguments[0].map(([x, y]) => [xaxis._offset + xaxis.d2p(x), yaxis._offset + yaxis.d2p(y)]);"""
    pixels = np.round(visit.run(code, corners)).astype(int)
    chain = visit.point_at(*pixels[0]).click_and_hold()
    for dx, dy in np.diff(pixels, axis=0).tolist():
        chain = chain.move_by_offset(dx, dy)
    chain.release().perform()


def saved_rows(visit):
    """The file that the page saves."""
    visit.driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(visit.folder)})
    path = visit.folder / "rows.csv"
    path.unlink(missing_ok=True)
    visit.find(By.ID, "save").click()
    visit.until(path.exists)
    return path


def test_lasso_and_export(visit, points):
    formulas = ["=1+1", "+1", "-2", "@x", "\t=1", 'a "quoted", text', "two\nlines", "\uff1d1", "\u200b=1", "-cmd", "plain"]
    table = {
        "text": [formulas[row % len(formulas)] for row in range(40)],
        "single": points[:, 2].astype(np.float32),
        "=name": np.where(np.arange(40) % 3 == 0, np.nan, points[:, 3]),
        "count": np.arange(40),
    }
    labels = np.array(["a", "b"])[np.arange(40) % 2]
    ids = [f"-id {row}" for row in range(40)]
    visit.show(points[:, :2], labels, table=table, ids=ids, fitted_coordinates=points[:, 2:])
    assert not visit.find(By.ID, "save").is_enabled()
    visit.find(By.CSS_SELECTOR, "[data-val=lasso]").click()
    drag(visit, [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9], [-0.9, -0.9]])
    inside = (np.abs(points[:, :2]) < 0.9).all(axis=1)
    visit.until(lambda: visit.texts("#picked") == [f"{inside.sum()} rows selected"])
    path = saved_rows(visit)
    expected = pd.DataFrame({"id": ids, "class": labels, **table})
    expected[["map 1", "map 2", "fitted 1", "fitted 2"]] = points
    write_table(expected[inside].reset_index(drop=True), visit.folder / "expected.csv")
    found, wanted = (pd.read_csv(visit.folder / name, dtype=str, keep_default_na=False) for name in ("rows.csv", "expected.csv"))
    numbers = ["single", "'=name", "count", "map 1", "map 2", "fitted 1", "fitted 2"]
    pd.testing.assert_frame_equal(found.drop(columns=numbers), wanted.drop(columns=numbers))
    read = [frame[numbers].replace("", "nan").astype(float).to_numpy() for frame in (found, wanted)]
    np.testing.assert_allclose(read[0], read[1], rtol=1e-7)
    np.testing.assert_array_equal(read[0][:, 1], np.array(table["=name"])[inside])
    np.testing.assert_array_equal(read[0][:, 3:], points[inside])
    assert "'=1+1" in path.read_text("utf-8")
    # The selection stays when colours change, and goes with a double click.
    visit.colour_by("count")
    assert sum(map(len, visit.run("return plot.data.map((one) => one.selectedpoints ?? [])"))) == inside.sum()
    visit.find(By.ID, "unpick").click()
    assert visit.texts("#picked") == ["No rows selected"]


@pytest.mark.parametrize("dimensions", [2, 3])
def test_the_keyboard_selects_what_is_shown(visit, points, dimensions):
    visit.show(points[:, :dimensions], np.arange(40) % 2, table={"size": points[:, 3]})
    open_details(visit, "filter")
    filter_by(visit, "size", **{"from": "0"})
    visit.until(lambda: visit.texts("#kept") != [""])
    visit.find_all(By.CSS_SELECTOR, "#legend input")[0].send_keys(Keys.SPACE)
    open_details(visit, "selection")
    visit.find(By.ID, "pick").send_keys(Keys.ENTER)
    expected = [row for row in range(40) if points[row, 3] >= 0 and row % 2]
    assert visit.texts("#picked") == [f"{len(expected)} rows selected"]
    assert pd.read_csv(saved_rows(visit))["id"].tolist() == expected


# New rows.


def prepared_model(points, kernel, kind=LearnedKernelMetric, **settings):
    """A pipeline of a scaler and a metric, its table and classes."""
    table = pd.DataFrame(3 * points + [100, 0, -5, 1], columns=["first", "second", "<i>third</i>", "fourth"])
    classes = np.where(points[:, 0] > 0, np.where(points[:, 3] > 0, "a", "b"), "c")
    return make_pipeline(StandardScaler(), kind(kernel=kernel, **settings)).fit(table, classes), table, classes


def new_rows(table, count=25, seed=1):
    return table.sample(count, replace=True, random_state=seed) + np.random.default_rng(seed).normal(size=(count, table.shape[1]))


def drop_rows(visit, text, name="new.csv"):
    """Give a file to the page as one that chooses it by keyboard does."""
    path = visit.folder / name
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    visit.find(By.ID, "file").send_keys(str(path))
    visit.until(lambda: visit.texts("#placed") not in ([""], ["Reading …"]) and not visit.texts("#placed")[0].startswith("Placing"))
    return visit.texts("#placed")[0]


def coordinates_of_added(visit, count):
    """What the page computed: the learned coordinates by their distances, and the places of new rows."""
    (group,) = [place for place, name in enumerate(visit.texts("#legend .name")) if name == "new rows"]
    code = "const found = plot.data.find((one) => one.marker.symbol === 'x'); return [[...found.x], [...found.y]]"
    places = np.array(visit.run(code)).T
    assert places.shape == (count, 2)
    assert group == len(visit.texts("#legend .name")) - 1
    return places


def assert_placed(visit, model, table, layout, metric, new, said):
    """The page has the new rows where neighbours in the metric put them, and lists the true neighbours at the true distances."""
    assert said.startswith(f"{len(new)} rows placed")
    own = model.transform(new)
    expected = median_places(metric, layout, own)
    np.testing.assert_allclose(coordinates_of_added(visit, len(new)), expected, rtol=1e-7, atol=1e-9)
    distances = np.linalg.norm(metric[None] - own[:, None], axis=2)
    for row in range(3):
        visit.find_all(By.CSS_SELECTOR, "#added button")[row].click()
        assert visit.row == f"new {row + 1}"
        near = np.argsort(distances[row], kind="stable")[:10]
        assert [name for name, _, _ in visit.neighbours] == [str(other) for other in near]
        np.testing.assert_allclose([one[2] for one in visit.neighbours], distances[row, near], rtol=6e-4)


@pytest.mark.parametrize(
    ("kernel", "settings"),
    [
        ("rbf", {}),
        ("rbf", {"kernel_params": {"gamma": 0.3}}),
        ("exponential", {}),
        ("laplacian", {"bandwidth": 2.0}),
        ("linear", {}),
        ("rbf", {"input_metric": "diagonal"}),
        ("exponential", {"input_metric": "full"}),
        (kernels.Scalar("linear") + 0.5 * kernels.Scalar("rbf", bandwidth=1.0), {}),
        (
            kernels.Diagonal([kernels.Scalar("rbf", bandwidth=1.0), kernels.Scalar("laplacian", bandwidth=3.0)]),
            {"kind": FixedKernelMetric},
        ),
    ],
    ids=str,
)
def test_new_rows_are_placed_as_python_would(visit, points, kernel, settings):
    model, table, classes = prepared_model(points, kernel, **settings)
    metric, layout = model.transform(table), points[:, :2] ** 3
    placer = web_placer(model, table, layout, metric)
    visit.show(layout, classes, table=table, metric_coordinates=metric, placer=placer)
    open_details(visit, "new")
    new = new_rows(table)
    said = drop_rows(visit, new.iloc[:, ::-1].assign(more="x").to_csv(index=False))
    assert_placed(visit, model, table, layout, metric, new, said)


def test_rows_of_a_linear_metric_and_of_an_array(visit, points):
    classes = np.where(points[:, 0] > 0, "a", "b")
    model = LMNN().fit(points, classes)
    metric, layout = model.transform(points), points[:, 2:]
    visit.show(layout, classes, metric_coordinates=metric, placer=web_placer(model, points, layout, metric))
    open_details(visit, "new")
    new = new_rows(pd.DataFrame(points, columns=["x0", "x1", "x2", "x3"]))
    said = drop_rows(visit, new.to_csv(index=False))
    assert_placed(visit, model, points, layout, metric, new.to_numpy(), said)


@pytest.mark.parametrize("scaler", [QuantileTransformer(n_quantiles=15), RobustScaler(), MinMaxScaler((-1, 1)), MaxAbsScaler()])
def test_tables_with_gaps_and_categories(visit, points, scaler):
    table = pd.DataFrame(np.round(points[:, :2], 1), columns=["size", "weight"]).astype(object).infer_objects()
    table.loc[::7, "size"] = np.nan
    table["kind"] = np.array(["red", "green", None], dtype=object)[np.arange(40) % 3]
    table["ripe"] = points[:, 2] > 0
    classes = np.where(points[:, 0] > 0, np.where(points[:, 3] > 0, "a", "b"), "c")
    model = make_pipeline(table_encoder(table), scaler, FeatureWeights(), LearnedKernelMetric(bandwidth=1.0))
    model.fit(table, classes)
    metric, layout = model.transform(table), points[:, 2:]
    visit.show(layout, classes, table=table, metric_coordinates=metric, placer=web_placer(model, table, layout, metric))
    open_details(visit, "new")
    new = table.sample(30, random_state=0)
    new["weight"] = np.where(np.arange(30) % 2, new["weight"], new["weight"] + 0.013)
    new.iloc[4, 2] = "unknown"
    said = drop_rows(visit, new.to_csv(index=False, sep=";"))
    own = model.transform(new)
    expected = median_places(metric, layout, own)
    np.testing.assert_allclose(coordinates_of_added(visit, 30), expected, rtol=1e-6, atol=1e-6)
    assert said.startswith("30 rows placed")
    visit.find_all(By.CSS_SELECTOR, "#added button")[4].click()
    assert "unknown" in visit.texts("#row td")


def test_a_map_of_the_metric_itself_has_a_place_for_every_row(visit, points):
    model, table, classes = prepared_model(points, "rbf")
    metric = model.transform(table)
    visit.show(metric, classes, placer=web_placer(model, table, metric))
    open_details(visit, "new")
    new = new_rows(table)
    drop_rows(visit, new.to_csv(index=False))
    np.testing.assert_allclose(coordinates_of_added(visit, len(new)), model.transform(new), rtol=1e-7, atol=1e-9)


@pytest.fixture
def placing(visit, points):
    """A page that places rows of four columns."""
    model, table, classes = prepared_model(points, "rbf")
    layout, metric = points[:, :2], model.transform(table)
    placer = web_placer(model, table, layout, metric)
    visit.show(layout, classes, table=table, metric_coordinates=metric, placer=placer, fitted_coordinates=points[:, 2:])
    open_details(visit, "new")
    return visit


HEADER = "first,second,<i>third</i>,fourth\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "The file is empty"),
        (HEADER, "The file has no rows"),
        ("first,second\n1,2\n", 'The file lacks 2 columns of the model: "<i>third</i>", "fourth".'),
        (HEADER + "1,2,3,4\n1,x<b>,3,4\n", 'Line 3, column "second": "x<b>" is not a number.'),
        (HEADER + "1,2,,4\n", 'Line 2, column "<i>third</i>": there is no value, and the model knows no gaps.'),
        (HEADER + "1,2,3\n", "Line 2 has 3 cells, and the first line 4."),
        (HEADER + '1,2,3,"4\n', "The quotes that begin in line 2 do not end."),
        ("first,first\n1,2\n", 'Two columns have the name "first".'),
        (HEADER + "1,2,3,4\n" * 20_001, "The file has more than 20000 rows; take fewer."),
        (HEADER + "1,2,3," + "9" * 1_000_000 + "\n", "is not a number."),
        (HEADER + "1,2,3," + "x" * 1_000_000 + "\n", "is not a number."),
    ],
    ids=lambda text: str(text)[:30],
)
def test_files_that_cannot_be_placed_get_a_message(placing, text, message):
    said = drop_rows(placing, text)
    assert message in said
    assert len(said) < 200
    assert "new rows" not in placing.legend
    assert placing.texts("#added li") == []


@pytest.mark.parametrize(
    "text",
    [
        HEADER + "101.5,1e-1,-7,0\n99,2,3,1\n",
        "\ufeff" + HEADER.replace(",", ";") + "101,5;0,1;-7;0\r\n99;2;3;1\r\n",
        HEADER.replace(",", "\t") + '"101.5"\t0.1\t -7 \t0\n\n99\t2\t3\t1',
        ('"note, ""quoted""\nin two lines",' + HEADER + 'a,101.5,0.1,-7,0\n"b\nc",99,2,3,1\n').encode("utf-8"),
        ("größe," + HEADER + "1,101.5,0.1,-7,0\n1,99,2,3,1\n").encode("latin-1"),
    ],
)
def test_csv_of_every_sort(placing, points, text):
    drop_rows(placing, text)
    model, table, _ = prepared_model(points, "rbf")
    own = model.transform(pd.DataFrame([[101.5, 0.1, -7, 0], [99, 2, 3, 1]], columns=table.columns))
    expected = median_places(model.transform(table), points[:, :2], own)
    np.testing.assert_allclose(coordinates_of_added(placing, 2), expected, rtol=1e-7)


def test_new_rows_are_rows_like_others(placing, points):
    rows = "id," + HEADER + "=1+1,101.5,0.1,-7,0\n" + f"{ATTACKS[1]},99,2,3,1\n"
    drop_rows(placing, rows)
    assert placing.legend[-2:] == ["new rows", "2"]
    assert placing.texts("#added .name") == ["=1+1", ATTACKS[1]]
    assert set(placing.texts("#added .label")) <= {"a", "b", "c"}
    placing.look_for("=1")
    assert placing.row == "=1+1"
    assert placing.texts("#row td") == ["missing", "101.5", "0.1", "-7", "0"]
    # Fitted positions, hovering, filter and file know them, too.
    before = coordinates_of_added(placing, 2)
    placing.find_all(By.CSS_SELECTOR, "#positions input")[1].click()
    assert not np.allclose(coordinates_of_added(placing, 2), before)
    placing.find_all(By.CSS_SELECTOR, "#positions input")[0].click()
    placing.point_at_coordinates(*before[1]).perform()
    placing.until(placing.find(By.ID, "tip").is_displayed)
    assert placing.texts("#tip strong") == [ATTACKS[1]]
    open_details(placing, "filter")
    filter_by(placing, "first", **{"from": "101.5", "to": "101.5"})
    placing.until(lambda: placing.texts("#conditions li") == ["first: from 101.5, to 101.5 remove"])
    assert placing.texts("#kept") == ["1 of 42 rows shown"]
    assert placing.legend[-2:] == ["new rows", "1"]
    # Another file takes their place.
    placing.find(By.CSS_SELECTOR, "#conditions button").click()
    drop_rows(placing, HEADER + "1,2,3,4\n", name="other.csv")
    assert placing.texts("#added .name") == ["new 1"]
    assert placing.legend[-2:] == ["new rows", "1"]
    assert not placing.run("return window.ran")


def test_a_file_can_be_dropped_onto_the_page(placing):
    code = """const transfer = new DataTransfer();
    transfer.items.add(new File([arguments[0]], "dropped.csv", {type: "text/csv"}));
    for (const type of ["dragover", "drop"]) {
      const event = new DragEvent(type, {dataTransfer: transfer, bubbles: true, cancelable: true});
      if (plot.dispatchEvent(event)) throw new Error("the browser would open the file");
    }"""
    placing.run(code, HEADER + "1,2,3,4\n")
    placing.until(lambda: placing.texts("#placed")[0].startswith("1 row placed"))


def test_a_page_says_why_it_cannot_place_rows(visit, points):
    visit.show(points[:, :2])
    assert visit.texts("#placeable") == ["New rows cannot be placed on this page: it was made without a model for them."]
    assert not visit.find(By.ID, "file").is_displayed()
    visit.show(points[:, :2], placer={"missing": ATTACKS[1]})
    assert visit.texts("#placeable") == [ATTACKS[1]]
    assert not visit.run("return window.ran")


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


# All of it, in every window and with every name.


def full_page(points, names):
    """Arguments of a page with everything, whose texts are some names."""
    table = pd.DataFrame(points, columns=[*names, "last"][:4] if len(names) > 2 else ["a", "b", "c", "d"])
    labels = np.array(names, dtype=object)[np.arange(40) % len(names)]
    model = LearnedKernelMetric().fit(points, np.arange(40) % len(names))
    metric = model.transform(table.to_numpy())
    return {
        "coordinates": points[:, :2],
        "labels": labels,
        "table": table.assign(text=labels),
        "metric_coordinates": metric,
        "fitted_coordinates": points[:, 2:],
        "honesty": names[0],
        "probabilities": np.full((40, len(names)), 1 / len(names)),
        "classes": names,
        "novelty": np.linspace(0, 1, 40),
        "placer": {**web_placer(model, points, points[:, :2], metric), "columns": list(map(str, table.columns))},
    }


HOSTILE = [ATTACKS[1], "\u202emirrored \u2067text", "word " * 200_000]


def test_hostile_names_stay_texts_in_every_control(visit, points):
    visit.show(**full_page(points, HOSTILE))
    for name in ("filter", "selection", "new"):
        open_details(visit, name)
    visit.look_for("39")
    for column in range(len(visit.find_all(By.CSS_SELECTOR, "#filtered option"))):
        Select(visit.find(By.ID, "filtered")).select_by_index(column)
    (box, *_) = visit.find_all(By.CSS_SELECTOR, "#condition input[type=checkbox]")
    box.click()
    visit.until(lambda: len(visit.texts("#conditions li")) == 1)
    header = ",".join('"' + name.replace('"', '""') + '"' for name in [*HOSTILE, "last"])
    said = drop_rows(visit, f"{header}\n1,2,3,4\n")
    assert said.startswith("1 row placed")
    visit.find(By.CSS_SELECTOR, "#added button").click()
    assert visit.row == "new 1"
    assert not visit.run("return window.ran")
    assert visit.find_all(By.CSS_SELECTOR, "aside img, header img, #names img, aside b") == []
    shown = visit.texts("#names span, option, #condition label, #conditions li, #placeable, #row .bars .name, #placed, h2")
    assert max(map(len, shown)) < 400
    assert visit.run("return document.documentElement.scrollWidth <= innerWidth")


@pytest.fixture
def emulated(visit):
    """A function that sets the size and the colours of the screen."""

    def emulate(width, height, scheme):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        visit.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        visit.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    yield emulate
    visit.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    visit.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_a_window_of_320_pixels(visit, points, emulated):
    emulated(320, 640, "light")
    visit.show(**full_page(points, ["a" * 60, "b", "c" * 60]))
    for name in ("filter", "selection", "new"):
        open_details(visit, name)
    visit.look_for("5")
    assert visit.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    widest = (
        "return Math.max(...[...document.querySelectorAll('header *, aside *')].map((one) => one.getBoundingClientRect().right))"
    )
    assert visit.run(widest) <= 320


def luminance(colour):
    """Of a colour in the words of WCAG, from "#rrggbb" or "rgb(r, g, b)"."""
    parts = [int(colour[place : place + 2], 16) for place in (1, 3, 5)] if colour[0] == "#" else re.findall(r"\d+", colour)[:3]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (int(p) / 255 for p in parts)]
    return np.dot(linear, [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_dark_mode_comes_and_goes(visit, points, emulated, dimensions):
    emulated(1200, 800, "dark")
    visit.show(points[:, :dimensions], np.arange(40) % 10)

    def paper():
        return visit.run("return [plot._fullLayout.paper_bgcolor, getComputedStyle(document.body).backgroundColor]")

    dark, behind = paper()
    assert luminance(dark) == luminance(behind) < 0.05
    for selector in ("p", "h2", "summary", ".count"):
        ink = visit.run("return getComputedStyle(document.querySelector(arguments[0])).color", selector)
        assert contrast(ink, behind) > 4.5
    colours = visit.run("return plot.data.slice(0, 10).map(({marker}) => marker.color)")
    assert min(contrast(colour, dark) for colour in colours) > 3
    assert len(set(colours)) == 10
    emulated(1200, 800, "light")
    visit.until(lambda: luminance(paper()[0]) == luminance(paper()[1]) == 1)


def test_new_controls_are_reached_by_the_keyboard(visit, points):
    visit.show(**full_page(points, ["x", "y", "z"]))
    for name in ("filter", "selection", "new"):
        open_details(visit, name)
    visit.find(By.ID, "pick").send_keys(Keys.ENTER)
    visit.find(By.ID, "wanted").click()
    reached = []
    for _ in range(45):
        active = visit.driver.switch_to.active_element
        reached.append((active.tag_name, active.get_attribute("id"), active.accessible_name))
        ActionChains(visit.driver).send_keys(Keys.TAB).perform()
    assert {"named", "filtered", "pick", "unpick", "save", "file"} <= {name for _, name, _ in reached}
    assert {"contains", "out of fold", "x", "missing"} <= {name for _, _, name in reached}
    assert {tag for tag, _, name in reached if not name} <= {"body", "aside", "div"}  # what only scrolls


def test_the_map_follows_the_size_of_its_place(visit, points):
    visit.show(points[:, :2], np.arange(40) % 2, fitted_coordinates=points[:, 2:], honesty="word " * 60)
    visit.find_all(By.CSS_SELECTOR, "#positions input")[1].click()
    visit.until(lambda: visit.run("return Math.abs(plot._fullLayout.height - plot.clientHeight) < 1"))
    assert visit.run("return document.documentElement.scrollHeight <= innerHeight")
