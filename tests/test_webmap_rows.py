"""In a browser: are rows of the interactive map filtered, selected and saved, and new ones placed as Python would?"""

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, QuantileTransformer, RobustScaler
from web_pages import ATTACKS, accessible_name, drop_rows, open_details, prepared_model

from outmetric import FixedKernelMetric, LearnedKernelMetric, kernels
from outmetric.baselines import LMNN
from outmetric.columns import FeatureWeights, table_encoder
from outmetric.maps import web_placer
from outmetric.tables import write_table

pytestmark = pytest.mark.slow


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(40, 4))


def median_places(metric, layout, new):
    """Where new rows belong: at the median of the places of their seven nearest rows."""
    nearest = np.argsort(np.linalg.norm(metric[None] - new[:, None], axis=2), axis=1)[:, :7]
    return np.median(layout[nearest], axis=1)


def filter_by(visit, column, **values):
    """Type values into the controls of a column's filter, by their names."""
    Select(visit.find(By.ID, "filtered")).select_by_visible_text(column)
    for name, value in values.items():
        (field,) = [one for one in visit.find_all(By.CSS_SELECTOR, "#condition input") if accessible_name(one) == name]
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
    assert [accessible_name(box) for box in boxes] == ["<b>blue</b>", "Red", "green", "missing"]
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


def new_rows(table, count=25, seed=1):
    return table.sample(count, replace=True, random_state=seed) + np.random.default_rng(seed).normal(size=(count, table.shape[1]))


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


BAD_FILES = [
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
]


def test_files_that_cannot_be_placed_get_a_message(placing):
    for text, message in BAD_FILES:
        said = drop_rows(placing, text)
        assert message in said, text[:80]
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
