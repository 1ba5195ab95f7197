"""Are tables written whole or not at all, with every digit, and without formulas that a spreadsheet would run?"""

import csv
import gzip
import io
import os
import sys

import numpy as np
import pandas as pd
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from outmetric.foundation import Registry
from outmetric.tables import TableError, TableFormat, check_output, formats, read_table, register, write_blocks, write_table

WORDS = ["plain", "ü", 'a "quote"', "a, comma; and\ttab", "two\nlines", "two\rlines", "NA", "it's", " -1 ", "a=b", "'x", "1-2"]


def table():
    rng = np.random.default_rng(0)
    numbers = rng.standard_normal(12) * 10.0 ** rng.integers(-300, 300, 12)
    return pd.DataFrame(
        {
            "number": numbers,
            "gap": np.where(np.arange(12) % 3, numbers, np.nan),
            "single": rng.standard_normal(12).astype(np.float32),
            "whole": -np.arange(12),
            "a, b": WORDS,
            "kind": pd.Categorical(["a", "b"] * 6),
        }
    )


def csv_rows(content, delimiter=","):
    return list(csv.reader(io.StringIO(content.decode(), newline=""), delimiter=delimiter))


READERS = {
    "t.csv": lambda path: csv_rows(path.read_bytes()),
    "t.tsv": lambda path: csv_rows(path.read_bytes(), "\t"),
    "t.csv.gz": lambda path: csv_rows(gzip.decompress(path.read_bytes())),
    "t.TSV.GZ": lambda path: csv_rows(gzip.decompress(path.read_bytes()), "\t"),
}


@pytest.mark.parametrize("name", READERS)
def test_text_has_every_digit_and_letter(tmp_path, name):
    frame = table()
    assert write_table(frame, tmp_path / name) == 12
    header, *rows = READERS[name](tmp_path / name)
    assert header == list(frame.columns)
    written = dict(zip(header, zip(*rows, strict=True), strict=True))
    assert [float(cell) for cell in written["number"]] == frame["number"].tolist()
    np.testing.assert_array_equal([float(cell or "nan") for cell in written["gap"]], frame["gap"])
    assert [np.float32(cell) for cell in written["single"]] == frame["single"].tolist()
    assert [int(cell) for cell in written["whole"]] == frame["whole"].tolist()
    assert list(written["a, b"]) == WORDS
    assert list(written["kind"]) == ["a", "b"] * 6


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.pq", "t.feather", "t.arrow"])
def test_what_is_written_is_read_again(tmp_path, name):
    frame = table()
    write_table(frame, tmp_path / name)
    again = read_table(tmp_path / name)
    assert list(again.columns) == list(frame.columns)
    for column in frame.columns:
        expected = frame[column].to_numpy()
        np.testing.assert_array_equal(again[column].to_numpy().astype(expected.dtype), expected, err_msg=column)


def test_binary_formats_are_what_they_say(tmp_path):
    write_table({"a": [1, 2], "=b": ["=x", None]}, tmp_path / "t.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "t.parquet").to_pydict() == {"a": [1, 2], "=b": ["=x", None]}
    write_table({"a": [1, 2], "=b": ["=x", None]}, tmp_path / "t.feather")
    assert pyarrow.feather.read_table(tmp_path / "t.feather").to_pydict() == {"a": [1, 2], "=b": ["=x", None]}


def test_standard_output(capsysbinary):
    assert write_table({"x": [0.1, np.nan], "kind": ["=a", "b"], "truth": [True, False]}, "-") == 2
    assert capsysbinary.readouterr().out == b'"x","kind","truth"\n0.1,"\'=a","True"\n,"b","False"\n'


FORMULAS = [
    "=1",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "-",
    "+",
    "--1",
    "-1.5x",
    "-1\n",
    "\uff1d1",
    "\uff0d1",
    "-inf",
    "\x01=1",
    "\x0b\x1f@SUM(A1)",
    "\x7f+1+1",
    "\x85-1+1",
    "\ufeff=1",
    "\u200b=1",
]
HARMLESS = ["\x01a=1", "-1.5", "+3", "-1e5", "-.5", "+2.E-3", "-0", "a=1", "'=1", " =1", "", "1,5", "x-1"]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".csv.gz"])
def test_formulas_get_an_apostrophe_and_nothing_else_does(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write_table({"text": FORMULAS + HARMLESS, "number": -np.arange(len(FORMULAS + HARMLESS)) / 2}, path)
    read = read_table(path)
    assert read["text"].fillna("").tolist() == ["'" + text for text in FORMULAS] + HARMLESS
    assert read["number"].tolist() == (-np.arange(len(read)) / 2).tolist()


@pytest.mark.parametrize(
    "column",
    [
        np.array(["=1", "a"]),
        np.array(["=1", "a"], dtype=object),
        ["=1", "a"],
        pd.Series(["=1", "a"]),
        pd.Series(["=1", "a"], dtype=object),
        pd.Categorical(["=1", "a"]),
        pd.array(["=1", "a"], dtype="string"),
    ],
)
def test_text_of_every_type_is_looked_at(tmp_path, column):
    write_table({"kind": column}, tmp_path / "t.csv")
    assert read_table(tmp_path / "t.csv")["kind"].tolist() == ["'=1", "a"]


def test_names_of_columns_and_blocks_are_looked_at(tmp_path):
    blocks = [(np.ones(2), np.array(["=1", "a"])), (np.zeros(1), np.array(["@longer"]))]
    assert write_blocks(tmp_path / "t.csv", ["x", "=kind"], blocks) == 3
    read = read_table(tmp_path / "t.csv")
    assert list(read.columns) == ["x", "'=kind"]
    assert read["'=kind"].tolist() == ["'=1", "a", "'@longer"]
    assert read["x"].tolist() == [1, 1, 0]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet", "t.feather"])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, ValueError, SystemExit])
def test_a_write_that_stops_leaves_what_was_there(tmp_path, name, stop):
    def blocks():
        yield (np.ones(5),)
        assert len(list(tmp_path.iterdir())) == 2
        raise stop

    (tmp_path / name).write_text("as it was")
    with pytest.raises(stop) as caught:
        write_blocks(tmp_path / name, ["x"], blocks())
    assert type(caught.value) is stop
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "as it was")]


def test_links_stay_links(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "t.csv").symlink_to(tmp_path / "there" / "t.csv")
    write_table({"x": [1]}, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").is_symlink()
    assert (tmp_path / "there" / "t.csv").read_text() == '"x"\n1\n'


def test_a_full_disk(tmp_path, monkeypatch):
    def write(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("outmetric.tables.writing._writer", write)
    with pytest.raises(TableError, match=r"t\.csv cannot be written: No space left"):
        write_table({"x": [1]}, tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_left_to_the_command(monkeypatch):
    class Closed(io.BytesIO):
        def write(self, content):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(Closed()))
    with pytest.raises(BrokenPipeError):
        write_table({"x": [1]}, "-")


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [1, 2], "y": [1]}, "cannot be written"),
        ({"x": [b"a", "b", {}]}, "cannot be written"),
        ({"x": np.eye(2)}, "cannot be written"),
        ({"x": ["\ud800"]}, "cannot be written"),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), "several columns named 'x'"),
    ],
)
def test_what_is_no_table(tmp_path, columns, message):
    with pytest.raises(TableError, match=message):
        write_table(columns, tmp_path / "t.csv")
    assert list(tmp_path.iterdir()) == []


def test_places_for_output(tmp_path, monkeypatch):
    check_output("-")
    check_output(tmp_path / "new.csv")
    (tmp_path / "old.csv").write_text("")
    check_output(str(tmp_path / "old.csv"))
    (tmp_path / "folder.csv").mkdir()
    os.mkfifo(tmp_path / "pipe.csv")
    for name, message in {
        "no/t.csv": "no folder .*no to write t.csv to",
        "folder.csv": "is a folder",
        "pipe.csv": "no ordinary file",
        "t.xls": "written to .csv",
        "t": "written to .csv",
        "t.gz": "written to .csv",
        "t.parquet.gz": "written to .csv",
        "t.npz": "written to .csv",
    }.items():
        with pytest.raises(TableError, match=message):
            check_output(tmp_path / name)
        with pytest.raises(TableError, match=message):
            write_table({"x": [1]}, tmp_path / name)
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    with pytest.raises(TableError, match="nothing may be written"):
        check_output(tmp_path / "new.csv")


def test_without_blocks_there_is_no_file(tmp_path):
    assert write_blocks(tmp_path / "t.csv", ["x"], []) == 0
    assert list(tmp_path.iterdir()) == []


def test_empty_tables_have_their_header(tmp_path):
    assert write_table(pd.DataFrame({"x": [], "y": []}), tmp_path / "t.csv") == 0
    assert list(read_table(tmp_path / "t.csv").columns) == ["x", "y"]


class Lines:
    """Writes each row as cells with bars between them."""

    def __init__(self, sink, schema):
        self.sink = sink
        sink.write(("|".join(schema.names) + "\n").encode())

    def write_table(self, table):
        for row in table.to_pylist():
            self.sink.write(("|".join(str(value) for value in row.values()) + "\n").encode())

    def close(self):
        self.sink.write(b"end\n")


def read_bars(text, name, options):
    header, *rows, end = (line.split("|") for line in text.splitlines())
    assert end == ["end"]
    return pd.DataFrame(rows, columns=header)


@pytest.fixture
def bars(monkeypatch):
    """A format of one's own, for one test."""
    known = Registry("format of tables")
    for name, one in formats.FORMATS.items():
        known.add(name, one)
    monkeypatch.setattr(formats, "FORMATS", known)
    own = TableFormat("bars", (".bars",), read_bars, is_text=True, writer=Lines, is_content=lambda text: "|" in text)
    register(own)
    return own


@pytest.mark.parametrize("name", ["t.bars", "t.BARS", "t.bars.gz"])
def test_a_format_of_ones_own(tmp_path, bars, name):
    assert write_table({"x": [1, 2], "kind": ["a", "=1"]}, tmp_path / name) == 2
    assert read_table(tmp_path / name).to_dict("list") == {"x": ["1", "2"], "kind": ["a", "'=1"]}


def test_a_format_of_ones_own_is_known_by_its_content(tmp_path, bars):
    write_table({"x": [1], "kind": ["a"]}, tmp_path / "t.bars")
    (tmp_path / "t.bars").rename(tmp_path / "t")
    assert list(read_table(tmp_path / "t").columns) == ["x", "kind"]


def test_a_format_of_ones_own_is_named_in_messages(tmp_path, bars):
    with pytest.raises(TableError, match=r"written to \.csv.*\.bars files"):
        check_output(tmp_path / "t.xls")
    with pytest.raises(TableError, match=r"known are \.csv.*\.bars;"):
        read_table(tmp_path / "t.xls")


@pytest.mark.parametrize(
    ("name", "suffix", "message"),
    [("bars", ".more", "another format"), ("more", ".bars", "of the format 'bars'"), ("more", ".PQ", "small letters")],
)
def test_formats_do_not_hide_each_other(bars, name, suffix, message):
    with pytest.raises(ValueError, match=message):
        register(TableFormat(name, (suffix,), read_bars))
    register(bars)
