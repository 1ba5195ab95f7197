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

from outmetric.maps import interactive_map

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
