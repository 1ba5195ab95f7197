"""Does the interactive map show in a browser what it was given, and answer clicks with the true neighbours?"""

import re

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from web_pages import ATTACKS, accessible_name, class_opinions, content, drop_rows, explained, open_details

from outmetric import LearnedKernelMetric
from outmetric.choosing import usual_contributions
from outmetric.maps import interactive_map, web_placer, webreasons

pytestmark = pytest.mark.slow


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(40, 4))


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
        reached.append((active.aria_role, accessible_name(active)))
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


def test_the_switch_to_fitted_positions(visit, points):
    fitted = points[:, 2:] + 50
    visit.show(points[:, :2], np.arange(40) % 2, metric_coordinates=points, fitted_coordinates=fitted, neighbors=3)
    note = visit.find(By.ID, "seen")
    assert "have not seen" in note.text
    visit.look_for("7")
    before = visit.neighbours
    one, other = visit.find_all(By.CSS_SELECTOR, "#positions input")
    assert (accessible_name(one), accessible_name(other)) == ("out of fold", "fitted")
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
    assert (switch.aria_role, accessible_name(switch)) == ("switch", "Names")
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
        reached.append((active.tag_name, active.get_attribute("id"), accessible_name(active)))
        ActionChains(visit.driver).send_keys(Keys.TAB).perform()
    assert {"named", "filtered", "pick", "unpick", "save", "file"} <= {name for _, name, _ in reached}
    assert {"contains", "out of fold", "x", "missing"} <= {name for _, _, name in reached}
    assert {tag for tag, _, name in reached if not name} <= {"body", "aside", "div"}  # what only scrolls


def test_the_map_follows_the_size_of_its_place(visit, points):
    visit.show(points[:, :2], np.arange(40) % 2, fitted_coordinates=points[:, 2:], honesty="word " * 60)
    visit.find_all(By.CSS_SELECTOR, "#positions input")[1].click()
    visit.until(lambda: visit.run("return Math.abs(plot._fullLayout.height - plot.clientHeight) < 1"))
    assert visit.run("return document.documentElement.scrollHeight <= innerHeight")
