"""The eight UCI sets of the paper's experiments: what they are, how their files read, and where they can be had."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from outmetric.foundation import Array

Table = tuple[Array, Array]


class DataError(ValueError):
    """A data set that could not be had, or is not what it should be."""


@dataclass(frozen=True)
class DataSet:
    """One data set: what it is, how its files read, and where they can be had.

    ``digest`` is that of the table (see `digest_of`), whatever file it came from; ``counts`` are the rows of each class.
    """

    title: str
    files: tuple[str, ...]
    read: Callable[[list[str]], Table]
    names: tuple[str, ...]
    counts: Mapping[Any, int]
    digest: str
    download: str | None
    openml: int | None

    def read_files(self, contents: list[bytes]) -> Table:
        """The table that the files hold, in their order."""
        try:
            lines = [line.strip() for content in contents for line in content.decode("utf-8").splitlines()]
            return self.read([line for line in lines if line])
        except (ValueError, IndexError) as error:
            raise DataError(f"{', '.join(self.files)} cannot be read ({error}); get it afresh.") from error

    def checked(self, name: str, table: Table, where: str = "the download") -> Table:
        """The table, or an error if it is not this data set."""
        _, target = table
        counts = dict(Counter(target.tolist()))
        if counts != dict(self.counts):
            raise DataError(f"{name!r} in {where} has {len(target)} rows in classes {counts}; expected {dict(self.counts)}.")
        if digest_of(table) != self.digest:
            raise DataError(f"{name!r} in {where} has the right size but other content than the published data set; get it afresh.")
        return table


def digest_of(table: Table) -> str:
    """SHA-256 of the rows as text in a fixed format, in alphabetical order: the same whatever the file's format."""
    values, target = table
    columns = values[:, None] if values.ndim == 1 else values
    rows = sorted(
        ",".join([*(value if isinstance(value, str) else f"{float(value):.8g}" for value in row), str(label)])
        for row, label in zip(columns.tolist(), target.tolist(), strict=True)
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _numbers(separator: str | None, label: Callable[[str], Any]) -> Callable[[list[str]], Table]:
    """A reader of lines of numbers that end in the class."""

    def read(lines: list[str]) -> Table:
        rows = [line.split(separator) for line in lines]
        return np.array([row[:-1] for row in rows], dtype=float), np.array([label(row[-1]) for row in rows])

    return read


def _wine(lines: list[str]) -> Table:
    return _numbers(";", int)(lines[1:])


def _cardio(lines: list[str]) -> Table:
    header = lines[0].split(",")
    values = np.array([line.split(",") for line in lines[1:]], dtype=float)
    features = [header.index(column) for column in CARDIO]
    return values[:, features], values[:, header.index("NSP")].astype(int)


def _molecular(lines: list[str]) -> Table:
    fields = [[field.strip() for field in line.split(",")] for line in lines]
    return np.array([row[2] for row in fields]), np.array([row[0] for row in fields])


def one_hot(sequences: Array) -> tuple[Array, tuple[str, ...]]:
    """A column for each letter at each position; letters that stand for several nucleotides have none."""
    letters = np.array([list(sequence) for sequence in sequences])
    names = tuple(f"{letter}{position}" for letter in "ACGT" for position in range(1, letters.shape[1] + 1))
    return np.concatenate([letters == letter for letter in "ACGT"], axis=1).astype(float), names


CARDIO = (
    *("LB", "AC", "FM", "UC", "DL", "DS", "DP", "ASTV", "MSTV", "ALTV", "MLTV", "Width", "Min", "Max", "Nmax", "Nzeros"),
    *("Mode", "Mean", "Median", "Variance", "Tendency"),
)
SETS: Mapping[str, DataSet] = {
    "wine": DataSet(
        "Wine Quality, white (Cortez et al. 2009)",
        ("winequality-white.csv",),
        _wine,
        (
            "fixed acidity",
            "volatile acidity",
            "citric acid",
            "residual sugar",
            "chlorides",
            "free sulfur dioxide",
            "total sulfur dioxide",
            "density",
            "pH",
            "sulphates",
            "alcohol",
        ),
        {3: 20, 4: 163, 5: 1457, 6: 2198, 7: 880, 8: 175, 9: 5},
        "5f24dc69047e48560f74eee07be98eb10d0602f7c1849468a6496317f98ad1bd",
        "186/wine+quality.zip",
        40498,
    ),
    "robot": DataSet(
        "Wall-Following Robot Navigation, 24 ultrasound sensors (Freire et al. 2009)",
        ("sensor_readings_24.data",),
        _numbers(",", str),
        tuple(f"US{sensor}" for sensor in range(1, 25)),
        {"Move-Forward": 2205, "Sharp-Right-Turn": 2097, "Slight-Right-Turn": 826, "Slight-Left-Turn": 328},
        "a5ef68ac41aebc8a90954418d009ef943cfe3972eff8981e6a2fd912ad85ebb7",
        "194/wall+following+robot+navigation+data.zip",
        1497,
    ),
    "vehicle": DataSet(
        "Statlog Vehicle Silhouettes (Siebert 1987)",
        tuple(f"xa{letter}.dat" for letter in "abcdefghi"),
        _numbers(None, str),
        (
            "compactness",
            "circularity",
            "distance circularity",
            "radius ratio",
            "pr.axis aspect ratio",
            "max.length aspect ratio",
            "scatter ratio",
            "elongatedness",
            "pr.axis rectangularity",
            "max.length rectangularity",
            "scaled variance along major axis",
            "scaled variance along minor axis",
            "scaled radius of gyration",
            "skewness about major axis",
            "skewness about minor axis",
            "kurtosis about minor axis",
            "kurtosis about major axis",
            "hollows ratio",
        ),
        {"bus": 218, "saab": 217, "opel": 212, "van": 199},
        "48e3a82e20eee48af5df5b7f06fdc90052cc449ccaf37bba43ebdf9bf71a0c46",
        "149/statlog+vehicle+silhouettes.zip",
        54,
    ),
    "molecular": DataSet(
        "Splice-junction Gene Sequences (Noordewier et al. 1991)",
        ("splice.data",),
        _molecular,
        ("sequence",),
        {"EI": 767, "IE": 768, "N": 1655},
        "e8cd98219a8f0138f59b6449ac77487280b0b15eff775c998af9ad620fe61ee2",
        "69/molecular+biology+splice+junction+gene+sequences.zip",
        46,
    ),
    "wave": DataSet(
        "Waveform Database Generator, version 1 (Breiman et al. 1984)",
        ("waveform.data",),
        _numbers(",", int),
        tuple(f"x{position}" for position in range(1, 22)),
        {0: 1657, 1: 1647, 2: 1696},
        "b9cf28d9a7d51e1e395dd96128987d45680563c53455208fc6b041915dea6280",
        None,  # the archive has it in a format that no longer has a reader in Python
        None,
    ),
    "iono": DataSet(
        "Ionosphere (Sigillito et al. 1989)",
        ("ionosphere.data",),
        _numbers(",", str),
        tuple(f"{part}{pulse}" for pulse in range(1, 18) for part in ("real", "imaginary")),
        {"g": 225, "b": 126},
        "26e1035af1e1e10298263076dfa5bbbd6f99ec21ce349bed8bff39042f202420",
        "52/ionosphere.zip",
        59,
    ),
    "cardio": DataSet(
        "Cardiotocography, fetal state NSP (Ayres de Campos et al. 2000)",
        ("CTG.csv",),
        _cardio,
        CARDIO,
        {1: 1655, 2: 295, 3: 176},
        "efb34f8fa89acc8829bf35bab1b9755af7e4efffa8af43bafca17c5f4ccc7594",
        "193/data.csv",
        None,
    ),
    "pima": DataSet(
        "Pima Indians Diabetes (Smith et al. 1988)",
        ("pima-indians-diabetes.csv",),
        _numbers(",", int),
        ("pregnancies", "glucose", "blood pressure", "skin thickness", "insulin", "bmi", "pedigree", "age"),
        {0: 500, 1: 268},
        "567ad7c485cac37b39427d714823c348e177e51458dd2900945274d4de4aa67b",
        None,  # withdrawn
        37,
    ),
}
