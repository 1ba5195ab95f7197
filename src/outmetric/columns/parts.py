"""The parts of dates that a model learns from: when, and where in the year, the month, the week and the day."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from outmetric.columns.dates import Dates, read_dates
from outmetric.columns.errors import TableError, shown
from outmetric.foundation import Array, check_features, exportable, storable

DAY = 86400.0
# What goes round, and in how many days.
CYCLES = {"year": 366.0, "month": 31.0, "week": 7.0, "day": 1.0}
# Dates that go round less than this share of a cycle say nothing by it that they do not say by the time.
LEAST_ROUND = 0.5
# What it takes to read a column of a row, in numbers that are looked at.
COLUMN = 8000
# Of a cycle; what varies less is round-off.
LEAST_CHANGE = 1e-9
# Sines are rounded to multiples of 1 / this: quantiles are steps where many dates have the same, as Mondays have, and what another
# machine or ONNX computes may differ in the last bit.
GRID = 2.0**30


def places_in_cycles(seconds: Any, floor: Callable[[Any], Any]) -> list[Any]:
    """How far through year, month, week and day dates are, each from 0 to 1.

    The calendar is Gregorian, by days since March 1 of the year 0, so that the day that not all years have is the last of its year
    (Hinnant, "chrono-compatible low-level date algorithms"). Numbers are arrays, or nodes of a graph; all but the time of day are
    whole.
    """
    days = floor(seconds / DAY)
    time = seconds - days * DAY
    since = days + 719468.0
    in_era = since - floor(since / 146097.0) * 146097.0  # of 400 years
    year = floor((in_era - floor(in_era / 1460.0) + floor(in_era / 36524.0) - floor(in_era / 146096.0)) / 365.0)
    in_year = in_era - (year * 365.0 + floor(year / 4.0) - floor(year / 100.0))
    month = floor((in_year * 5.0 + 2.0) / 153.0)
    in_month = in_year - floor((month * 153.0 + 2.0) / 5.0)
    from_monday = days + 3.0
    in_week = from_monday - floor(from_monday / 7.0) * 7.0
    return [in_year / CYCLES["year"], in_month / CYCLES["month"], in_week / CYCLES["week"], time / DAY]


@dataclass(frozen=True)
class _Node:
    """A result in an ONNX graph, for formulas that serve arrays as well."""

    graph: Any
    name: str

    def _with(self, operation: str, other: Any) -> _Node:
        return _Node(self.graph, self.graph(operation, self.name, other.name if isinstance(other, _Node) else float(other)))

    def __add__(self, other: Any) -> _Node:
        return self._with("Add", other)

    def __sub__(self, other: Any) -> _Node:
        return self._with("Sub", other)

    def __mul__(self, other: Any) -> _Node:
        return self._with("Mul", other)

    def __truediv__(self, other: Any) -> _Node:
        return self._with("Div", other)


def _to_onnx(graph: Any, model: DateParts, variables: Sequence[Any]) -> str:
    rows = graph.rows(variables)

    def column(place: int) -> list[str]:
        seconds = graph("Gather", rows, np.array([place]), axis=1)
        missing = graph("IsNaN", seconds)
        first, last, middle = (float(values[place]) for values in (model.first_, model.last_, model.middle_))
        filled = graph("Where", missing, middle, seconds)
        parts = [graph("Div", graph("Sub", graph("Min", graph("Max", filled, first), last), first), DAY)]
        cycles = places_in_cycles(_Node(graph, filled), lambda node: _Node(graph, graph("Floor", node.name)))
        for kept, cycle in zip(model.cycles_[place], cycles, strict=True):
            angles = [graph("Mul", cycle.name, 2 * np.pi), graph("Add", graph("Mul", cycle.name, 2 * np.pi), np.pi / 2)]
            waves = (
                [graph("Div", graph("Round", graph("Mul", graph("Sin", angle), GRID)), GRID) for angle in angles] if kept else []
            )
            parts += [graph("Where", missing, 0.0, wave) for wave in waves]
        return parts + ([graph.double(missing)] if model.gaps_[place] else [])

    return str(graph.beside([part for place in range(model.n_features_in_) for part in column(place)]))


def _width(model: DateParts) -> int:
    return int(model.n_features_in_ + 2 * np.count_nonzero(model.cycles_) + np.count_nonzero(model.gaps_))


def _check_stored(found: DateParts, size: int) -> None:
    check_features(found, size)
    width = getattr(found, "n_features_in_", None)
    if width is None:
        return
    numbers, truths = (found.first_, found.last_, found.middle_), (found.cycles_, found.gaps_)
    fits = all(values.shape == (width,) and values.dtype == np.float64 and np.isfinite(values).all() for values in numbers)
    fits = fits and [values.shape for values in truths] == [(width, len(CYCLES)), (width,)]
    fits = fits and all(values.dtype == np.bool_ for values in truths)
    zones = found.zones_
    if not fits or len(zones) != width or not all(zone is None or isinstance(zone, str) for zone in zones):
        raise ValueError("the parts of dates do not fit together")


def _sample(found: DateParts, size: int) -> Any:
    """A date for each column, in a zone where those that were learned from had one."""
    zones = getattr(found, "zones_", None)
    if zones is None:
        return None
    row = np.empty((1, len(zones)), dtype=object)
    row[0] = [datetime.datetime(2000, 1, 1, tzinfo=None if zone is None else datetime.UTC) for zone in zones]
    return row


@exportable(_to_onnx, _width)
@storable("DateParts", check=_check_stored, sample=_sample, work=lambda found: COLUMN * len(getattr(found, "zones_", ())))
class DateParts(TransformerMixin, BaseEstimator):
    """Turn columns of dates into numbers: the days since the first one, and where in the year, month, week and day they are.

    Each date gives the days since the first date of the training data, where dates before the first and after the last count as
    these; and for each of the year, the month, the week and the day the sine and cosine of how far through it the date is, so that
    December is beside January and Sunday beside Monday. Left out are cycles in which the training dates do not differ (the time of
    day, for days), or of which they do not go round at least a half: they would repeat the days. A gap counts as the median day,
    and is in the midst of each cycle; if the training data have gaps, a column says where.

    Dates are of pandas, polars, Arrow or NumPy, `datetime.date` and `datetime.datetime`, or texts such as "2024-02-29" and
    "2024-02-29 12:30:00+01:00" (ISO 8601). What counts is what calendar and clock show in the dates' own time zone. If the training
    dates are in a zone with a name, later ones of other zones are converted to it.

    Attributes
    ----------
    first_, last_, middle_ : arrays of shape (n_features,)
        The first, the last and the median training date, in seconds since 1970 on their own calendar and clock.
    cycles_ : array of shape (n_features, 4)
        Whether year, month, week and day are kept.
    gaps_ : array of shape (n_features,)
        Whether there were gaps.
    zones_ : list
        Of each column the name of its time zone, "offsets" if each date has its own offset from UTC, or None if it has none.

    Examples
    --------
    >>> import numpy as np
    >>> from outmetric.columns import DateParts
    >>> days = np.array([["2024-01-01"], ["2024-01-02"], ["2024-01-08"]], dtype="datetime64[D]")
    >>> parts = DateParts().fit(days)
    >>> parts.get_feature_names_out().tolist()
    ['x0: days', 'x0: sine of the week', 'x0: cosine of the week']
    >>> parts.transform(days).round(2)
    array([[0.  , 0.  , 1.  ],
           [1.  , 0.78, 0.62],
           [7.  , 0.  , 1.  ]])
    """

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn which parts vary.

        Parameters
        ----------
        X : table or array of shape (n, d)
            All of it dates.
        """
        validate_data(self, X, skip_check_array=True)
        columns = self._read(X)
        self.zones_ = [dates.zone for dates in columns]
        seconds = np.stack([dates.seconds() for dates in columns], axis=1)
        seconds = np.where(np.isnan(seconds).all(axis=0), 0.0, seconds)
        self.first_, self.last_ = np.nanmin(seconds, axis=0), np.nanmax(seconds, axis=0)
        self.middle_ = np.nanmedian(seconds, axis=0)
        places = np.stack(places_in_cycles(seconds, np.floor), axis=-1)
        varies = np.nanmax(places, axis=0) - np.nanmin(places, axis=0) > LEAST_CHANGE
        rounds = (self.last_ - self.first_)[:, None] / (DAY * np.array([*CYCLES.values()]))
        self.cycles_ = varies & (rounds >= LEAST_ROUND)
        self.gaps_ = np.array([bool(np.isnat(dates.moments).any()) for dates in columns])
        return self

    def transform(self, X: Any) -> Array:
        """The parts, shape (n, n_parts)."""
        check_is_fitted(self)
        validate_data(self, X, reset=False, skip_check_array=True)
        return np.concatenate([self._parts(place, dates) for place, dates in enumerate(self._read(X))], axis=1)

    def _read(self, X: Any) -> list[Dates]:
        names = list(getattr(X, "columns", ()))
        X = X if names else np.asarray(X)
        found = []
        for place in range(X.shape[1]):
            try:
                found.append(read_dates(X[names[place]] if names else X[:, place]))
            except ValueError as error:
                raise TableError(f"column {self._name(place)} {error}.") from error
        return found

    def _parts(self, place: int, dates: Dates) -> Array:
        zone, given = self.zones_[place], ~np.isnat(dates.moments)
        learned = self.cycles_[place].any() or self.first_[place] < self.last_[place]
        if learned and given.any() and (zone is None) != (dates.zone is None):
            learned_from, came = ("without", "with") if zone is None else ("with", "without")
            raise TableError(
                f"column {self._name(place)} holds dates {came} a time zone, and the model has learned from dates {learned_from} "
                "one. Give the dates a zone, or take it away."
            )
        try:
            seconds = dates.seconds(zone)
        except ValueError as error:
            raise TableError(f"column {self._name(place)} {error}.") from error
        filled = np.where(given, seconds, self.middle_[place])
        days = (np.clip(filled, self.first_[place], self.last_[place]) - self.first_[place]) / DAY
        parts = [days]
        for kept, cycle in zip(self.cycles_[place], places_in_cycles(filled, np.floor), strict=True):
            angles = [2 * np.pi * cycle, 2 * np.pi * cycle + np.pi / 2]
            parts += [np.where(given, np.round(np.sin(angle) * GRID) / GRID, 0.0) for angle in angles] if kept else []
        return np.stack([*parts, ~given] if self.gaps_[place] else parts, axis=1).astype(np.float64)

    def _name(self, place: int) -> str:
        names = getattr(self, "feature_names_in_", None)
        return str(place + 1) if names is None else shown([names[place]])

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the parts."""
        check_is_fitted(self)
        own = getattr(self, "feature_names_in_", [f"x{place}" for place in range(self.n_features_in_)])
        names: list[str] = []
        for place, name in enumerate(own if input_features is None else input_features):
            kept = [cycle for cycle, keep in zip(CYCLES, self.cycles_[place], strict=True) if keep]
            names += [f"{name}: days", *(f"{name}: {wave} of the {cycle}" for cycle in kept for wave in ("sine", "cosine"))]
            names += [f"{name}: missing"] if self.gaps_[place] else []
        return np.array(names, dtype=object)
