"""Are data what they should be, wherever they come from, and does it say so if they are not?"""

import contextlib
import dataclasses
import http.server
import io
import os
import sys
import threading
import time
import tracemalloc
import zipfile
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import Bunch

from outmetric.datasets import downloads, make_waveform, sets
from outmetric.datasets import loading as datasets


def test_waveforms_have_the_moments_of_their_definition():
    X, y = make_waveform(60_000, random_state=1)
    position = np.arange(1, 22)
    h1, h2, h3 = (np.maximum(6 - np.abs(position - centre), 0) for centre in (7, 15, 11))
    for label, (a, b) in enumerate([(h1, h2), (h1, h3), (h2, h3)]):
        rows = X[y == label]
        np.testing.assert_allclose(rows.mean(axis=0), (a + b) / 2, atol=0.08)
        np.testing.assert_allclose(rows.var(axis=0), 1 + (a - b) ** 2 * (1001**2 - 1) / (12 * 1000**2), rtol=0.06)
    assert np.bincount(y).min() > 19_500
    np.testing.assert_array_equal(make_waveform(5, 3)[0], make_waveform(5, 3)[0])


# A set of our own, so that nothing of the real ones is needed: three numbers and a class in each line.
ROWS = [f"{k},{k % 3},{0.5 * k},{'a' if k < 4 else 'b'}" for k in range(10)]
CONTENT = "\n".join(ROWS).encode()
TINY = sets.DataSet(
    "Tiny",
    ("tiny.data",),
    sets._numbers(",", str),
    ("one", "two", "three"),
    {"a": 4, "b": 6},
    sets.digest_of(sets._numbers(",", str)(ROWS)),
    "1/tiny.zip",
    None,
)


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """The set "tiny", an empty cache, and no data folder."""
    monkeypatch.setattr(datasets, "SETS", {**datasets.SETS, "tiny": TINY})
    monkeypatch.setenv("OUTMETRIC_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OUTMETRIC_DATA", raising=False)
    return tmp_path


def zipped(files):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return packed.getvalue()


class Server(http.server.ThreadingHTTPServer):
    """Answers every request with the next of its answers (bytes, or a function of the handler), and counts."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.requests = [], []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        answer = self.server.answers.pop(0)
        if callable(answer):
            answer(self)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    running = Server()
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setattr(downloads, "UCI", f"http://127.0.0.1:{running.server_port}")
    yield running
    running.shutdown()
    thread.join()
    running.server_close()


def unavailable(handler):
    handler.send_error(503)


def stuck(handler):
    time.sleep(1.0)


def broken_off(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(b"only the beginning")


def dripping(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(40):
            handler.wfile.write(b"x")
            time.sleep(0.05)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x" * 2**16)


def lying(claimed, content, packing=zipfile.ZIP_DEFLATED):
    """An archive that says how large its file is, falsely."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", packing) as archive:
        archive.writestr("tiny.data", content)
    # The size unpacked stands at byte 22 of the local header, and at byte 24 of the entry in the directory.
    data = bytearray(packed.getvalue())
    for start in (22, data.index(b"PK\x01\x02") + 24):
        data[start : start + 4] = claimed.to_bytes(4, "little")
    return bytes(data)


class TestPlaces:
    @pytest.mark.parametrize("place", ["tiny/tiny.data", "tiny.data"])
    @pytest.mark.parametrize("how", ["argument", "environment", "cache"])
    def test_files_are_found(self, tiny, monkeypatch, place, how):
        folder = tiny / ("cache" if how == "cache" else "data")
        path = folder / place
        path.parent.mkdir(parents=True)
        path.write_bytes(CONTENT)
        if how == "environment":
            monkeypatch.setenv("OUTMETRIC_DATA", str(folder))
        found = datasets.load_uci("tiny", folder if how == "argument" else None, download=False)
        np.testing.assert_array_equal(found.data, [[k, k % 3, 0.5 * k] for k in range(10)])
        assert found.target.tolist() == list("aaaabbbbbb")
        assert found.source == str(folder)

    def test_the_argument_comes_first(self, tiny, monkeypatch):
        for name in ("one", "two"):
            (tiny / name).mkdir()
            (tiny / name / "tiny.data").write_bytes(CONTENT)
        monkeypatch.setenv("OUTMETRIC_DATA", str(tiny / "two"))
        assert datasets.load_uci("tiny", tiny / "one").source == str(tiny / "one")
        assert datasets.load_uci("tiny").source == str(tiny / "two")

    def test_the_usual_cache_is_read_without_pooch(self, tiny, monkeypatch):
        monkeypatch.delenv("OUTMETRIC_CACHE")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tiny))
        monkeypatch.setitem(sys.modules, "pooch", None)
        (tiny / "outmetric").mkdir()
        (tiny / "outmetric" / "tiny.data").write_bytes(CONTENT)
        assert datasets.load_uci("tiny", download=False).source == str(tiny / "outmetric")

    def test_line_ends_do_not_matter(self, tiny):
        (tiny / "tiny.data").write_bytes(CONTENT.replace(b"\n", b" \r\n") + b"\r\n\r\n")
        assert len(datasets.load_uci("tiny", tiny).data) == 10

    def test_without_anything_it_says_what_to_do(self, tiny):
        with pytest.raises(datasets.DataError, match=r"Put tiny.data into a folder, in a sub-folder 'tiny'.*OUTMETRIC_DATA.*cache"):
            datasets.load_uci("tiny", download=False)

    def test_a_damaged_cache_is_as_good_as_none(self, tiny, server):
        (tiny / "cache" / "tiny").mkdir(parents=True)
        (tiny / "cache" / "tiny" / "tiny.data").write_bytes(CONTENT[:-20])
        server.answers = [zipped({"tiny.data": CONTENT})]
        assert datasets.load_uci("tiny").source == "uci"
        assert datasets.load_uci("tiny").source == str(tiny / "cache")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"\xff\xfe", "cannot be read"),
            (b"1,2,x,a", "cannot be read"),
            (CONTENT[:-20], "expected {'a': 4, 'b': 6}"),
            (CONTENT.replace(b"4.5", b"4.6"), "other content than the published"),
            (b"", "expected"),
        ],
    )
    def test_damaged_files_are_refused(self, tiny, content, message):
        (tiny / "tiny.data").write_bytes(content)
        with pytest.raises(datasets.DataError, match=message):
            datasets.load_uci("tiny", tiny)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("no such",), "the sets are wine, robot"),
            (("tiny", "no such folder"), "does not exist"),
        ],
    )
    def test_what_is_not_there(self, tiny, arguments, message):
        with pytest.raises(datasets.DataError, match=message):
            datasets.load_uci(*arguments)

    def test_raw_is_for_sequences(self, tiny):
        with pytest.raises(datasets.DataError, match="raw=True is for 'molecular'"):
            datasets.load_uci("tiny", raw=True)

    def test_waves_are_generated_if_all_else_fails(self, tiny):
        with pytest.warns(UserWarning, match="are generated instead"):
            waves = datasets.load_uci("wave", download=False)
        assert waves.source == "generated"
        assert waves.data.shape == (5000, 21)


class TestDownload:
    def test_once(self, tiny, server):
        server.answers = [zipped({"inner/tiny.data": CONTENT, "Index": b"more"})]
        assert datasets.load_uci("tiny").source == "uci"
        assert datasets.load_uci("tiny").source == str(tiny / "cache")
        assert server.requests == ["/1/tiny.zip"]
        assert [path.name for path in (tiny / "cache" / "tiny").iterdir()] == ["tiny.data"]

    @pytest.mark.parametrize(
        ("answer", "message"),
        [
            (zipped({"tiny.data": CONTENT[:-20]}), "expected {'a': 4, 'b': 6}"),
            (zipped({"tiny.data": CONTENT.replace(b"4.5", b"4.6")}), "other content"),
            (zipped({"other.data": CONTENT}), "has no tiny.data"),
            (zipped({"tiny.data": b"x" * (2**24 + 1)}), "far larger"),
            (b"<html>not a zip file</html>", "BadZipFile"),
            (unavailable, "503"),
            (stuck, "[Tt]ime"),
            (broken_off, "Connection|Incomplete|broken"),
        ],
        # Archives hold the time, and names of tests that hold archives differ between the processes that run them.
        ids=["cut", "changed", "other name", "huge", "no archive", "unavailable", "stuck", "broken off"],
    )
    def test_failures_are_told_and_leave_nothing(self, tiny, server, monkeypatch, answer, message):
        monkeypatch.setattr(downloads, "TIMEOUT", 0.2)
        server.answers = [answer, zipped({"tiny.data": CONTENT})]
        with pytest.raises(datasets.DataError, match=message) as failure:
            datasets.load_uci("tiny")
        assert "OUTMETRIC_DATA" in str(failure.value)
        assert not [path for path in (tiny / "cache").rglob("*") if path.is_file()]
        # The next attempt begins afresh.
        assert datasets.load_uci("tiny").source == "uci"

    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: dripping, r"takes more than 0\.5 seconds"),
            (lambda: endless, "far larger than the data set"),
            (lambda: lying(len(CONTENT), b"0" * 2**27), "BadZipFile|not as large as it says"),
            (lambda: lying(2**20, CONTENT), "BadZipFile|not as large as it says"),
            (lambda: lying(2**31, CONTENT), "far larger"),
            (lambda: lying(len(CONTENT), b"0" * 2**27, zipfile.ZIP_BZIP2), "packed in an unusual way"),
        ],
        ids=["dripping", "endless", "more than it says", "less than it says", "far less", "unusual"],
    )
    def test_answers_without_end_and_archives_that_lie(self, tiny, server, monkeypatch, make, message):
        monkeypatch.setattr(downloads, "LONGEST", 0.5)
        monkeypatch.setattr(downloads, "LARGEST", 2**21)
        server.answers = [make()]  # not when tests are collected: the largest take a second to pack
        began = time.monotonic()
        tracemalloc.start()
        with pytest.raises(datasets.DataError, match=message):
            datasets.load_uci("tiny")
        assert tracemalloc.get_traced_memory()[1] < 2**24
        tracemalloc.stop()
        assert time.monotonic() - began < 1.9  # the dripping one takes two seconds
        assert not (tiny / "cache" / "tiny" / "tiny.data").exists()

    def test_a_table_without_archive(self, tiny, server, monkeypatch):
        monkeypatch.setitem(datasets.SETS, "tiny", dataclasses.replace(TINY, download="1/data.csv"))
        server.answers = [CONTENT]
        assert len(datasets.load_uci("tiny").data) == 10

    def test_openml_is_the_second_source(self, tiny, server, monkeypatch):
        frame = pd.DataFrame([[k, k % 3, 0.5 * k] for k in range(10)])
        asked = []

        def fetch(data_id, **settings):
            asked.append(data_id)
            return Bunch(data=frame, target=pd.Series(["1"] * 4 + ["2"] * 6))

        monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
        monkeypatch.setitem(datasets.SETS, "tiny", dataclasses.replace(TINY, openml=7))
        server.answers = [unavailable]
        found = datasets.load_uci("tiny")
        assert found.source == "openml"
        assert asked == [7]
        assert found.target.tolist() == list("aaaabbbbbb")

    def test_without_network(self, tiny, monkeypatch):
        monkeypatch.setattr(downloads, "UCI", "http://127.0.0.1:9")
        with pytest.raises(datasets.DataError, match=r"could not be had otherwise \(uci: .*Put tiny.data"):
            datasets.load_uci("tiny")


@pytest.mark.skipif("OUTMETRIC_DATA" not in os.environ, reason="the UCI files are not here (OUTMETRIC_DATA)")
class TestRealSets:
    SHAPES: ClassVar = {
        "wine": (4535, 11, 3),
        "robot": (5456, 24, 4),
        "vehicle": (846, 18, 4),
        "molecular": (3190, 240, 3),
        "wave": (5000, 21, 3),
        "iono": (351, 34, 2),
        "cardio": (2126, 21, 3),
        "pima": (768, 8, 2),
    }

    @pytest.mark.parametrize("name", sorted(SHAPES))
    def test_they_are_what_they_should_be(self, name):
        found = datasets.load_uci(name)
        rows, columns, classes = self.SHAPES[name]
        assert found.data.shape == (rows, columns)
        assert found.target.shape == (rows,)
        assert len(found.feature_names) == columns
        assert len(found.target_names) == classes
        assert np.isfinite(found.data).all()
        X, y = datasets.load_uci(name, as_frame=True, return_X_y=True)
        assert list(X.columns) == found.feature_names
        np.testing.assert_array_equal(X, found.data)
        np.testing.assert_array_equal(y, found.target)

    def test_known_cells(self):
        """First and last numbers, read off the files by eye."""
        assert datasets.load_uci("wine").data[0].tolist() == [7, 0.27, 0.36, 20.7, 0.045, 45, 170, 1.001, 3, 0.45, 8.8]
        assert datasets.load_uci("pima").data[0].tolist() == [6, 148, 72, 35, 0, 33.6, 0.627, 50]
        assert datasets.load_uci("cardio").target[:2].tolist() == [2, 1]

    def test_sequences(self):
        strings, table = datasets.load_uci("molecular", raw=True).data, datasets.load_uci("molecular")
        assert {len(string) for string in strings} == {60}
        first = [table.feature_names[k] for k in np.flatnonzero(table.data[0])]
        assert sorted(first, key=lambda name: int(name[1:])) == [f"{letter}{k}" for k, letter in enumerate(strings[0], 1)]
