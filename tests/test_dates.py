"""Dates as features: the same numbers from every kind of column, in Python, in files, and in ONNX."""

import calendar
import datetime
import json
import subprocess
import sys
import textwrap
import zoneinfo

import numpy as np
import onnxruntime
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricSearchCV
from outmetric.baselines import LMNN
from outmetric.columns import DateParts, TableError, check_columns, read_dates
from outmetric.export import to_onnx
from outmetric.tables import fit_table, read_table, write_table

N = 120
RNG = np.random.default_rng(0)
# More than a year, to the minute, of all weekdays; a few are missing.
CLOCKS = [
    None if k % 17 == 5 else datetime.datetime(2023, 3, 1) + datetime.timedelta(minutes=int(minutes))
    for k, minutes in enumerate(RNG.integers(0, 500 * 24 * 60, N))
]
WEEKEND = np.array([clock is not None and clock.weekday() >= 5 for clock in CLOCKS])
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
QUICK = {"time_budget": 0.01, "random_state": 0}


def expected_parts(clocks):
    """By Python's own calendar: days since the first; year, month, week and day as angles; gaps."""
    given = [clock for clock in clocks if clock is not None]
    first, rows = min(given), []
    middle = np.median([(clock - first).total_seconds() for clock in given]) / 86400
    for clock in clocks:
        if clock is None:
            rows.append([middle, *[0.0] * 8, 1.0])
            continue
        year = clock.year if clock.month > 2 else clock.year - 1
        shares = [
            (clock.date() - datetime.date(year, 3, 1)).days / 366,
            (clock.day - 1) / 31,
            clock.weekday() / 7,
            (clock - datetime.datetime(clock.year, clock.month, clock.day)).total_seconds() / 86400,
        ]
        waves = [wave(2 * np.pi * share) for share in shares for wave in (np.sin, np.cos)]
        rows.append([(clock - first).total_seconds() / 86400, *waves, 0.0])
    return np.array(rows)


def texts(format_):
    return [None if clock is None else clock.strftime(format_) for clock in CLOCKS]


def in_berlin():
    return pd.Series(CLOCKS).dt.tz_localize(BERLIN, ambiguous=True, nonexistent="shift_forward")


KINDS = {
    "pandas": pd.Series(CLOCKS),
    "nanoseconds": pd.Series(CLOCKS).astype("datetime64[ns]"),
    "Berlin": in_berlin(),
    "Berlin in Arrow": in_berlin().astype(pd.ArrowDtype(pa.timestamp("us", "Europe/Berlin"))),
    "Berlin in polars": pl.Series(in_berlin().dt.tz_localize(None)).dt.replace_time_zone("Europe/Berlin", ambiguous="earliest"),
    "polars": pl.Series(CLOCKS),
    "NumPy": np.array(CLOCKS, dtype="datetime64[m]"),
    "Python": np.array(CLOCKS, dtype=object),
    "Python with zones": np.array([None if clock is None else clock.replace(tzinfo=BERLIN) for clock in CLOCKS], dtype=object),
    "texts": pd.Series(texts("%Y-%m-%d %H:%M")),
    "texts with seconds": pd.Series(texts("%Y-%m-%dT%H:%M:%S.000"), dtype=object),
    "texts of UTC": pd.Series(texts("%Y-%m-%dT%H:%M:%SZ")),
    "texts with offsets": pd.Series(in_berlin().astype(str).where(in_berlin().notna(), None)),
    "texts of polars": pl.Series(texts("%Y-%m-%d %H:%M")),
    "categories": pd.Series(pd.Categorical(CLOCKS)),
}


def as_frame(column, **more):
    """A table of the package that the column is of; of pandas if it is of none."""
    return {pl.Series: pl.DataFrame}.get(type(column), pd.DataFrame)({"when": column, **more})


@pytest.mark.parametrize("kind", KINDS)
def test_all_kinds_of_dates_have_the_parts_of_the_calendar(kind):
    frame = as_frame(KINDS[kind])
    found = DateParts().fit_transform(frame)
    np.testing.assert_allclose(found, expected_parts(CLOCKS), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_the_classifier_sees_the_same_dates_in_all_kinds(kind):
    noise = RNG.normal(size=N)
    frame = as_frame(KINDS[kind], noise=noise)
    reference = pd.DataFrame({"when": pd.Series(CLOCKS), "noise": noise})
    model = MetricClassifier(**QUICK).fit(frame[:80], WEEKEND[:80])
    by_dates = MetricClassifier(**QUICK).fit(reference[:80], WEEKEND[:80])
    np.testing.assert_array_equal(model.predict_proba(frame[80:]), by_dates.predict_proba(reference[80:]))
    assert model.best_estimator_[0].transform(frame[:80]).shape[1] < 20  # not one column for each date


def test_the_calendar_over_centuries():
    days = np.arange(np.datetime64("1582-10-15"), np.datetime64("2401-01-01"), np.timedelta64(13, "D"))
    found = DateParts().fit_transform(days[:, None])
    months = [[day.day - 1, day.weekday()] for day in days.tolist()]
    turns = 2 * np.pi * np.array(months) / [31, 7]
    np.testing.assert_allclose(found[:, 3:5], np.column_stack([np.sin(turns[:, 0]), np.cos(turns[:, 0])]), atol=1e-9)
    np.testing.assert_allclose(found[:, 5:7], np.column_stack([np.sin(turns[:, 1]), np.cos(turns[:, 1])]), atol=1e-9)
    last = [(day.month, day.day) == (2, calendar.monthrange(day.year, 2)[1]) for day in days.tolist()]
    angles = np.arctan2(found[:, 1], found[:, 2]) % (2 * np.pi)
    assert (angles[last] > 2 * np.pi * 363 / 366).all()  # the year begins in March here, so that it ends with February


PARTS = {
    "hours of a day": (np.arange("2024-01-01T00", "2024-01-01T20", dtype="M8[h]"), ["day"]),
    "days of a week": (np.arange("2024-01-01", "2024-01-08", dtype="M8[D]"), ["week"]),
    "days of three months": (np.arange("2024-01-01", "2024-04-01", dtype="M8[D]"), ["month", "week"]),
    "months": (np.arange("2020-01", "2024-01", dtype="M8[M]"), ["year", "week"]),
    "weeks": (np.datetime64("2024-01-01") + 7 * np.arange(30), ["year", "month"]),
    "years": (np.arange("2000", "2020", dtype="M8[Y]"), ["week"]),
    "one day": (np.full(5, np.datetime64("2024-01-01")), []),
    "nothing": (np.full(5, np.datetime64("NaT", "D")), []),
}


@pytest.mark.parametrize("case", PARTS)
def test_only_parts_that_vary_are_kept(case):
    dates, cycles = PARTS[case]
    names = DateParts().fit(dates[:, None]).get_feature_names_out(["d"]).tolist()
    gaps = ["d: missing"] * int(np.isnat(dates).any())
    assert names == ["d: days", *(f"d: {wave} of the {cycle}" for cycle in cycles for wave in ("sine", "cosine")), *gaps]
    assert DateParts().fit_transform(dates[:, None]).shape == (len(dates), len(names))


def test_parts_are_decided_by_the_training_rows():
    days = np.arange("2024-01-01", "2024-02-01", dtype="M8[D]")[:, None]
    parts = DateParts().fit(days)
    later = np.array([["2034-01-02T13:00"], ["1990-01-01T13:00"], ["NaT"]], dtype="M8[m]")
    found = parts.transform(later)
    assert found.shape == (3, parts.transform(days).shape[1])
    np.testing.assert_array_equal(found[:, 0], [30, 0, 15])  # as the last day, as the first, as the median one
    week = [name.endswith("the week") for name in parts.get_feature_names_out()]
    np.testing.assert_allclose(found[:2, week], DateParts().fit(days).transform(days)[:2, week][[0, 0]], atol=1e-12)
    np.testing.assert_array_equal(found[2, 1:], 0)


def test_zones_are_converted_to_that_of_training():
    berlin = pd.DataFrame({"when": pd.date_range("2024-01-01", "2025-01-01", freq="7h", tz="Europe/Berlin")})
    parts = DateParts().fit(berlin)
    for zone in ("UTC", "America/New_York", "+05:30"):
        other = berlin.assign(when=berlin["when"].dt.tz_convert(zone))
        np.testing.assert_array_equal(parts.transform(other), parts.transform(berlin))
        written = other.assign(when=other["when"].astype(str))
        np.testing.assert_array_equal(parts.transform(written), parts.transform(berlin))
    assert parts.zones_ == ["Europe/Berlin"]


def test_zones_and_none_do_not_mix():
    naive = pd.DataFrame({"when": pd.date_range("2024-01-01", periods=30)})
    aware = naive.assign(when=naive["when"].dt.tz_localize("UTC"))
    with pytest.raises(TableError, match=r"column 'when' holds dates with a time zone, and the model has learned .* without one"):
        DateParts().fit(naive).transform(aware)
    with pytest.raises(TableError, match=r"column 'when' holds dates without a time zone, and the model has learned .* with one"):
        DateParts().fit(aware).transform(naive)
    gaps = naive.assign(when=pd.NaT)
    assert np.isfinite(DateParts().fit(aware).transform(gaps)).all()


ZONES = ["Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "Africa/Monrovia", "Pacific/Apia", "UTC"]


@pytest.mark.parametrize("zone", ZONES)
def test_clocks_of_zones_are_those_of_pandas(zone):
    moments = np.datetime64("1890-01-01T00:00:01", "us") + RNG.integers(0, 150 * 365 * 86400, 20_000) * np.timedelta64(1, "s")
    dates = pd.Series(moments).dt.tz_localize("UTC").dt.tz_convert(zone)
    expected = dates.dt.tz_localize(None).to_numpy()
    np.testing.assert_array_equal(read_dates(dates).shown, expected)
    np.testing.assert_array_equal(read_dates(dates[:500].astype(str)).shown, expected[:500])


def test_offsets_show_their_own_clock():
    found = read_dates(["2024-01-01 10:00+01:00", "2024-07-01 10:00+02:00"])
    np.testing.assert_array_equal(found.shown, np.array(["2024-01-01T10", "2024-07-01T10"], "M8[h]"))
    np.testing.assert_array_equal(found.moments, np.array(["2024-01-01T09", "2024-07-01T08"], "M8[h]"))


@pytest.mark.filterwarnings("error")
def test_increasing_dates_are_dates_and_not_names_of_rows():
    days = pd.date_range("2024-01-01", periods=N)
    frame = pd.DataFrame({"when": days.strftime("%Y-%m-%d"), "noise": RNG.normal(size=N)})
    assert check_columns(frame.assign(kind=days.day_of_week >= 5), "kind").kinds == ("date", "number")
    model = MetricClassifier(time_budget=1, random_state=0).fit(frame[:80], days.day_of_week[:80] >= 5)
    assert model.score(frame[80:], days.day_of_week[80:] >= 5) > 0.9


def test_rows_without_names_and_arrays_of_dates():
    dates = np.array(CLOCKS, dtype="datetime64[us]")[:, None]
    model = MetricClassifier(time_budget=1, random_state=0).fit(dates[:80], WEEKEND[:80])
    assert model.score(dates[80:], WEEKEND[80:]) > 0.8
    frame = pd.DataFrame({"when": KINDS["Berlin"], "noise": RNG.normal(size=N)})
    table_model = MetricClassifier(**QUICK).fit(frame, WEEKEND)
    with pytest.warns(UserWarning, match="valid feature names"):
        found = table_model.predict_proba(frame.astype(object).to_numpy())
    np.testing.assert_array_equal(found, table_model.predict_proba(frame))
    with pytest.raises(TableError, match=r"column 1 should hold dates, .* but has 1.0 in row 1"):
        model.predict(np.ones((2, 1)))


@pytest.mark.parametrize("model", [LearnedKernelMetric(), FixedKernelMetric(), LMNN(), MetricSearchCV(LearnedKernelMetric(), {})])
@pytest.mark.parametrize(
    "dates",
    [
        np.array(CLOCKS, dtype="M8[us]")[:, None],
        pd.DataFrame({"when": CLOCKS}),
        pl.DataFrame({"when": CLOCKS}),
        np.arange(N).astype("m8[s]")[:, None],
    ],
)
def test_models_of_numbers_refuse_dates(model, dates):
    with pytest.raises(ValueError, match=r"X holds dates or times .*DateParts"):
        model.fit(dates, WEEKEND)


def test_models_with_dates_are_stored_and_run_without_pandas(tmp_path):
    frame = pl.DataFrame({"when": KINDS["Berlin in polars"], "written": texts("%Y-%m-%d"), "noise": RNG.normal(size=N)})
    model = MetricClassifier(**QUICK).fit(frame[:80], WEEKEND[:80])
    outmetric.save(model, tmp_path / "m.outmetric")
    again = outmetric.load(tmp_path / "m.outmetric")
    np.testing.assert_array_equal(again.predict_proba(frame[80:]), model.predict_proba(frame[80:]))
    frame[80:].write_ipc(tmp_path / "rows.arrow")
    program = f"""
        import sys
        class Absent:
            def find_spec(self, name, path=None, target=None):
                if name == "pandas":
                    raise ModuleNotFoundError(name)
        sys.meta_path.insert(0, Absent())
        import numpy, outmetric, polars
        found = outmetric.load({str(tmp_path / "m.outmetric")!r}).predict_proba(polars.read_ipc({str(tmp_path / "rows.arrow")!r}))
        numpy.save({str(tmp_path / "found.npy")!r}, found)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "found.npy"), model.predict_proba(frame[80:]))


def rides():
    """A table whose classes depend on the day of the week."""
    when = [clock or datetime.datetime(2023, 3, 1) for clock in CLOCKS]
    kind = np.where([clock.weekday() >= 5 for clock in when], "leisure", "work")
    return pd.DataFrame({"when": when, "distance": RNG.normal(size=N), "kind": kind})


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".tsv"])
def test_tables_in_files(tmp_path, suffix):
    frame = rides()
    write_table(frame, tmp_path / f"rides{suffix}")
    found = read_table(tmp_path / f"rides{suffix}")
    columns = check_columns(found, "kind")
    assert columns.kinds == ("date", "number")
    model = fit_table(found[:80], columns, time_budget=1).model
    assert (model.predict(found[80:]) == frame["kind"][80:]).mean() > 0.8
    np.testing.assert_array_equal(model.predict_proba(found[80:]), model.predict_proba(frame[80:]))
    outmetric.save(model, tmp_path / "rides.model")
    again = outmetric.load(tmp_path / "rides.model")
    np.testing.assert_array_equal(again.predict_proba(found[80:]), model.predict_proba(frame[80:]))
    assert again.facts()["features"]["when"] == "date"
    with pytest.raises(
        TableError, match=r"new: 'when' should hold dates, .* 'x' in row 1\. The model was learned from dates there"
    ):
        model.predict(found.assign(when="x"), "new")


def seconds(clocks):
    since = datetime.datetime(1970, 1, 1)
    return np.array([[np.nan if clock is None else (clock - since).total_seconds()] for clock in clocks])


@pytest.mark.parametrize("kind", ["pandas", "Berlin", "texts", "Python", "polars"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_onnx_takes_seconds(kind, dtype):
    noise = RNG.normal(size=N).astype(dtype)
    frame = as_frame(KINDS[kind], noise=noise)
    model = MetricClassifier(**QUICK).fit(frame, WEEKEND.astype(int))
    graph = to_onnx(model, frame, dtype=dtype)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    later = [clock and clock + datetime.timedelta(days=7 * 500) for clock in CLOCKS]
    for clocks in (CLOCKS, later):
        rows = pd.DataFrame({"when": clocks, "noise": noise})
        by_dates = MetricClassifier(**QUICK).fit(rows.assign(when=CLOCKS), WEEKEND.astype(int))
        label, shares = session.run(None, {"when": seconds(clocks), "noise": noise[:, None]})
        np.testing.assert_allclose(shares, by_dates.predict_proba(rows), atol=1e-6)
        np.testing.assert_array_equal(label, by_dates.predict(rows))
    assert session.get_inputs()[0].type == "tensor(double)"
    properties = {entry.key: json.loads(entry.value) for entry in graph.metadata_props}
    assert properties == {"feature_names": ["when", "noise"], "dates": ["when"]}


@pytest.mark.parametrize("X", [None, np.array(CLOCKS, dtype="M8[us]")[:, None]])
def test_onnx_of_a_pipeline(X):
    dates = np.array(CLOCKS, dtype="M8[us]")[:, None]
    pipeline = make_pipeline(DateParts(), StandardScaler(), LearnedKernelMetric()).fit(dates, WEEKEND)
    session = onnxruntime.InferenceSession(to_onnx(pipeline, X).SerializeToString())
    (found,) = session.run(None, {"X": seconds(CLOCKS)})
    np.testing.assert_allclose(found, pipeline.transform(dates), atol=1e-9)


def test_onnx_at_the_steps_of_quantiles():
    """All Mondays have the same sine, where the quantiles are a step: its last bit must not matter."""
    days = np.arange("2024-01-01", "2024-07-01", dtype="M8[D]")[:, None]
    pipeline = make_pipeline(DateParts(), QuantileTransformer(n_quantiles=50)).fit(days)
    session = onnxruntime.InferenceSession(to_onnx(pipeline, days).SerializeToString())
    (found,) = session.run(None, {"X": days.astype("M8[s]").astype(np.float64)})
    np.testing.assert_allclose(found, pipeline.transform(days), atol=1e-9)


def test_onnx_of_a_model_of_a_table():
    frame = rides()
    model = fit_table(frame, check_columns(frame, "kind"), kind="learned").model
    session = onnxruntime.InferenceSession(to_onnx(model.estimator, model.example(), outputs="both").SerializeToString())
    label, _, coordinates = session.run(None, {"when": seconds(frame["when"]), "distance": frame[["distance"]].to_numpy()})
    np.testing.assert_allclose(coordinates, model.transform(frame), atol=1e-9)
    np.testing.assert_array_equal(label, model.predict(frame))
