"""Numbers side by side: accuracies, scores of a search, errors of verification, and neighbours before and after a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_consistent_length

from outmetric.estimators import setting, shortened
from outmetric.foundation import Array
from outmetric.layouts import Fitted
from outmetric.maps.canvas import COLOURS, HATCHES, LITERAL, SEQUENTIAL, axes, grid, literal_legend, look
from outmetric.verification import OperatingPoints, PairVerifier

# Characters of a name below an ax.
TICK = 16
# The share of a group's width that its dots take.
GROUP = 0.72
# Rates that are named on the axes of a DET curve.
RATES = (0.0001, 0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95)


def accuracy_bars(
    groups: Any,
    series: Any,
    means: Array,
    intervals: Array,
    *,
    measure: str = "accuracy in %",
    best: float = 100.0,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw accuracies, or other scores, as groups of dots with intervals.

    A bar would tell of a score by its length, and had to begin at 0; dots tell by their place, and may be looked at closely.

    Parameters
    ----------
    groups, series : names of the groups (data sets) and of the dots in each (methods)
    means, intervals : arrays of shape (series, groups)
        In per cent; an interval is the half-length of the line through a dot. NaN draws nothing.
    measure : str
        What is drawn.
    best : float
        The best score, where the axis ends. Below it begins at 0, at the lowest score, or shortly before all of them.
    legend : bool
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    ax = axes(size=(8, 4)) if ax is None else ax
    means, intervals = np.asarray(means, dtype=float), np.asarray(intervals, dtype=float)
    apart = GROUP / len(series)
    dots = []
    for index in range(len(series)):
        places = np.arange(len(groups)) + (index - (len(series) - 1) / 2) * apart
        colour, mark = look(index).values()
        ax.errorbar(places, means[index], yerr=intervals[index], fmt="none", ecolor=colour, elinewidth=1.8, zorder=2)
        # Perfect scores are whole on the edge of the ax.
        dots += ax.plot(places, means[index], linestyle="", color=colour, marker=mark, markersize=7, clip_on=False, zorder=3)
    tenth = best / 10
    lowest = tenth * np.floor(np.nanmin(means - np.nan_to_num(intervals)) / tenth) - tenth / 2
    ax.set_ylim(lowest if np.nanmin(means) < 0 else max(0, lowest), best)
    ax.set_xlim(-0.5, len(groups) - 0.5)
    for place in range(1, len(groups), 2):  # bands part the groups
        ax.axvspan(place - 0.5, place + 0.5, color="0.96", zorder=0)
    _name_ticks(ax, groups)
    ax.set_ylabel(measure)
    ax.yaxis.grid(True, alpha=0.3)
    ax.set_axisbelow(True)
    ax.tick_params(length=0)
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        literal_legend(ax, dots, [str(name) for name in series], loc="center left", bbox_to_anchor=(1, 0.5))
    return ax


def critical_difference(names: Any, ranks: Array, difference: float, *, ax: Any = None) -> Any:
    """Draw mean ranks on a line, with bars that join what does not differ by the critical difference.

    Parameters
    ----------
    names : names of the methods
    ranks : array of shape (methods,)
        Mean ranks; the best is 1.
    difference : float
        Ranks that are further apart differ significantly.
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    order = np.argsort(ranks)
    half = (len(order) + 1) // 2
    ax = axes(size=(8, 1.2 + 0.28 * half)) if ax is None else ax
    low, high = 1, len(ranks)
    ax.hlines(0, low, high, color="black")
    for rank in range(low, high + 1):
        ax.vlines(rank, 0, 0.25, color="black")
        ax.text(rank, 0.35, str(rank), ha="center", va="bottom")
    bars = 0
    for start, one in enumerate(order):
        alike = [other for other in order[start:] if ranks[other] - ranks[one] <= difference]
        earlier = start > 0 and ranks[alike[-1]] - ranks[order[start - 1]] <= difference
        if len(alike) > 1 and not earlier:
            bars += 1
            ax.hlines(-0.35 * bars, ranks[one] - 0.04, ranks[alike[-1]] + 0.04, color=COLOURS[2], lw=3)
    for place, one in enumerate(order):
        left = place < half
        depth = -0.35 * (bars + 1) - 0.6 * (place if left else len(order) - 1 - place) - 0.3
        end = low - 0.4 if left else high + 0.4
        ax.plot([ranks[one], ranks[one], end], [0, depth, depth], color="black", lw=0.8)
        ax.text(end, depth, f" {names[one]} ({ranks[one]:.2f}) ", ha="right" if left else "left", va="center", **LITERAL)
    ax.hlines(1.5, low, low + difference, color="black", lw=1.5)
    ax.text(low + difference / 2, 1.65, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=9)
    ax.set_xlim(low - 3, high + 3)
    ax.axis("off")
    return ax


def search_map(search: Any, *, x: str = "bandwidth", y: str = "regression_weight", ax: Any = None) -> Any:
    """Draw a search's score over two of its parameters as a heat map, the best over all others in each field.

    Parameters
    ----------
    search : fitted MetricSearchCV, or anything with its ``cv_results_``
    x, y : str
        Parameters of the grid; the step's name may be left out (``bandwidth`` for ``metric__bandwidth``).
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    columns, rows = (_parameter(search.cv_results_, name) for name in (x, y))
    x_values, y_values = _distinct(columns), _distinct(rows)
    scores = np.full((len(y_values), len(x_values)), np.nan)
    for column, row, score in zip(columns, rows, search.cv_results_["mean_test_score"], strict=True):
        place = y_values.index(row), x_values.index(column)
        scores[place] = np.nanmax([scores[place], score]) if np.isfinite(scores[place]) else score
    ax = axes() if ax is None else ax
    image = ax.imshow(scores, origin="lower", aspect="auto", cmap=SEQUENTIAL)
    _name_ticks(ax, x_values)
    ax.set_yticks(range(len(y_values)), [_label(value) for value in y_values])
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.figure.colorbar(image, ax=ax, label="mean score (best over the rest)")
    best = np.unravel_index(np.nanargmax(scores), scores.shape)
    ax.plot(best[1], best[0], marker="o", markersize=11, markerfacecolor="none", markeredgecolor="black", markeredgewidth=2)
    return ax


def search_path(search: Any, parameter: str, *, ax: Any = None) -> Any:
    """Draw the best score for each value of one parameter, with the standard error over the folds.

    Parameters
    ----------
    search : fitted MetricSearchCV, or anything with its ``cv_results_``
    parameter : str
        For example ``output_penalty``, ``n_components`` or ``n_neighbors``.
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    results = search.cv_results_
    values = _parameter(results, parameter)
    folds = sum(name.startswith("split") and name.endswith("_test_score") for name in results)
    positions = _distinct(values)
    best = []
    for value in positions:
        members = [row for row, found in enumerate(values) if found == value]
        best.append(max(members, key=lambda row: np.nan_to_num(results["mean_test_score"][row], nan=-np.inf)))
    error = results["std_test_score"][best] / np.sqrt(folds)
    ax = axes() if ax is None else ax
    ax.errorbar(range(len(best)), results["mean_test_score"][best], yerr=error, marker="o", capsize=3, color=COLOURS[0])
    _name_ticks(ax, positions)
    ax.set_xlabel(parameter)
    ax.set_ylabel("mean score (best over the rest)")
    return ax


def neighbor_purity(
    X: Any,
    mapped: Any,
    y: Any,
    *,
    X_train: Any = None,
    y_train: Any = None,
    mapped_train: Any = None,
    n_neighbors: int | Sequence[int] = 10,
    legend: bool = True,
    ax: Any = None,
) -> Any:
    """Draw the share of points of the same class among nearest neighbours, before and after a map.

    A map has seen the labels of its training points, so their purity is optimistic, with a flexible kernel wildly so. Ask for it
    on held-out points, with the training points as ``X_train``.

    Parameters
    ----------
    X, y : data and labels of the points whose neighbours are looked at
    mapped : fitted metric, Pipeline, MetricSearchCV or MetricClassifier; or array of shape (n, m)
        The map, or the images of X. With a pipeline, "before" means the data as the metric gets them, after scaling, say.
    X_train, y_train : data and labels, optional
        The points among which neighbours are sought. Default: X itself, where a point is not its own neighbour.
    mapped_train : array of shape (n_train, m), optional
        The images of X_train, if ``mapped`` is an array.
    n_neighbors : int or sequence of int
        A number: bars for each class, with a mark for the share that the class has among all points. Several numbers: the mean over
        all points for each of them.
    legend : bool
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    y = np.asarray(y)
    references = y if X_train is None else np.asarray(y_train)
    check_consistent_length(X, y)
    check_consistent_length(X if X_train is None else X_train, references)
    if hasattr(mapped, "transform"):
        fitted = Fitted.of(mapped)
        if fitted.classes is None and y.dtype.kind in "iuf":
            raise ValueError("neighbor_purity counts neighbours of the same class; this model was fitted on real targets.")
        if fitted.metric.__sklearn_tags__().input_tags.pairwise:
            raise ValueError("there are no neighbours in a precomputed kernel; give the data as X, and transform(X) as mapped.")
        spaces = [
            [None if some is None else place(some) for some in (X, X_train)] for place in (fitted.prepared, fitted.coordinates)
        ]
    else:
        if (mapped_train is None) != (X_train is None):
            raise ValueError("give both of X_train and mapped_train, or none: mapped is an array of the images of X.")
        spaces = [[X, X_train], [mapped, mapped_train]]
    counts = np.atleast_1d(n_neighbors)
    largest = len(references) - (X_train is None)
    if counts.min() < 1 or counts.max() > largest:
        raise ValueError(
            f"n_neighbors must be from 1 to {largest}, the points among which neighbours are sought; not {n_neighbors!r}."
        )
    before, after = (_shares(points, y, others, references, counts) for points, others in spaces)
    ax = axes() if ax is None else ax
    if np.ndim(n_neighbors):
        for index, (name, shares) in enumerate((("before", before), ("after", after))):
            ax.plot(counts, shares.mean(axis=1), label=name, **look(index))
        ax.set_xlabel("number of neighbours")
    else:
        _draw_purity_bars(ax, y, references, before[0], after[0])
        ax.set_xlabel(f"class ({n_neighbors} nearest neighbours)")
    ax.set_ylabel("share of the same class")
    ax.set_ylim(0, 1.02)
    ax.yaxis.grid(True, alpha=0.3)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False)
    return ax


def verification(verifiers: Any, pairs: Any, y: Any, *, legend: bool = True, axes: Any = None) -> Any:
    """Draw how many same pairs are accepted, and rejected, for each share of different pairs that is accepted: ROC and DET curves.

    The DET curve has both kinds of errors on scales of the normal distribution, on which small rates can be read, and distances
    that are normally distributed give a straight line. A ring is where a calibrated verifier has its threshold, on these pairs.

    Parameters
    ----------
    verifiers : PairVerifier or fitted metric, or dict of them by their names
    pairs, y
        As for `PairVerifier.score`; not those of the calibration, and of identities that the metric has not seen.
    legend : bool
        With the area under the curve and the equal error rate of each.
    axes : two matplotlib axes, optional

    Returns
    -------
    array of the two axes
    """
    named = verifiers if isinstance(verifiers, Mapping) else {"": verifiers}
    axes = grid(1, 2)[1][0] if axes is None else axes
    roc, det = axes
    lines, texts, smallest = [], [], 0.5
    for index, (name, one) in enumerate(named.items()):
        verifier = one if isinstance(one, PairVerifier) else PairVerifier(one)
        points = verifier.operating_points(pairs, y)
        colour = look(index)["color"]
        style = {"color": colour, "linestyle": ("-", "--", "-.", ":")[index % 4]}
        lines += roc.plot(points.false_accepts, points.true_accepts, **style)
        det.plot(*_on_normal_scale(points), **style)
        if hasattr(verifier, "threshold_"):
            place = points.place_of(verifier.threshold_)
            ring = {"color": colour, "marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgewidth": 2}
            roc.plot(points.false_accepts[place], points.true_accepts[place], clip_on=False, **ring)
            det.plot(*(part[place] for part in _on_normal_scale(points)), **ring)
        measures = f"AUC {points.auc:.3f}, equal error rate {points.equal_error_rate:.1%}"
        texts.append(f"{name}: {measures}" if name else measures)
        smallest = min(smallest, 1 / points.n_different, 1 / points.n_same)
    roc.plot([0, 1], [0, 1], color="0.7", lw=0.8, zorder=0)
    roc.set(xlim=(0, 1), ylim=(0, 1), xlabel="false accepts", ylabel="true accepts")
    low, high = ndtri([smallest / 2, 0.9])
    det.plot([low, high], [low, high], color="0.7", lw=0.8, zorder=0)
    ticks = [rate for rate in RATES if smallest / 2 <= rate <= 0.9]
    labels = [f"{100 * rate:g}" for rate in ticks]
    det.set(xlim=(low, high), ylim=(low, high), xlabel="false accepts in %", ylabel="false rejects in %")
    det.set_xticks(ndtri(ticks), labels)
    det.set_yticks(ndtri(ticks), labels)
    for ax in axes:
        ax.grid(True, alpha=0.3)
        ax.set_aspect("equal")
    if legend:
        literal_legend(roc, lines, texts, loc="lower right")
    return axes


def _on_normal_scale(points: OperatingPoints) -> tuple[Array, Array]:
    """False accepts and false rejects; nothing where one of them is 0, which such a scale does not have."""
    rates = points.false_accepts, 1 - points.true_accepts
    inside = (rates[0] > 0) & (rates[1] > 0)
    return tuple(np.where(inside, ndtri(np.where(inside, rate, 0.5)), np.nan) for rate in rates)  # type: ignore[return-value]


def _shares(points: Any, y: Array, others: Any, references: Array, counts: Array) -> Array:
    """For each count and point the share of its own class among so many nearest neighbours."""
    search = NearestNeighbors(n_neighbors=int(counts.max())).fit(points if others is None else others)
    neighbours = search.kneighbors(None if others is None else points, return_distance=False)
    same = np.cumsum(references[neighbours] == y[:, None], axis=1)
    return np.asarray(same[:, counts - 1] / counts).T


def _draw_purity_bars(ax: Any, y: Array, references: Array, before: Array, after: Array) -> None:
    classes = np.unique(y)
    width = 0.4
    for index, (name, shares) in enumerate((("before", before), ("after", after))):
        heights = [*(shares[y == one].mean() for one in classes), shares.mean()]
        ax.bar(np.arange(len(heights)) + (index - 0.5) * width, heights, width, label=name, **_fill(index))
    chance = [np.mean(references == one) for one in classes]
    ax.errorbar(range(len(classes)), chance, xerr=width, fmt="none", color="black", label="by chance")
    _name_ticks(ax, [*classes, "all"])


def _fill(index: int) -> dict[str, Any]:
    """Colour and hatch of the index-th series of bars."""
    return {"color": COLOURS[index % len(COLOURS)], "hatch": HATCHES[index % len(HATCHES)], "edgecolor": "white", "linewidth": 0}


def _name_ticks(ax: Any, values: Sequence[Any]) -> None:
    """Names below an ax, upright where there is no room."""
    names = [_label(value) for value in values]
    crowded = sum(len(name) + 2 for name in names) > 60
    ax.set_xticks(range(len(names)), names, rotation=90 if crowded else 0, **LITERAL)


def _label(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else shortened(setting(value), TICK)


def _parameter(results: Any, name: str) -> list[Any]:
    """The values of a parameter for all candidates; None where the candidate's grid does not have it."""
    columns = [column for column in results if column == f"param_{name}" or column.endswith(f"__{name}")]
    if len(columns) != 1:
        known = sorted(column.removeprefix("param_") for column in results if column.startswith("param_"))
        raise ValueError(f"{name!r} names {len(columns)} parameters of the search; use one of {known}.")
    return [None if value is np.ma.masked else value for value in results[columns[0]]]


def _distinct(values: list[Any]) -> list[Any]:
    """Each value once; numbers in order, before all else."""
    numbers = sorted({value for value in values if isinstance(value, int | float | np.number)})
    others = [value for value in values if not isinstance(value, int | float | np.number)]
    return [*numbers, *(value for index, value in enumerate(others) if value not in others[:index])]
