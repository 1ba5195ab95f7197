"""Dates of all kinds read as what their calendar and clock show, in seconds since 1970."""

from __future__ import annotations

import datetime
import re
import zoneinfo
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outmetric.columns.contents import FEW, content
from outmetric.columns.errors import shown
from outmetric.foundation import Array, is_missing

# A day, perhaps with a time, perhaps with an offset from UTC. Days and months in other orders are anybody's guess.
ISO_DATE = re.compile(
    r"(\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))"
    r"(?:([T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(Z|UTC|[+-]\d\d(?::?\d\d(?::\d\d)?)?)?)?"
)
OFFSET = re.compile(r"([+-])(\d\d):?(\d\d)")
# The zone of dates of which each says its own offset from UTC: no zone has these, so each shows its own clock.
OFFSETS = "offsets"
MOMENT = np.dtype("datetime64[us]")
NOT_A_TIME = int(np.iinfo(np.int64).min)  # as NumPy has it
EPOCH = datetime.datetime(1970, 1, 1)
NOTHING, MICROSECOND = datetime.timedelta(0), datetime.timedelta(microseconds=1)
# What Python's calendar reaches, a year less on either side, in seconds since 1970.
EARLIEST, LATEST = -62_104_060_800, 253_370_764_800

# Of an hour, in seconds; and 1973.
QUARTER, QUARTERS_SINCE = 900.0, 94_694_400


@dataclass(frozen=True, eq=False)
class Dates:
    """A column of dates.

    Attributes
    ----------
    moments : array of datetime64[us]
        In UTC if there is a zone; NaT for gaps.
    shown : array of datetime64[us]
        What calendar and clock show there.
    zone : str or None
        The name of the time zone, or `OFFSETS`. None: the dates have none.
    """

    moments: Array
    shown: Array
    zone: str | None

    def seconds(self, zone: str | None = OFFSETS) -> Array:
        """Seconds since 1970 on the calendar and clock of a zone (by default on their own), NaN for gaps."""
        clock = self.shown if zone in (None, OFFSETS, self.zone) else _on_the_clock(self.moments, _time_zone(str(zone)))
        return np.where(np.isnat(clock), np.nan, clock.astype(np.int64) / 1e6)


def are_dates(column: Any) -> bool:
    """Whether a column holds dates: by its type, or since all that is given are dates, or texts that are mostly ISO dates.

    Few different texts must be dates all of them; among more than 10 some strays are a mistake, which reading names.
    """
    values = np.asarray(column)
    if "date" in (content(column), content(values)):  # dates with a time zone are objects in an array, and categories may be dates
        return True
    if values.dtype.kind not in "OUT":
        return False
    given = [value for value in values.tolist() if not is_missing(value)]
    if not given or not all(isinstance(value, datetime.date | np.datetime64 | str) for value in given):
        return False
    return _mostly_dates([value for value in given if isinstance(value, str)], len(given))


def _mostly_dates(texts: Sequence[str], n_given: int) -> bool:
    strays = [text for text in texts if not ISO_DATE.fullmatch(text.strip())]
    return not strays or (len(strays) < n_given / 2 and len(set(texts)) > FEW)


def read_dates(column: Any) -> Dates:
    """The dates of a column of any kind: of pandas, polars, Arrow, NumPy or Python, or texts such as 2024-02-29 12:30.

    Raises
    ------
    ValueError
        If something else is among them, or dates with and without time zones.
    """
    zone = _zone_of_type(getattr(column, "dtype", None))
    if zone is not None:
        moments = np.asarray(column, dtype=MOMENT)
        return Dates(moments, _on_the_clock(moments, _time_zone(zone)), _name(zone))
    values = np.asarray(column)
    if values.dtype.kind == "M":
        moments = values.astype(MOMENT)
        return Dates(moments, moments, None)
    return _read_objects(values.tolist())


def _read_objects(values: list[Any]) -> Dates:
    """One by one."""
    moments, clocks = [NOT_A_TIME] * len(values), [NOT_A_TIME] * len(values)
    zones: dict[datetime.tzinfo | None, int] = {}
    for row, value in enumerate(values):
        if is_missing(value):
            continue
        date = _date(value)
        if date is None:
            stray = f"{shown([value])} in row {row + 1}"
            raise ValueError(f"should hold dates, such as 2024-02-29 or 2024-02-29 12:30, but has {stray}")
        clocks[row] = moments[row] = (date.replace(tzinfo=None) - EPOCH) // MICROSECOND
        if date.tzinfo is not None:
            moments[row] -= (date.utcoffset() or NOTHING) // MICROSECOND
        zones.setdefault(date.tzinfo, row)
    if None in zones and len(zones) > 1:
        rows = sorted(zones.values())[:2]
        which = f"{shown([values[rows[0]]])} in row {rows[0] + 1} and {shown([values[rows[1]]])} in row {rows[1] + 1}"
        raise ValueError(f"mixes dates with and without a time zone, {which}")
    names = {None if zone is None else _name(zone) for zone in zones}
    zone = next(iter(names), None) if len(names) < 2 else OFFSETS
    return Dates(np.array(moments, np.int64).view(MOMENT), np.array(clocks, np.int64).view(MOMENT), zone)


def _date(value: Any) -> datetime.datetime | None:
    if isinstance(value, np.datetime64):
        value = value.astype(MOMENT).item()
    if isinstance(value, str):
        match = ISO_DATE.fullmatch(value.strip())
        if match is None:
            return None
        day, time, offset = match.groups("")
        try:
            return datetime.datetime.fromisoformat(f"{day}{time}{offset.replace('UTC', 'Z')}")
        except ValueError:  # such as February 30
            return None
    if isinstance(value, datetime.datetime):
        return value
    return datetime.datetime(value.year, value.month, value.day) if isinstance(value, datetime.date) else None


def _zone_of_type(dtype: Any) -> Any:
    """The time zone that a type of pandas, polars or Arrow says, as a name or an object; None if it says none."""
    zones = (getattr(place, name, None) for place in (dtype, getattr(dtype, "pyarrow_dtype", None)) for name in ("tz", "time_zone"))
    return next((zone for zone in zones if zone is not None), None)


def _name(zone: Any) -> str:
    """Of a time zone, by which it is found again: Python's own, pytz's and texts have one, offsets have none."""
    name = zone if isinstance(zone, str) else getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name is None:
        fixed = zone.utcoffset(None)
        return "UTC" if fixed == datetime.timedelta(0) else OFFSETS
    return OFFSETS if OFFSET.fullmatch(str(name)) else str(name)


def _time_zone(zone: Any) -> datetime.tzinfo:
    if isinstance(zone, datetime.tzinfo):
        return zone
    if fixed := OFFSET.fullmatch(zone):
        sign = -1 if fixed[1] == "-" else 1
        return datetime.timezone(sign * datetime.timedelta(hours=int(fixed[2]), minutes=int(fixed[3])))
    if zone == "UTC":  # known also where no list of zones is installed
        return datetime.UTC
    try:
        return zoneinfo.ZoneInfo(zone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError) as error:
        raise ValueError(f"is in the time zone {zone!r}, which is not known here: pip install tzdata") from error


def _on_the_clock(moments: Array, zone: datetime.tzinfo) -> Array:
    """What calendar and clock show in a zone at moments of UTC."""
    clocks = moments.copy()
    given = ~np.isnat(moments)
    seconds = np.floor(moments[given].astype(np.int64) / 1e6)
    # Since then clocks have been put forward and back at whole quarters of an hour only.
    steps = np.where(seconds < QUARTERS_SINCE, seconds, np.floor(seconds / QUARTER) * QUARTER)
    different, places = np.unique(steps, return_inverse=True)
    since = EPOCH.replace(tzinfo=datetime.UTC)
    dates = [
        (since + datetime.timedelta(seconds=second)).astimezone(zone) for second in np.clip(different, EARLIEST, LATEST).tolist()
    ]
    offsets = np.array([(date.utcoffset() or NOTHING) // MICROSECOND for date in dates], dtype="timedelta64[us]")
    clocks[given] += offsets[places]
    return clocks
