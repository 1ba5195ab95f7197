"""Do maps say truly what lies where: names, scales, contours, curves?"""

from itertools import combinations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex, to_rgb
from matplotlib.contour import ContourSet
from matplotlib.markers import MarkerStyle
from matplotlib.path import Path
from matplotlib.text import Text
from mpl_toolkits.axes_grid1.anchored_artists import AnchoredSizeBar

from outmetric import LearnedKernelMetric, plots
from outmetric.datasets import make_waveform
from outmetric.maps.canvas import COLOURS, look, round_length
from outmetric.maps.islands import home, moved_apart

mpl.use("Agg")
GREY = to_hex("0.45")
HOSTILE = ["$x", "$\\frac{", "_under_", "a\\b", "C:\\new$a$", "100 % & more", "#{}~^", "two\nlines"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def islands(n_classes, n_rows=40, *, spread=0.5, distance=4.0, dimensions=2, seed=0):
    """Classes in the fields of a chess board, and their numbers."""
    side = int(np.ceil(n_classes**0.5))
    labels = np.repeat(np.arange(n_classes), n_rows)
    middles = np.zeros((n_classes, dimensions))
    middles[:, 0], middles[:, 1] = distance * (np.arange(n_classes) % side), distance * (np.arange(n_classes) // side)
    return middles[labels] + np.random.default_rng(seed).normal(0, spread, (len(labels), dimensions)), labels


def names(ax):
    return [text.get_text() for text in ax.texts]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def boxes(ax):
    """Corners of the names as they are drawn, in pixels."""
    ax.figure.canvas.draw()
    return [text.get_window_extent().get_points() for text in ax.texts]


def check_names(ax):
    """All are inside the ax, and no two overlap."""
    found = boxes(ax)
    window = ax.get_window_extent().get_points()
    for low, high in found:
        assert np.all(low >= window[0] - 1e-6)
        assert np.all(high <= window[1] + 1e-6)
    for (low, high), (other_low, other_high) in combinations(found, 2):
        assert np.any(high <= other_low) or np.any(other_high <= low)


def contours(ax):
    return [found for found in ax.collections if isinstance(found, ContourSet)]


@pytest.mark.parametrize("n_classes", [1, 2, 10, 20])
@pytest.mark.parametrize("distance", [1.2, 4.0])
def test_names_stand_apart_inside_the_map(n_classes, distance):
    points, labels = islands(n_classes, spread=0.15, distance=distance)
    words = np.array([f"class {label}" for label in range(n_classes)])[labels]
    ax = plots.honest_map(points, words)
    assert sorted(names(ax)) == sorted(set(words))
    assert ax.get_legend() is None
    check_names(ax)
    # Whatever happens to the picture before it is drawn.
    ax.figure.set_size_inches(5, 4)
    ax.figure.set_dpi(170)
    ax.set_title("a title\nof two lines")
    check_names(ax)


def test_names_of_a_map_in_a_corner_of_a_figure():
    points, labels = islands(6, spread=0.2)
    _, axes = plots.grid(2, 2, size=3)
    for ax in axes.ravel():
        plots.honest_map(points, [f"number {label}" for label in labels], ax=ax, scale=1.0)
    for ax in axes.ravel():
        check_names(ax)


def test_names_are_where_their_classes_are():
    points, labels = islands(9, 200, spread=0.8)
    ax = plots.honest_map(points, labels)
    for label, (low, high) in enumerate(boxes(ax)):
        middle = ax.transData.inverted().transform((low + high) / 2)
        assert np.linalg.norm(middle - np.median(points[labels == label], axis=0)) < 0.4
    # A name that would hide its island is above it.
    small, _ = islands(9, spread=0.1)
    ax = plots.honest_map(small, [f"the class {label}" for label in labels[::5]])
    for label, (low, _) in enumerate(boxes(ax)):
        top = ax.transData.transform([0, np.quantile(small[label * 40 : label * 40 + 40, 1], 0.8)])[1]
        assert top < low[1] < top + 30


def test_a_centre_is_neither_moved_by_outliers_nor_between_islands():
    rng = np.random.default_rng(0)
    island = rng.normal(0, 1, (60, 2))
    none = np.empty((0, 2))
    assert np.linalg.norm(home(np.vstack([island, rng.normal(40, 1, (25, 2))]), none)) < 0.7
    two = np.vstack([island, rng.normal([20, 0], 1, (55, 2))])
    assert min(np.linalg.norm(home(two, none) - place) for place in ([0, 0], [20, 0])) < 0.7
    np.testing.assert_array_equal(home(np.full((7, 2), 3.0), none), [3, 3])
    np.testing.assert_array_equal(home(np.array([[1.0, 2.0]]), none), [1, 2])


def test_a_centre_is_where_the_class_is_alone():
    """Two bars cross, where both are densest."""
    rng = np.random.default_rng(0)
    across, up = rng.normal(0, [4, 0.3], (400, 2)), rng.normal(0, [0.3, 4], (400, 2))
    assert abs(home(across, up)[0]) > 1.5
    assert abs(home(up, across)[1]) > 1.5


@pytest.mark.parametrize("seed", range(8))
def test_boxes_are_moved_apart(seed):
    rng = np.random.default_rng(seed)
    window = np.array([[10.0, 20.0], [510.0, 420.0]])
    middles, sizes = rng.uniform(window[0], window[1], (20, 2)), np.column_stack([rng.uniform(10, 90, 20), np.full(20, 14.0)])
    middles[:4] = middles[0]  # in the same place
    moved = moved_apart(middles, sizes, window)
    low, high = moved - sizes / 2, moved + sizes / 2
    assert np.all(low >= window[0] - 1e-9)
    assert np.all(high <= window[1] + 1e-9)
    for one, other in combinations(range(20), 2):
        assert np.any(high[one] <= low[other]) or np.any(high[other] <= low[one])
    np.testing.assert_array_equal(moved, moved_apart(middles, sizes, window))
    np.testing.assert_array_equal(moved, moved_apart(moved, sizes, window))  # what is apart stays


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_classes", [2, 4, 10])
def test_labels_that_mean_nothing_have_no_islands(n_classes, seed):
    points, labels = islands(n_classes, seed=seed)
    ax = plots.honest_map(points, np.random.default_rng(seed).permutation(labels))
    assert names(ax) == []
    assert legend(ax) == [str(label) for label in range(n_classes)]


def test_a_class_among_others_is_told_by_a_legend():
    points, labels = islands(4, 60)
    labels[:60:3] = 9
    ax = plots.honest_map(points, labels)
    assert names(ax) == ["0", "1", "2", "3"]
    assert legend(ax) == ["0", "1", "2", "3", "9"]


def test_islands_of_training_rows_name_no_class_of_new_rows():
    X, labels = islands(3)
    ax = plots.point_map(X, np.random.default_rng(0).permutation(labels), train=X, y_train=labels)
    assert names(ax) == []
    assert legend(ax) == ["0", "1", "2"]


@pytest.mark.parametrize("choice", [True, False, "auto"])
@pytest.mark.parametrize("named", [True, False])
def test_names_and_legends_as_they_are_wished(choice, named):
    ax = plots.honest_map(*islands(3), names=named, legend=choice)
    assert names(ax) == ["0", "1", "2"] * named
    assert (ax.get_legend() is not None) == {True: True, False: False, "auto": not named}[choice]


@pytest.mark.parametrize("n_classes", [25, 120])
def test_many_classes_have_a_legend_below(n_classes):
    points, labels = islands(n_classes, 10)
    ax = plots.honest_map(points, [f"species {label:03}" for label in labels], scale=1.0)
    ax.figure.canvas.draw()
    assert names(ax) == []
    shown = [f"species {label:03}" for label in range(min(n_classes, 100))]
    assert legend(ax) == shown + [f"… and {n_classes - 100} more"] * (n_classes > 100)
    box, window = ax.get_legend().get_window_extent(), ax.get_window_extent()
    assert box.y1 < window.y0
    assert 0 <= box.x0 < box.x1 <= ax.figure.bbox.width
    assert box.y0 >= 0
    assert window.height > 0.8 * ax.figure.dpi * 5  # the map has not become smaller
    drawn = {(to_hex(marks.get_facecolor()[0]), marks.get_paths()[0].vertices.tobytes()) for marks in ax.collections}
    assert len(drawn) == n_classes  # no look is that of another class


def test_names_that_have_no_room():
    points, labels = islands(16, distance=0.5, spread=0.05)
    ax = plt.figure(figsize=(2, 2)).add_subplot()
    plots.honest_map(points, [f"a long name, number {label}" for label in labels], ax=ax)
    assert names(ax) == []
    assert len(legend(ax)) == 16


@pytest.mark.parametrize("maker", [lambda points, y, **rest: plots.honest_map(points, y, **rest), plots.point_map])
def test_hostile_names_are_shown_as_they_are(maker):
    points, labels = islands(len(HOSTILE))
    ax = maker(points, np.array(HOSTILE)[labels], legend=True)
    shown = sorted(" ".join(name.split()) for name in HOSTILE)
    assert sorted(names(ax)) == sorted(legend(ax)) == shown
    check_names(ax)  # a formula that cannot be read would be an error here
    written = [*ax.texts, *ax.get_legend().get_texts(), ax.get_legend().get_title()]
    assert not any(text.get_parse_math() or text.get_usetex() for text in written)


def test_hostile_titles_columns_and_lanes():
    points, labels = islands(2)
    values = pd.Series(points[:, 0], name="$\\bad{")
    ax = plots.honest_map(points, values, title="50 $ of \\rows{ $")
    assert ax.get_title(loc="left") == "50 $ of \\rows{ $"
    ax.figure.canvas.draw()
    assert ax.figure.axes[1].get_ylabel() == "$\\bad{"
    line = plots.output_map(
        LearnedKernelMetric(1).fit(points, labels), points, pd.Series(np.array(["$a$ {", "_b"])[labels], name="$\\x{ $")
    )
    assert names(line) == ["$a$ {", "_b"]
    line.figure.canvas.draw()
    chart = plots.accuracy_bars(["$\\set{ $", "_b"], ["$\\one{ $"], np.full((1, 2), 90.0), np.ones((1, 2)))
    chart.figure.canvas.draw()


def test_titles_are_lines_of_the_width_of_the_map():
    ax = plots.honest_map(*islands(3), title="a word of many " * 12)
    ax.figure.canvas.draw()
    (title,) = (text for text in ax.findobj(Text) if text.get_text().startswith("a word"))
    assert "\n" in title.get_text()
    box = title.get_window_extent()
    assert 0 <= box.x0 < box.x1 <= ax.figure.bbox.width


def bar(ax):
    """Length and text of the scale bar."""
    (found,) = (artist for artist in ax.artists if isinstance(artist, AnchoredSizeBar))
    (line,) = found.size_bar.get_children()
    return line.get_width(), found.txt_label.get_text()


@pytest.mark.parametrize("scale", [1e-4, 0.37, 1.0, 250.0])
def test_the_scale_bar_is_as_long_as_it_says(scale):
    points, labels = islands(9)
    ax = plots.honest_map(points, labels, scale=scale)
    width, text = bar(ax)
    length = float(text.removeprefix("distance "))
    assert width == pytest.approx(scale * length)
    assert f"{length:.0e}"[0] in "125"
    assert length == pytest.approx(float(f"{length:.0e}"))  # one digit
    assert 0.08 < width / np.ptp(ax.get_xlim()) < 0.23
    assert not plots.honest_map(points, labels).artists


@pytest.mark.parametrize(("longest", "expected"), [(1, 1), (0.99, 0.5), (4.9, 2), (5, 5), (1e-7, 1e-7), (73, 50), (0.3, 0.2)])
def test_round_lengths(longest, expected):
    assert round_length(longest) == pytest.approx(expected)


@pytest.mark.parametrize("picture", [plots.output_map, plots.decision_map])
def test_distances_of_the_metric_can_be_read_off_a_map(picture):
    X, y = make_waveform(120, random_state=0)
    model = LearnedKernelMetric(2).fit(X[:60], y[:60])
    ax = picture(model, X[60:], y[60:])
    ax.figure.canvas.draw()
    (found,) = (artist for artist in ax.artists if isinstance(artist, AnchoredSizeBar))
    pixels = found.size_bar.get_children()[0].get_window_extent().width / float(bar(ax)[1].removeprefix("distance "))
    places = ax.transData.transform(np.concatenate([marks.get_offsets() for marks in ax.collections[:3]]))
    apart = np.linalg.norm(places[:, None] - places, axis=2)
    order = np.argsort(y[60:], kind="stable")
    rows = X[60:][order]
    pairs = np.array([[rows[0], other] for other in rows])
    np.testing.assert_allclose(apart[0] / pixels, model.pair_distance(pairs), rtol=0.01, atol=1e-9)


@pytest.mark.parametrize(
    "draw",
    [
        lambda points, labels: plots.honest_map(points, labels),
        lambda points, labels: plots.honest_map(points, points[:, 0]),
        lambda points, labels: plots.point_map(points, labels),
        lambda points, labels: plots.output_map(LearnedKernelMetric(2).fit(points, labels), points, labels),
        lambda points, labels: plots.decision_map(LearnedKernelMetric(2).fit(points, labels), points, labels),
    ],
)
def test_maps_have_no_axes_and_the_same_scale_in_both_directions(draw):
    ax = draw(*islands(3))
    ax.figure.canvas.draw()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("", "")
    assert not [*ax.get_xticks(), *ax.get_yticks()]
    assert not any(spine.get_visible() for spine in ax.spines.values())
    (left, low), (right, _), (_, high) = ax.transData.transform([[0, 0], [1, 0], [0, 1]])
    assert right - left == pytest.approx(high - low, rel=0.006)  # matplotlib lets go at half a per cent


def test_contours_are_behind_more_than_5000_rows_only():
    points, labels = islands(4, 1300)
    assert not contours(plots.honest_map(points[200:], labels[200:]))
    for y, colours in [
        (labels, {look(index)["color"] for index in range(4)}),
        (np.arange(5200) % 12, {GREY}),
        (points[:, 0], {GREY}),
        (None, {GREY}),
    ]:
        ax = plots.honest_map(points, y)
        lines = [found for found in contours(ax) if not found.filled]
        assert {to_hex(one.get_edgecolor()[0]) for one in lines} == colours
        assert len(lines) == len(colours)
        assert (
            max(found.get_zorder() for found in contours(ax))
            < 1
            <= min(marks.get_zorder() for marks in ax.collections if not isinstance(marks, ContourSet))
        )
    assert not contours(plots.honest_map(np.insert(points, 2, 0.0, axis=1), labels))  # in space


def test_contours_hold_the_shares_that_they_say():
    points = np.random.default_rng(0).normal(size=(8000, 2)) * [3, 1]
    (lines,) = (found for found in contours(plots.honest_map(points, np.full(8000, "a"))) if not found.filled)
    held = [path.contains_points(points).mean() for path in lines.get_paths()]
    np.testing.assert_allclose(held, [0.9, 0.6, 0.3], atol=0.04)


def test_no_mark_is_too_small_to_be_seen():
    points, labels = islands(20, 2000, spread=0.4)
    ax = plots.honest_map(points, labels, names=False, legend=False)
    ax.figure.canvas.draw()
    pixels = np.asarray(ax.figure.canvas.buffer_rgba())[::-1, :, :3].astype(float)
    for label in range(20):
        across, up = ax.transData.transform(points[labels == label].mean(axis=0)).astype(int)
        middle = pixels[up - 5 : up + 5, across - 5 : across + 5].mean(axis=(0, 1))
        assert np.linalg.norm(middle - 255 * np.array(to_rgb(COLOURS[label]))) < 60


@pytest.mark.parametrize("dimensions", [2, 3])
def test_rows_without_labels_are_grey_and_below(dimensions):
    points, labels = islands(3, dimensions=dimensions)
    some = np.where(np.arange(120) % 4 == 0, None, labels.astype(object))
    ax = plots.honest_map(points, some)
    behind = ax.collections[0]
    assert to_hex(behind.get_facecolor()[0]) == GREY
    drawn = np.column_stack(behind._offsets3d) if dimensions == 3 else behind.get_offsets()
    np.testing.assert_allclose(np.ma.getdata(drawn), points[::4])
    assert {to_hex(marks.get_facecolor()[0]) for marks in ax.collections} == {GREY, *COLOURS[:3]}
    for nothing in (None, np.full(120, np.nan), np.full((120, 1), np.nan), [None] * 120):
        plain = plots.honest_map(points, nothing)
        assert {to_hex(marks.get_facecolor()[0]) for marks in plain.collections} == {GREY}
        assert plain.get_legend() is None


@pytest.mark.parametrize("dimensions", [2, 3])
@pytest.mark.parametrize("whole", [True, False])
def test_real_targets_have_a_colour_bar(dimensions, whole):
    points, labels = islands(3, dimensions=dimensions)
    values = labels.astype(float)[:, None] if whole else labels + 0.5
    ax = plots.honest_map(points, pd.Series(values[:, 0], name="age").to_frame() if whole else pd.Series(values, name="age"))
    (marks,) = ax.collections
    np.testing.assert_array_equal(marks.get_array(), np.ravel(values))
    assert [other.get_ylabel() for other in ax.figure.axes[1:]] == ["age"]
    assert len(plots.honest_map(points, values, legend=False).figure.axes) == 1
    objects = np.where(np.arange(120) % 2, np.ravel(values) + 0.25, None)
    hollow, marks = plots.honest_map(points, objects).collections
    assert len(hollow.get_facecolor()) == 0
    np.testing.assert_array_equal(marks.get_array(), np.ravel(values)[1::2] + 0.25)


def test_maps_in_space():
    points, labels = islands(4, dimensions=3)
    ax = plots.honest_map(points, labels, scale=0.5, title="three")
    assert ax.name == "3d"
    assert legend(ax) == ["0", "1", "2", "3"]
    (text,) = names(ax)
    step = 0.5 * float(text.removeprefix("between lines: distance "))
    for axis in (ax.xaxis, ax.yaxis, ax.zaxis):
        np.testing.assert_allclose(np.diff(axis.get_ticklocs()), step)
        assert not any(label.get_text() for label in axis.get_ticklabels())
    ax.figure.canvas.draw()
    assert ax.get_legend().get_window_extent().y1 < ax.get_window_extent().y0
    assert names(plots.honest_map(points, labels)) == []


@pytest.fixture(scope="module")
def line():
    """A model of two classes, and rows that it has not seen."""
    points, labels = islands(2, 100, spread=1.3)
    return LearnedKernelMetric(1).fit(points[::2], labels[::2]), points[1::2], np.array(["low", "high"])[labels[1::2]]


def test_two_classes_are_humps_over_their_rows(line):
    model, X, y = line
    ax = plots.output_map(model, X, y)
    assert "learned coordinate" in ax.get_xlabel()
    assert len(ax.get_yticks()) == 0
    check_names(ax)
    for index, name in enumerate(("high", "low")):
        rows = model.transform(X[y == name]).ravel()
        (ticks,) = (
            marks for marks in ax.collections if marks.get_zorder() < 3 and to_hex(marks.get_facecolor()[0]) == COLOURS[index]
        )
        np.testing.assert_allclose(ticks.get_offsets()[:, 0], rows)
        across, heights = ax.lines[index].get_data()
        density = heights - heights.min()
        assert density @ across / density.sum() == pytest.approx(rows.mean(), abs=0.01)
        spread = np.sqrt(density @ (across - rows.mean()) ** 2 / density.sum())
        assert rows.std() < spread < 1.25 * rows.std()
        # The rows are below the hump, and the name is above it.
        assert ticks.get_offsets()[:, 1].max() < heights.min()
        (text,) = (text for text in ax.texts if text.get_text() == name)
        low, high = ax.transData.inverted().transform(text.get_window_extent().get_points())
        assert low[0] < across[heights.argmax()] < high[0]
        assert heights.max() < low[1] < heights.max() + 0.3


def test_humps_of_rows_without_labels_and_of_training_rows(line):
    model, X, y = line
    ax = plots.output_map(model, X, X_train=X, y_train=y)
    assert sorted(names(ax)) == ["high", "low", "no label"]
    assert len(ax.patches) == 1  # pale rows have a line only
    ax = plots.output_map(model, X)
    assert sorted(name for name in names(ax) if name) == [str(name) for name in model.classes_]  # at their targets
    check_names(ax)
    assert len(ax.patches) == 1


def test_maps_that_cannot_be_drawn():
    points, labels = islands(2)
    with pytest.raises(ValueError, match="2 or 3 dimensions; coordinates have 1 columns"):
        plots.honest_map(points[:, :1], labels)
    with pytest.raises(ValueError, match="coordinates contains NaN"):
        plots.honest_map(points * np.nan, labels)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        plots.honest_map(points, labels[:-1])
    with pytest.raises(ValueError, match=r"scale must be a positive length, or None .*not 0"):
        plots.honest_map(points, labels, scale=0)
    with pytest.raises(ValueError, match="legend must be True, False or \"auto\"; not 'below'"):
        plots.honest_map(points, labels, legend="below")


# Machado, Oliveira and Fernandes (2009), "A physiologically-based model for simulation of color vision deficiency", severity 1.
VISIONS = {
    "all cones": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
XYZ = [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]


def cielab(colours, vision):
    values = np.array([to_rgb(colour) for colour in colours])
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ np.transpose(VISIONS[vision]), 0, 1) @ np.transpose(XYZ) / [0.95047, 1, 1.08883]
    x, y, z = np.where(seen > (6 / 29) ** 3, np.cbrt(seen), seen / (3 * (6 / 29) ** 2) + 4 / 29).T
    return np.column_stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("vision", VISIONS)
def test_twenty_colours_differ(vision):
    assert len(COLOURS) == 20
    lab = cielab(COLOURS, vision)
    assert min(np.linalg.norm(one - other) for one, other in combinations(lab, 2)) > 17
    assert lab[:, 0].max() < 86  # on white


def test_marks_that_share_a_colour_differ_in_shape():
    fields = np.stack(np.meshgrid(*[np.linspace(-1, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    shapes = []
    for index in range(40):
        mark = MarkerStyle(look(index)["marker"])
        (polygon,) = mark.get_path().transformed(mark.get_transform()).to_polygons()
        shapes.append(Path(polygon).contains_points(fields))
    for one, other in zip(shapes[:20], shapes[20:], strict=True):
        assert (one & other).sum() < 0.6 * (one | other).sum()
