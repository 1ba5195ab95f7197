"""Are people's tables read right from every format, and is anything else an error that says what to do?"""

import bz2
import csv
import datetime
import gzip
import io
import lzma
import random
import sys
import tracemalloc
import zipfile
from xml.sax.saxutils import escape

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from outmetric.columns import read_dates
from outmetric.tables import TableError, check_columns, read_table

SIZES = [1.5, -0.1, None, 1e-300]
COUNTS = [3, 0, 7, -2]
KINDS = ["a", "b c", "d, 'e' \"f\"", "ü"]


def as_csv(delimiter=",", decimal="."):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(["size", "count", "kind"])
    shown = ["" if size is None else repr(size).replace(".", decimal) for size in SIZES]
    writer.writerows(zip(shown, COUNTS, KINDS, strict=True))
    return text.getvalue().encode()


ARFF = """% the same table
@RELATION 'a table'

@attribute size real
@attribute 'count' INTEGER
@ATTRIBUTE kind {a, 'b c', "d, 'e' \\"f\\"", 'ü'}
@data
1.5, 3, a
-0.1,0,'b c'
% a gap
?\t7\t'd, \\'e\\' "f"'
{0 1e-300, 1 -2, 2 ü}
"""


def arrow_table():
    return pa.table({"size": pa.array(SIZES), "count": COUNTS, "kind": KINDS})


def as_parquet():
    sink = io.BytesIO()
    pyarrow.parquet.write_table(arrow_table(), sink)
    return sink.getvalue()


def as_feather(compression="lz4"):
    sink = io.BytesIO()
    pyarrow.feather.write_feather(arrow_table(), sink, compression=compression)
    return sink.getvalue()


def as_broken_text():
    """An Arrow file whose text is not UTF-8, which Arrow itself does not look at."""
    column = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, 1], dtype=np.int32)), pa.py_buffer(b"\xff")])
    sink = io.BytesIO()
    pyarrow.feather.write_feather(pa.table({"a": column}), sink)
    return sink.getvalue()


def as_stream():
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, arrow_table().schema) as writer:
        writer.write_table(arrow_table())
    return sink.getvalue()


def as_npz(save=np.savez, **arrays):
    sink = io.BytesIO()
    given = {"size": np.array(SIZES, dtype=">f8"), "count": np.array(COUNTS, dtype=np.int8), "kind": np.array(KINDS)}
    save(sink, **(arrays or given))
    return sink.getvalue()


def as_zip(content, *names):
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name in names:
            archive.writestr(name, content)
    return sink.getvalue()


def as_xlsx(rows, shared=(), sheets=1, places=True):
    """A workbook by hand, of the fewest parts that there must be; None is an empty cell."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"

    def cell(value, row, column):
        place = f' r="{chr(65 + column)}{row + 1}"' if places else ""
        if value is None:
            return f"<c{place}/>"
        if isinstance(value, bool):
            return f'<c{place} t="b"><v>{value:d}</v></c>'
        if isinstance(value, str):
            return f'<c{place} t="inlineStr"><is><t xml:space="preserve">{escape(value)}</t></is></c>'
        if isinstance(value, datetime.datetime):  # a number of days, in the format that says so
            return f'<c{place} s="1"><v>{(value - datetime.datetime(1899, 12, 30)) / datetime.timedelta(days=1)!r}</v></c>'
        return f"<c{place}><v>{value!r}</v></c>"

    lines = ["".join(cell(value, row, column) for column, value in enumerate(cells)) for row, cells in enumerate(rows)]
    sheet = f'<worksheet xmlns="{main}"><sheetData>{"".join(f"<row>{line}</row>" for line in lines)}</sheetData></worksheet>'
    numbers = range(1, sheets + 1)
    listed = "".join(f'<sheet name="s{k}" sheetId="{k}" r:id="r{k}"/>' for k in numbers)
    links = "".join(f'<Relationship Id="r{k}" Type="{office}/worksheet" Target="worksheets/sheet{k}.xml"/>' for k in numbers)
    texts = "".join(f"<si><t>{escape(text)}</t></si>" for text in shared)
    links += f'<Relationship Id="r0" Type="{office}/sharedStrings" Target="sharedStrings.xml"/>' if shared else ""
    links += f'<Relationship Id="rs" Type="{office}/styles" Target="styles.xml"/>'
    formats = '<cellXfs count="2"><xf numFmtId="0"/><xf numFmtId="22" applyNumberFormat="1"/></cellXfs>'
    root = f'<Relationship Id="r" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships">{root}</Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships">{links}</Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{main}">{formats}</styleSheet>',
        **{f"xl/worksheets/sheet{k}.xml": sheet for k in numbers},
        **({"xl/sharedStrings.xml": f'<sst xmlns="{main}">{texts}</sst>'} if shared else {}),
    }
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return sink.getvalue()


ROWS = [["size", "count", "kind"], *([size, count, kind] for size, count, kind in zip(SIZES, COUNTS, KINDS, strict=True))]


def zstd(content):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


FILES = {
    "t.csv": as_csv(),
    "T.CSV": as_csv(),
    "semicolons.csv": as_csv(";"),
    "tabs.csv": as_csv("\t"),
    "bars.csv": as_csv("|"),
    "t.xlsx": as_xlsx(ROWS),
    "no-places.xlsx": as_xlsx(ROWS, places=False),
    "european.csv": as_csv(";", ","),
    "t.tsv": as_csv("\t"),
    "t.txt": as_csv(";"),
    "mark.csv": b"\xef\xbb\xbf" + as_csv(),
    "wide.csv": as_csv().decode().encode("utf-16"),
    "wider.csv": as_csv().decode().encode("utf-32"),
    "t.arff": ARFF.encode(),
    "t.parquet": as_parquet(),
    "t.pq": as_parquet(),
    "t.feather": as_feather(),
    "zstd.feather": as_feather("zstd"),
    "plain.feather": as_feather("uncompressed"),
    "t.arrow": as_stream(),
    "t.npz": as_npz(),
    "small.npz": as_npz(np.savez_compressed),
    "t.csv.gz": gzip.compress(as_csv()),
    "t.csv.bz2": bz2.compress(as_csv()),
    "t.csv.xz": lzma.compress(as_csv()),
    "t.csv.zst": zstd(as_csv()),
    "t.csv.zip": as_zip(as_csv(), "t.csv"),
    "t.zip": as_zip(ARFF.encode(), "t.arff"),
    "mac.zip": as_zip(as_csv(), "__MACOSX/._t.csv", "t.csv"),
    "t.tsv.gz": gzip.compress(as_csv("\t")),
    "t.arff.xz": lzma.compress(ARFF.encode()),
    "parts.csv.gz": gzip.compress(as_csv()[:30]) + gzip.compress(as_csv()[30:]),
    "unpacked-by-name.csv": gzip.compress(as_csv()),
    "no-suffix": as_csv(),
}


def is_the_table(frame):
    assert list(frame.columns) == ["size", "count", "kind"]
    np.testing.assert_array_equal(frame["size"].to_numpy(), np.array(SIZES, dtype=float))
    assert frame["size"].dtype == np.float64
    assert frame["count"].tolist() == COUNTS
    assert frame["kind"].tolist() == KINDS


def save(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("name", FILES)
def test_every_format_is_read(tmp_path, name):
    is_the_table(read_table(save(tmp_path, name, FILES[name])))


@pytest.mark.parametrize("name", FILES)
def test_standard_input_is_told_by_its_content(monkeypatch, name):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FILES[name])))
    is_the_table(read_table("-"))


def test_closed_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(TableError, match="standard input is closed"):
        read_table("-")


def columns(path, **options):
    frame = read_table(path, **options)
    return {name: [None if pd.isna(value) else value for value in frame[name].tolist()] for name in frame.columns}


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a,b\r\n1,2\n3,4\r5,6", {}, {"a": [1, 3, 5], "b": [2, 4, 6]}),
        ('a,b\n1,"x\ny"\n\n2,"q""q"\n', {}, {"a": [1, 2], "b": ["x\ny", 'q"q']}),
        ('"a\nb",c\n1,2\n', {}, {"a\nb": [1], "c": [2]}),
        ("a , b\n 1,+2.5\n2 , 1e3\n", {}, {"a": [1, 2], "b": [2.5, 1000.0]}),
        ("a,b\n", {}, {"a": [], "b": []}),
        ("a\n1\n", {}, {"a": [1]}),
        ("PAR1,BZh1\n1,2\n", {}, {"PAR1": [1], "BZh1": [2]}),
        # Missing values: words without quotes, among numbers also with them; None is a name.
        ('a,b\n1,NA\n,"NA"\n?,null\nnan,None\n', {}, {"a": [1.0, None, None, None], "b": [None, "NA", None, "None"]}),
        ('a,b\n"1",""\n"","x"\n" NA ","?"\n', {}, {"a": [1.0, None, None], "b": [None, "x", "?"]}),
        ("a,b\n-,NA\n5,-\n", {"missing": ["-"]}, {"a": [None, 5.0], "b": ["NA", None]}),
        ("a,b\n,x\n,y\n", {}, {"a": [None, None], "b": ["x", "y"]}),
        # Text stays as it is written.
        ("a,b\n2020-01-01,true\n2020-01-02,FALSE\n", {}, {"a": ["2020-01-01", "2020-01-02"], "b": ["true", "FALSE"]}),
        ("a,b\n007,1_0\n008,2_0\n", {}, {"a": [7, 8], "b": ["1_0", "2_0"]}),
        ("a,b\n007,1.50\n008,2\n", {"as_text": ["a", "b", "c"]}, {"a": ["007", "008"], "b": ["1.50", "2"]}),
        ("a,b\n99999999999999999999,1\n1,x\n", {}, {"a": [1e20, 1.0], "b": ["1", "x"]}),
        # Delimiters.
        ("a|b\n1|2\n", {"delimiter": "|"}, {"a": [1], "b": [2]}),
        ("a;b\n1;2\n", {"delimiter": ","}, {"a;b": ["1;2"]}),
        ("a;b,c\n1;2\n", {}, {"a": [1], "b,c": [2]}),
        ('a,b\n"x;y",1\n"z;w",2\n', {}, {"a": ["x;y", "z;w"], "b": [1, 2]}),
        # Decimal commas, if they cannot be anything else, or if asked for.
        ("a;b\n1,5;x\n2;y\n", {}, {"a": [1.5, 2.0], "b": ["x", "y"]}),
        ("a;b\n1,5;1,500\n-,5e2;3\n", {}, {"a": [1.5, -50.0], "b": [1.5, 3.0]}),
        ("a\tb\n1,5\tx\n", {}, {"a": [1.5], "b": ["x"]}),
        ("a;b\n1,500;x\n2,250;y\n", {}, {"a": ["1,500", "2,250"], "b": ["x", "y"]}),
        ("a;b\n1,500;x\n2,250;y\n", {"decimal": ","}, {"a": [1.5, 2.25], "b": ["x", "y"]}),
        ("a;b\n1,5;0.5\n2,5;3\n", {}, {"a": ["1,5", "2,5"], "b": [0.5, 3.0]}),
        ("a;b\n1,5;x\n2,5;y\n", {"decimal": "."}, {"a": ["1,5", "2,5"], "b": ["x", "y"]}),
        ("a;b\n1.234;x\n2,5;y\n", {"decimal": ","}, {"a": ["1.234", "2,5"], "b": ["x", "y"]}),
        ('a,b\n"1,5",x\n', {}, {"a": ["1,5"], "b": ["x"]}),
        # Names that are numbers.
        ("2019,2020,kind\n1,2,a\n", {}, {"2019": [1], "2020": [2], "kind": ["a"]}),
        ("0,1\n5,6\n", {}, {"0": [5], "1": [6]}),
        (",".join(f"{k}.5" for k in range(20, 0, -1)) + "\n" + ",".join("1" * 20), {}, {f"{k}.5": [1] for k in range(20, 0, -1)}),
        # Columns without a name: the numbers of rows, and nothing, are left out.
        (",a,\n4,1,\n0,2,\n", {}, {"a": [1, 2]}),
        (",a,b\n,1,\n,2,\n", {}, {"a": [1, 2], "b": [None, None]}),
        ('"","a"\n"1",5\n"2",6\n', {}, {"a": [5, 6]}),
        (",a\n4,1\n4,2\n", {}, {"column 1": [4, 4], "a": [1, 2]}),
        ("a,\n4,1\n5,2\n", {}, {"a": [4, 5], "column 2": [1, 2]}),
    ],
)
def test_text_becomes_columns(tmp_path, text, options, expected):
    assert columns(save(tmp_path, "t.csv", text), **options) == expected


def test_text_of_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("outmetric.tables.text.BLOCK", 64)
    path = save(tmp_path, "t.csv", "a,b\n" + "".join(f'{k},"{k}\n, "\n' for k in range(100)))
    assert columns(path) == {"a": list(range(100)), "b": [f"{k}\n, " for k in range(100)]}


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("a,b\n1,é\n".encode("latin-1"), "latin-1"),
        ("a,b\n1,é\n".encode("utf-16-le"), "utf-16-le"),
        ("\ufeffa,b\n1,é\n".encode(), "utf-8"),
    ],
)
def test_encodings_are_said(tmp_path, content, encoding):
    assert columns(save(tmp_path, "t.csv", content), encoding=encoding) == {"a": [1], "b": ["é"]}


def test_arff_has_strings_sparse_rows_and_quotes(tmp_path):
    text = (
        "@relation r\n@attribute 'a b' numeric\n@attribute s string\n@attribute k {x, y}\n@attribute d date 'yyyy'\n@data\n"
        "1,'it\\'s, {ok}',y,2020\n?, ?, ?, '?'\n{1 \"a, b\"}\n{}\n{0 ?, 2 y}\n"
    )
    assert columns(save(tmp_path, "t.arff", text)) == {
        "a b": [1.0, None, 0.0, 0.0, None],
        "s": ["it's, {ok}", None, "a, b", "0", "0"],
        "k": ["y", None, "x", "x", "y"],
        "d": ["2020", "?", "0", "0", "0"],
    }


def test_declared_categories_stay_categories(tmp_path):
    text = f"@relation r\n@attribute month {{{','.join(map(str, range(12)))}}}\n@attribute k {{x,y}}\n@data\n"
    frame = read_table(save(tmp_path, "t.arff", text + "".join(f"{k % 12},{'xy'[k % 2]}\n" for k in range(50))))
    assert frame["month"].cat.categories.tolist() == [str(k) for k in range(12)]
    assert check_columns(frame, "k").kinds == ("category",)


def test_arff_of_many_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("outmetric.tables.arff.BLOCK", 6)
    text = "@relation r\n@attribute a numeric\n@attribute k {x,y}\n@data\n" + "".join(f"{k},{'xy'[k % 2]}\n" for k in range(10))
    assert columns(save(tmp_path, "t.arff", text)) == {"a": list(range(10)), "k": list("xy" * 5)}
    header = text[: text.index("@data") + 5]
    assert columns(save(tmp_path, "t.arff", header)) == {"a": [], "k": []}


def test_npz_of_features_and_labels(tmp_path):
    arrays = {"X": np.arange(6.0).reshape(3, 2), "y": np.array([0, 1, 1]), "feature_names": np.array(["p", "q"])}
    assert columns(save(tmp_path, "t.npz", as_npz(**arrays))) == {"p": [0, 2, 4], "q": [1, 3, 5], "y": [0, 1, 1]}
    del arrays["feature_names"]
    assert list(columns(save(tmp_path, "t.npz", as_npz(**arrays)))) == ["x1", "x2", "y"]


def test_what_workbooks_have_beyond_numbers_and_text(tmp_path):
    rows = [["id", "truth", "word", "", "code"], [7, True, "NA", None, "x"], [], [8, False, "b", None, 1.0]]
    path = save(tmp_path, "t.xlsx", as_xlsx(rows))
    assert columns(path) == {"id": [7, 8], "truth": [True, False], "word": [None, "b"], "code": ["x", 1]}
    assert read_table(path)["id"].dtype == np.int64
    assert read_table(path, as_text=["id"])["id"].tolist() == ["7", "8"]
    assert columns(save(tmp_path, "u.xlsx", shared_text(3, 2))) == {"xxx": ["xxx"]}


def test_dates_in_workbooks(tmp_path):
    clocks = [datetime.datetime(2024, 2, 29, 12, 30), datetime.datetime(1980, 1, 1), None, datetime.datetime(2024, 3, 31, 23, 59)]
    rows = [["when", "kind"], *([clock, kind] for clock, kind in zip(clocks, "abab", strict=True))]
    frame = read_table(save(tmp_path, "t.xlsx", as_xlsx(rows)))
    assert check_columns(frame, "kind").kinds == ("date",)
    np.testing.assert_array_equal(read_dates(frame["when"]).shown, np.array(clocks, dtype="datetime64[us]"))


def test_what_workbooks_need(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(ImportError, match=r"outmetric\[excel\]"):
        read_table(save(tmp_path, "t.xlsx", as_xlsx(ROWS)))


def test_what_parquet_and_arrow_have_beyond_numbers_and_text(tmp_path):
    frame = pd.DataFrame({"kind": pd.Categorical(["a", None, "b"]), "truth": [True, False, True]}, index=[7, 8, 9])
    frame.to_parquet(tmp_path / "t.parquet")
    assert columns(tmp_path / "t.parquet") == {"kind": ["a", None, "b"], "truth": [True, False, True]}
    assert read_table(tmp_path / "t.parquet")["kind"].dtype == frame["kind"].dtype
    table = pa.table({"price": pa.array([1, None], pa.decimal128(5, 2)), "none": pa.nulls(2)})
    pyarrow.feather.write_feather(table, str(tmp_path / "t.feather"))
    frame = read_table(tmp_path / "t.feather")
    assert [dtype.kind for dtype in frame.dtypes] == ["f", "f"]
    assert frame["price"].iloc[0] == 1.0


ARFF_HEADER = "@relation r\n@attribute a numeric\n@attribute k {x,y}\n@data\n"
REFUSED = {
    "nothing": ("t.csv", "", "is empty"),
    "blank": ("t.csv", "\n \n", "is empty"),
    "latin-1": ("t.csv", "a,b\n1,é\n".encode("latin-1"), r"t.csv, line 2: the byte 0xe9 \(byte 7 .*UTF-8.*encoding"),
    "truncated UTF-16": ("t.csv", "a,b".encode("utf-16")[:-1], "not UTF-16"),
    "NUL": ("t.csv", b"a,b\n1,\0\n", "line 2: a NUL character"),
    "too few cells": ("t.csv", "a,b\n1,2\n3\n", "line 3: the number of cells is 1, but that of the header is 2"),
    "too many cells": ("t.csv", 'a,b\n"x\ny",2\n1,2,3\n', "line 4: the number of cells is 3, but that of the header is 2"),
    "a quote": ("t.csv", 'a,b\n1,2\n1,"x\n2,y\n', "quote that opens in the row at line 3 is never closed"),
    "twins": ("t.csv", "a,b,c,b ,a\n1,2,3,4,5\n", "several columns named 'a', 'b'. Rename"),
    "no header": ("t.csv", "6,148,72.5,x\n1,85,66,y\n", "t.csv has no header: its first line is '6', '148', '72.5', 'x'"),
    "no header, falling": ("t.csv", "5.1,3.5,1.4,0.2,setosa\n4.9,3.0,1.4,0.2,setosa\n", "has no header"),
    "no header, twins": ("t.csv", "1,1,0\n1,0,1\n", "has no header"),
    "no columns": ("t.csv", '""\n1\n', "has no columns"),
    "a long name": ("t.csv", "x" * 200_000, "first line must name the columns"),
    "old spreadsheet": ("t.xls", "PK", "t.xls: known are .csv"),
    "no spreadsheet": ("t.xlsx", "PK", "t.xlsx cannot be read"),
    "half of a spreadsheet": ("t.xlsx", as_xlsx(ROWS)[:-30], "t.xlsx cannot be read"),
    "two sheets": ("t.xlsx", as_xlsx(ROWS, sheets=2), "t.xlsx has 2 sheets with cells .'s1', 's2'."),
    "no cells": ("t.xlsx", as_xlsx([]), "t.xlsx has 0 sheets with cells"),
    "spreadsheet without header": ("t.xlsx", as_xlsx([[6, 148, 72.5], [1, 85, 66]]), "t.xlsx has no header"),
    "spreadsheet with twins": ("t.xlsx", as_xlsx([["a", "a"], [1, 2]]), "several columns named 'a'"),
    "not packed": ("t.csv.gz", "a,b\n1,2\n", "ends with .gz"),
    "half of gzip": ("t.csv.gz", gzip.compress(as_csv())[:-9], "t.csv.gz cannot be read"),
    "half of bz2": ("t.csv.bz2", bz2.compress(as_csv())[:-9], "t.csv.bz2 cannot be read"),
    "half of xz": ("t.csv.xz", lzma.compress(as_csv())[:-9], "t.csv.xz cannot be read"),
    "damaged zip": ("t.zip", as_zip(as_csv(), "t.csv")[:-30], "t.zip cannot be read"),
    "two in a zip": ("t.zip", as_zip(as_csv(), "a.csv", "b.csv"), "archive of 2 files .'a.csv', 'b.csv'"),
    "wrong name": ("t.csv", as_parquet(), "named like csv, but its content is parquet"),
    "no Parquet": ("t.parquet", "a,b\n1,2\n", "t.parquet cannot be read"),
    "half of Parquet": ("t.parquet", as_parquet()[:-20], "t.parquet cannot be read"),
    "half of Feather": ("t.feather", as_feather()[:-20], "t.feather cannot be read"),
    "broken text": ("t.feather", as_broken_text(), "t.feather cannot be read: .*UTF8"),
    "no npz": ("t.npz", "a,b\n1,2\n", "t.npz cannot be read"),
    "half of npz": ("t.npz", as_npz()[:-20], "t.npz cannot be read"),
    "objects": ("t.npz", as_npz(a=np.array([{}, None])), "the array 'a' holds object"),
    "records": ("t.npz", as_npz(a=np.zeros(2, dtype="i4,f4")), "the array 'a' holds"),
    "unequal": ("t.npz", as_npz(a=np.ones(2), b=np.ones(3)), "different numbers of rows: 'a 2', 'b 3'"),
    "matrices": ("t.npz", as_npz(X=np.eye(2), Z=np.eye(2)), r"'Z \(2, 2\)'"),
    "cube": ("t.npz", as_npz(X=np.ones((2, 2, 2))), "X has the shape"),
    "names": ("t.npz", as_npz(X=np.eye(2), feature_names=np.array(["a"])), "feature_names"),
    "npz twins": ("t.npz", as_npz(X=np.eye(2), y=np.ones(2), feature_names=np.array(["a", "y"])), "several columns named 'y'"),
    "no data": ("t.arff", "@relation r\n@attribute a numeric\n", "no line @data"),
    "no attributes": ("t.arff", "@relation r\n@data\n1\n", "declares no attributes"),
    "no ARFF": ("t.arff", "a,b\n1,2\n", "line 1: @attribute or @data must come here"),
    "odd type": ("t.arff", "@relation r\n@attribute a relational\n@data\n", "line 2: 'relational' is none of the types"),
    "odd attribute": ("t.arff", "@relation r\n@attribute 'a\n@data\n", "line 2: .* should be: @attribute name type"),
    "ARFF twins": ("t.arff", "@relation r\n@attribute a real\n@attribute a real\n@data\n", "several columns named 'a'"),
    "short row": ("t.arff", ARFF_HEADER + "1,x\n%\n1\n", "line 7: 1 values for 2 attributes"),
    "no number": ("t.arff", ARFF_HEADER + "1,x\n1_0,x\n", "line 6: '1_0' in 'a' is not a number"),
    "no category": ("t.arff", ARFF_HEADER + "1,x\n1,z\n", "line 6: 'z' is no declared value of 'k'"),
    "open quote": ("t.arff", ARFF_HEADER + "1,'x\n", "line 5: .* cannot be cut into values"),
    "no attribute": ("t.arff", ARFF_HEADER + "{2 x}\n", "line 5: there is no attribute 2"),
    "twice": ("t.arff", ARFF_HEADER + "{0 1, 0 2}\n", "line 5: .* each number once"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_told(tmp_path, case):
    name, content, message = REFUSED[case]
    with pytest.raises(TableError, match=f"(?s){message}") as caught:
        read_table(save(tmp_path, name, content))
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "rot13"}, "no text encoding 'rot13'"),
        ({"encoding": "nonsense"}, "no text encoding 'nonsense'"),
        ({"encoding": "ascii"}, "not ASCII"),
        ({"delimiter": "::"}, "delimiter must be one"),
        ({"decimal": "'"}, "decimal mark must be"),
    ],
)
def test_options_that_make_no_sense(tmp_path, options, message):
    with pytest.raises(TableError, match=message):
        read_table(save(tmp_path, "t.csv", as_csv()), **options)


def test_places_without_a_table(tmp_path):
    with pytest.raises(TableError, match=r"there is no file .*none\.csv"):
        read_table(tmp_path / "none.csv")
    with pytest.raises(TableError, match="Is a directory"):
        read_table(tmp_path)


def test_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"outmetric\[tables\].*pyarrow"):
        read_table(tmp_path / "t.csv")


class Program:
    """Told by its unpickling."""

    ran = False

    def __reduce__(self):
        return setattr, (Program, "ran", True)


def test_arrays_of_objects_are_never_unpickled(tmp_path):
    with pytest.raises(TableError, match="object"):
        read_table(save(tmp_path, "t.npz", as_npz(a=np.array([Program()]))))
    assert not Program.ran


def huge_npz(declared):
    """An archive with a header that declares more than there is."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"shape": declared, "fortran_order": False, "descr": "<f8"})
    return as_zip(header.getvalue() + bytes(80), "X.npy")


def arrow_bomb(column, write, **options):
    sink = io.BytesIO()
    write(pa.table({"a": column}), sink, compression="zstd", **options)
    return sink.getvalue()


def edited(workbook, old, new):
    """A workbook with another text in its sheet."""
    sink = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(workbook)) as given, zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in given.namelist():
            archive.writestr(name, given.read(name).replace(old.encode(), new.encode()) if "sheet1" in name else given.read(name))
    return sink.getvalue()


def far_cell(place):
    return edited(as_xlsx([["a"], [7]]), 'r="A2"', f'r="{place}"')


def shared_text(length, uses):
    cells = "".join(f'<row><c r="A{row}" t="s"><v>0</v></c></row>' for row in range(1, uses + 1))
    return edited(as_xlsx([], shared=["x" * length]), "<sheetData>", f"<sheetData>{cells}")


ZEROS = np.zeros(2**23)
REPEATED = pa.DictionaryArray.from_arrays(pa.array(np.zeros(10_000, dtype=np.int32)), pa.array(["x" * 100_000]))
BOMBS = {
    "t.csv.gz": lambda: gzip.compress(b"a\n" + b"1\n" * 2**25),
    "t.csv.bz2": lambda: bz2.compress(b"a\n" + b"1\n" * 2**22),
    "t.csv.xz": lambda: lzma.compress(b"a\n" + b"1\n" * 2**24, preset=0),
    "t.csv.zst": lambda: zstd(b"a\n" + b"1\n" * 2**25),
    "t.zip": lambda: as_zip(b"a\n" + b"1\n" * 2**24, "t.csv"),
    "cells.csv": lambda: b",".join(b"%d" % k for k in range(1000)) + b"\n" + (b"," * 999 + b"\n") * 1000,
    "texts.csv": lambda: b"a\n" + b"b\n" * 300_000,
    "t.npz": lambda: as_npz(np.savez_compressed, X=ZEROS),
    "zeros.xlsx": lambda: as_xlsx([["a"], *[[0]] * 300_000]),
    "corner.xlsx": lambda: far_cell("XFD1048576"),
    "places.xlsx": lambda: as_xlsx([["a"] * 5000, *[[]] * 10_000], places=False),
    "texts.xlsx": lambda: shared_text(100_000, 1000),
    "declared.npz": lambda: huge_npz((10**12,)),
    "overflow.npz": lambda: huge_npz((2**62, 2**62)),
    "t.parquet": lambda: arrow_bomb(ZEROS, pyarrow.parquet.write_table),
    "text.parquet": lambda: arrow_bomb(REPEATED, pyarrow.parquet.write_table, store_schema=False),
    "category.parquet": lambda: arrow_bomb(REPEATED, pyarrow.parquet.write_table),
    "t.feather": lambda: arrow_bomb(ZEROS, pyarrow.feather.write_feather),
    "category.feather": lambda: arrow_bomb(REPEATED, pyarrow.feather.write_feather),
    "sparse.arff": lambda: (
        "@relation r\n" + "".join(f"@attribute a{k} real\n" for k in range(500)) + "@data\n" + "{}\n" * 10_000
    ).encode(),
}


@pytest.mark.parametrize("name", BOMBS)
def test_small_files_of_huge_tables_are_refused(tmp_path, monkeypatch, name):
    path = save(tmp_path, name, BOMBS[name]())
    monkeypatch.setattr("outmetric.tables.sources.available_memory", lambda: 3e7)
    held = pa.total_allocated_bytes()
    tracemalloc.start()
    with pytest.raises(TableError, match="MB of memory or more to read; 30 MB are left"):
        read_table(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e7
    assert pa.total_allocated_bytes() - held < 4e7


def test_memory_that_nobody_tells(tmp_path, monkeypatch):
    monkeypatch.setattr("outmetric.tables.sources.available_memory", lambda: None)
    is_the_table(read_table(save(tmp_path, "t.csv", as_csv())))


@pytest.mark.slow
def test_a_hundred_thousand_columns(tmp_path):
    width = 100_000
    rows = [
        ",".join(f"c{k}" for k in range(width)),
        ",".join(str(k) for k in range(width)),
        ",".join(["0.5"] * (width - 1) + ["x"]),
    ]
    frame = read_table(save(tmp_path, "t.csv", "\n".join(rows)))
    assert frame.shape == (2, width)
    assert frame["c99998"].tolist() == [99998.0, 0.5]
    assert frame["c99999"].tolist() == ["99999", "x"]


def mutations(content, rng):
    """The content cut off, with bits turned, bytes put in or left out, parts repeated or exchanged, or nothing of it."""
    place, other = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    yield content[:place]
    yield content[place:]
    yield content[:place] + bytes(rng.choice(b"\0\xff\n\r,;\t\"'{}%@?.e-09") for _ in range(rng.randint(1, 4))) + content[place:]
    yield content[:place] + content[other:]
    yield content[:other] + content[place:]
    changed = bytearray(content)
    for _ in range(rng.randint(1, 5)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    yield bytes(changed)
    yield content[:4] + rng.randbytes(rng.randint(1, 200))


def outcome(path):
    try:
        return type(read_table(path))
    except TableError as error:
        return TableError if len(str(error)) < 1000 else "a long message"


@pytest.mark.parametrize("name", FILES)
def test_damaged_tables_are_tables_or_errors(tmp_path, monkeypatch, name):
    monkeypatch.setattr("outmetric.tables.sources.available_memory", lambda: 1e8)
    rng = random.Random(name)
    found = []
    for content in (damaged for _ in range(8) for damaged in mutations(FILES[name], rng)):
        found.append(outcome(save(tmp_path, name, content)))
        assert pa.total_allocated_bytes() < 1e8
    assert set(found) <= {pd.DataFrame, TableError}
    assert TableError in found


def npz_of(shape):
    """An archive with an array that has no elements, whatever it claims."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("X.npy", header.getvalue())
    return packed.getvalue()


@pytest.mark.parametrize("shape", [(0, 10**12), (0, 10**7)])
def test_an_array_without_rows_that_claims_columns(shape, tmp_path):
    (tmp_path / "t.npz").write_bytes(npz_of(shape))
    tracemalloc.start()
    with pytest.raises(TableError, match=f"'X' has no rows, and claims {shape[1]} columns"):
        read_table(tmp_path / "t.npz")
    assert tracemalloc.get_traced_memory()[1] < 1e7
    tracemalloc.stop()


def test_an_array_without_rows_may_have_columns(tmp_path):
    (tmp_path / "t.npz").write_bytes(npz_of((0, 3)))
    assert list(read_table(tmp_path / "t.npz").columns) == ["x1", "x2", "x3"]


def test_sparse_rows_that_say_nothing_are_counted_before_they_are_read(tmp_path, monkeypatch):
    """Twenty thousand attributes and two hundred thousand empty rows are 64 GB, in a file of one megabyte."""
    monkeypatch.setattr("outmetric.tables.sources.available_memory", lambda: 2.0**33)
    monkeypatch.setattr("outmetric.tables.arff._columns", None)  # is not reached
    lines = ["@relation r", *(f"@attribute a{k} numeric" for k in range(20_000)), "@data", *["{}"] * 200_000]
    (tmp_path / "t.arff").write_text("\n".join(lines))
    with pytest.raises(TableError, match=r"takes 6\.4e\+04 MB of memory or more to read; 8\.59e\+03 MB are left"):
        read_table(tmp_path / "t.arff")
