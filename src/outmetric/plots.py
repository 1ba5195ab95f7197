"""Pictures of fitted models and searches: each function takes an ``ax`` (or makes one), draws, and returns it."""

from __future__ import annotations

from typing import Any

import numpy as np

from outmetric.operators import Array

# Petroff (2021), "Accessible color sequences for data visualization": ten colours that the colour-blind can tell apart.
COLOURS = ["#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd"]
MARKERS = "osD^vP*X<>"


def output_map(model: Any, X: Any, y: Any, *, X_train: Any = None, y_train: Any = None, legend: bool = True, ax: Any = None) -> Any:
    """Draw points in the output space of a model with up to three components.

    Large outlined marks are the targets of the classes. With one component (two classes have no more) the classes are drawn one
    above the other.

    Parameters
    ----------
    model : fitted FixedKernelMetric or LearnedKernelMetric
        With class targets. Euclidean distance in the picture is the learned metric.
    X, y : data and labels to draw
    X_train, y_train : data and labels, optional
        Drawn behind, small and pale.
    legend : bool
    ax : matplotlib axes, optional
        A three-dimensional one for three components.

    Returns
    -------
    ax
    """
    if model.classes_ is None:
        raise ValueError("output_map colours by class; this model was fitted on real targets.")
    n_components = model.coefficients_.shape[1]
    if n_components > 3:
        raise ValueError(f"a map has at most 3 components; the model has {n_components}. Fit it with n_components=2.")
    ax = _axes(n_components) if ax is None else ax
    drawn = [(model.transform(X), np.asarray(y), {"s": 18, "alpha": 0.8})]
    if X_train is not None:
        drawn.insert(0, (model.transform(X_train), np.asarray(y_train), {"s": 9, "alpha": 0.25}))
    prototypes = model.prototypes_ @ model.metric_factor_.T
    for index, name in enumerate(model.classes_):
        style = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)]}
        for coordinates, labels, look in drawn:
            points = _place(coordinates[labels == name], index)
            ax.scatter(*points.T, linewidths=0, **look, **style)
        ax.scatter(*_place(prototypes[[index]], index).T, s=130, edgecolors="black", zorder=3, label=str(name), **style)
    ax.set_xlabel("component 1")
    if n_components == 1:
        ax.set_yticks(range(len(model.classes_)), [str(name) for name in model.classes_])
        ax.set_ylabel("class")
    else:
        ax.set_ylabel("component 2")
    if n_components == 2:
        ax.set_aspect("equal", adjustable="datalim")
    if n_components == 3:
        ax.set_zlabel("component 3")
    if legend:
        ax.legend(title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return ax


def point_map(
    coordinates: Array, y: Any, *, train: Array | None = None, y_train: Any = None, legend: bool = True, ax: Any = None
) -> Any:
    """Draw points in the plane by class, with training points behind them, small and pale.

    Parameters
    ----------
    coordinates, y : array of shape (n, 2), and labels
    train, y_train : array of shape (n_train, 2), and labels, optional
    legend : bool
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    ax = _axes(2) if ax is None else ax
    y = np.asarray(y)
    for index, name in enumerate(np.unique(y)):
        style = {"color": COLOURS[index % len(COLOURS)], "marker": MARKERS[index % len(MARKERS)], "linewidths": 0}
        if train is not None:
            ax.scatter(*train[np.asarray(y_train) == name].T, s=9, alpha=0.25, **style)
        ax.scatter(*coordinates[y == name].T, s=14, alpha=0.7, label=str(name), **style)
    if legend:
        ax.legend(title="class", loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return ax


def accuracy_bars(groups: Any, series: Any, means: Array, intervals: Array, *, legend: bool = True, ax: Any = None) -> Any:
    """Draw accuracies as groups of bars with error bars.

    Parameters
    ----------
    groups, series : names of the groups (data sets) and of the bars in each (methods)
    means, intervals : arrays of shape (series, groups)
        In per cent; an interval is the half-length of the error bar. NaN draws nothing.
    legend : bool
    ax : matplotlib axes, optional

    Returns
    -------
    ax
    """
    ax = _pyplot().figure(figsize=(8, 4), layout="constrained").add_subplot() if ax is None else ax
    width = 0.84 / len(series)
    for index, name in enumerate(series):
        places = np.arange(len(groups)) + (index - (len(series) - 1) / 2) * width
        colour, hatch = COLOURS[index % len(COLOURS)], ("", "//")[index // len(COLOURS) % 2]
        ax.bar(
            places, means[index], width, yerr=intervals[index], capsize=2, color=colour, hatch=hatch, label=name, error_kw={"lw": 1}
        )
    lowest = np.nanmin(means - np.nan_to_num(intervals))
    ax.set_ylim(max(0, 10 * np.floor(lowest / 10) - 5), 100)
    ax.set_xticks(range(len(groups)), groups)
    ax.set_ylabel("accuracy in %")
    ax.yaxis.grid(True, alpha=0.3)
    ax.set_axisbelow(True)
    if legend:
        ax.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
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
    ax = _pyplot().figure(figsize=(8, 1.2 + 0.28 * half), layout="constrained").add_subplot() if ax is None else ax
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
        ax.text(end, depth, f" {names[one]} ({ranks[one]:.2f}) ", ha="right" if left else "left", va="center")
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
    ax = _pyplot().figure(layout="constrained").add_subplot() if ax is None else ax
    image = ax.imshow(scores, origin="lower", aspect="auto", cmap="cividis")
    ax.set_xticks(range(len(x_values)), [_label(value) for value in x_values])
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
    folds = sum(name.startswith("split") for name in results)
    positions = _distinct(values)
    best = []
    for value in positions:
        members = [row for row, found in enumerate(values) if found == value]
        best.append(max(members, key=lambda row: np.nan_to_num(results["mean_test_score"][row], nan=-np.inf)))
    error = results["std_test_score"][best] / np.sqrt(folds)
    ax = _pyplot().figure(layout="constrained").add_subplot() if ax is None else ax
    ax.errorbar(range(len(best)), results["mean_test_score"][best], yerr=error, marker="o", capsize=3, color=COLOURS[0])
    ax.set_xticks(range(len(positions)), [_label(value) for value in positions])
    ax.set_xlabel(parameter)
    ax.set_ylabel("mean score (best over the rest)")
    return ax


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


def _label(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


def _place(coordinates: Array, index: int) -> Array:
    """Points of class ``index`` to draw; a single component is spread over a band of its class so that points stay apart."""
    if coordinates.shape[1] > 1:
        return coordinates
    golden = (np.arange(len(coordinates)) * 0.618) % 1 - 0.5 if len(coordinates) > 1 else np.zeros(1)
    return np.column_stack([coordinates, index + 0.6 * golden])


def _axes(n_components: int) -> Any:
    figure = _pyplot().figure(layout="constrained")
    return figure.add_subplot(projection="3d" if n_components == 3 else None)


def _pyplot() -> Any:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pictures need matplotlib: pip install 'outmetric[plot]'") from error
    return plt


def close(figure: Any) -> None:
    """Let go of a figure that has been saved."""
    _pyplot().close(figure)


def grid(rows: int, columns: int, *, size: float = 4.5) -> tuple[Any, Array]:
    """A figure with rows x columns axes, and the array of these."""
    figure, axes = _pyplot().subplots(rows, columns, figsize=(size * columns, size * rows), squeeze=False, layout="constrained")
    return figure, axes
