"""Data to learn from: the eight UCI sets of the paper's experiments, and a generator that needs no download."""

from __future__ import annotations

import hashlib
import os
import uuid
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from outmetric.operators import Array

UCI = "https://archive.ics.uci.edu/static/public"
# Seconds to wait for an answer of a server.
TIMEOUT = 20
# The largest file of all sets is below a megabyte; nothing near this size is unpacked.
LARGEST = 2**24
Table = tuple[Array, Array]


class DataError(ValueError):
    """A data set that could not be had, or is not what it should be."""


@dataclass(frozen=True)
class _Set:
    """One data set: what it is, how its files read, and where they can be had.

    ``digest`` is that of the table (see `_digest`), whatever file it came from; ``counts`` are the rows of each class.
    """

    title: str
    files: tuple[str, ...]
    read: Callable[[list[str]], Table]
    names: tuple[str, ...]
    counts: Mapping[Any, int]
    digest: str
    download: str | None
    openml: int | None


def load_uci(
    name: str,
    data_dir: str | os.PathLike[str] | None = None,
    *,
    as_frame: bool = False,
    return_X_y: bool = False,
    raw: bool = False,
    download: bool = True,
) -> Any:
    """One of the eight UCI data sets of the paper's experiments.

    Looks for the files in ``data_dir`` (or the folder in the environment variable OUTMETRIC_DATA), then in the user's cache
    (OUTMETRIC_CACHE, or the system's usual place), then downloads them into the cache, from the UCI archive or else from OpenML.
    Wherever a table comes from, its numbers of rows and classes and a digest of its content are checked.

    Parameters
    ----------
    name : "wine", "robot", "vehicle", "molecular", "wave", "iono", "cardio" or "pima"
        White wine quality (classes 5, 6 and 7), wall-following robot (24 sensors), vehicle silhouettes, splice junctions,
        waveforms, ionosphere, cardiotocography (NSP), Pima diabetes.
    data_dir : path, optional
        A folder with the files, in a sub-folder of the set's name or not.
    as_frame : bool
        Give ``data`` as a pandas DataFrame and ``target`` as a Series.
    return_X_y : bool
        Return (data, target) instead of a Bunch.
    raw : bool
        "molecular" as strings of 60 letters instead of 240 columns, one for each letter at each position.
    download : bool
        False: never use the network.

    Returns
    -------
    Bunch
        With data, target, feature_names, target_names, DESCR and source (where the table came from).

    Raises
    ------
    DataError
        If the set cannot be had (the message says where to put which file) or its content is not as it should be.

    Notes
    -----
    Without any file, and if it cannot be downloaded, "wave" is generated, with a warning: `make_waveform` draws from the same
    distribution.

    Examples
    --------
    >>> X, y = load_uci("iono", return_X_y=True)  # doctest: +SKIP
    >>> X.shape  # doctest: +SKIP
    (351, 34)
    """
    if name not in SETS:
        raise DataError(f"there is no set {name!r}; the sets are {', '.join(SETS)}.")
    if raw and name != "molecular":
        raise DataError(f"raw=True is for 'molecular', whose rows are strings; {name!r} has numbers only.")
    known = SETS[name]
    (values, target), source = _table(name, known, data_dir, download)
    if name == "wine":  # the other four classes are too small for the experiments
        kept = np.isin(target, (5, 6, 7))
        values, target = values[kept], target[kept]
    names: tuple[str, ...] = known.names
    if name == "molecular":
        values, names = (values, ("sequence",)) if raw else _one_hot(values)
    if as_frame:
        import pandas as pd

        values = pd.DataFrame(values, columns=list(names))
        target = pd.Series(target, name="class")
    if return_X_y:
        return values, target
    description = (
        f"{known.title}\n\n{len(target)} rows, {len(names)} features, classes {dict(Counter(np.asarray(target).tolist()))}."
    )
    return Bunch(
        data=values,
        target=target,
        feature_names=list(names),
        target_names=np.unique(target).tolist(),
        DESCR=description,
        source=source,
    )


def _table(name: str, known: _Set, data_dir: Any, download: bool) -> tuple[Table, str]:
    """The checked table from the first place that has it, and that place."""
    given = data_dir if data_dir is not None else os.environ.get("OUTMETRIC_DATA") or None
    if given is not None:
        folder = Path(given)
        if not folder.is_dir():
            raise DataError(f"the data folder {str(folder)!r} does not exist.")
        table = _from_folder(name, known, folder)
        if table is not None:
            return table, str(folder)
    cache = _cache()
    troubles = []
    try:
        table = _from_folder(name, known, cache)
        if table is not None:
            return table, str(cache)
    except DataError as error:  # damaged: as good as missing
        troubles.append(f"cache: {error}")
    for fetch in (_from_uci, _from_openml) if download else ():
        try:
            return _checked(name, known, fetch(name, known, cache)), fetch.__name__.removeprefix("_from_")
        except Exception as error:  # whatever a network or a server may do
            troubles.append(f"{fetch.__name__.removeprefix('_from_')}: {type(error).__name__}: {error}")
    if name == "wave":
        warnings.warn("waveform.data was not found: its 5000 rows are generated instead.", UserWarning, stacklevel=3)
        return make_waveform(5000, random_state=0), "generated"
    why = f" It could not be had otherwise ({'; '.join(troubles)})." if troubles else ""
    raise DataError(
        f"the data set {name!r} was not found.{why} Put {', '.join(known.files)} into a folder, in a sub-folder {name!r}, and give "
        f"the folder as data_dir or in the environment variable OUTMETRIC_DATA; or put them into {str(cache / name)!r}."
    )


def _cache() -> Path:
    own = os.environ.get("OUTMETRIC_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    return Path(base) / "outmetric"


def _from_folder(name: str, known: _Set, folder: Path) -> Table | None:
    """The table if all its files are there; an error if they are, but not as they should be."""
    for place in (folder / name, folder):
        paths = [place / file for file in known.files]
        if all(path.is_file() for path in paths):
            return _checked(name, known, _read(known, [path.read_bytes() for path in paths]), where=str(place))
    return None


def _read(known: _Set, contents: list[bytes]) -> Table:
    try:
        lines = [line.strip() for content in contents for line in content.decode("utf-8").splitlines()]
        return known.read([line for line in lines if line])
    except (ValueError, IndexError) as error:
        raise DataError(f"{', '.join(known.files)} cannot be read ({error}); get it afresh.") from error


def _checked(name: str, known: _Set, table: Table, where: str = "the download") -> Table:
    _, target = table
    counts = dict(Counter(target.tolist()))
    if counts != dict(known.counts):
        raise DataError(f"{name!r} in {where} has {len(target)} rows in classes {counts}; expected {dict(known.counts)}.")
    if _digest(table) != known.digest:
        raise DataError(f"{name!r} in {where} has the right size but other content than the published data set; get it afresh.")
    return table


def _digest(table: Table) -> str:
    """SHA-256 of the rows as text in a fixed format, in alphabetical order: the same whatever the file's format."""
    values, target = table
    columns = values[:, None] if values.ndim == 1 else values
    rows = sorted(
        ",".join([*(value if isinstance(value, str) else f"{float(value):.8g}" for value in row), str(label)])
        for row, label in zip(columns.tolist(), target.tolist(), strict=True)
    )
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise DataError("downloading needs pooch: pip install 'outmetric[data]'") from error
    return pooch


def _from_uci(name: str, known: _Set, cache: Path) -> Table:
    """Download from the UCI archive; files that turn out right are kept in the cache."""
    if known.download is None:
        raise DataError("not in the UCI archive")
    pooch = _pooch()
    address = f"{UCI}/{known.download}"
    part = cache / name / f".download.{uuid.uuid4().hex}"
    downloader = pooch.HTTPDownloader(progressbar=False, timeout=TIMEOUT)
    fetched = Path(pooch.retrieve(address, known_hash=None, fname=part.name, path=part.parent, downloader=downloader))
    try:
        contents = _members(fetched, known.files) if address.endswith(".zip") else [fetched.read_bytes()]
        table = _checked(name, known, _read(known, contents))
        for file, content in zip(known.files, contents, strict=True):
            _write(cache / name / file, content)
    finally:
        fetched.unlink(missing_ok=True)  # right or wrong, it is not needed again
    return table


def _members(archive: Path, files: tuple[str, ...]) -> list[bytes]:
    with zipfile.ZipFile(archive) as unpacked:
        infos = {Path(info.filename).name: info for info in unpacked.infolist()}
        missing = [file for file in files if file not in infos]
        if missing:
            raise DataError(f"the archive has no {', '.join(missing)}")
        if any(infos[file].file_size > LARGEST for file in files):
            raise DataError("a file in the archive is far larger than the data set")
        return [unpacked.read(infos[file]) for file in files]


def _write(path: Path, content: bytes) -> None:
    """Write, then rename: another process never sees half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    part.write_bytes(content)
    part.replace(path)


def _from_openml(name: str, known: _Set, cache: Path) -> Table:
    """Download by scikit-learn's `fetch_openml`, which has a cache of its own."""
    from sklearn.datasets import fetch_openml

    if known.openml is None:
        raise DataError("not known on OpenML")
    found = fetch_openml(data_id=known.openml, as_frame=True, parser="auto", n_retries=1)
    columns = found.data.to_numpy()
    if name == "molecular":
        values: Array = np.array(["".join(str(letter) for letter in row[-60:]) for row in columns])
    else:
        values = columns.astype(float)
    # OpenML renames classes; no two of a set are equally large.
    sizes = Counter(found.target.astype(str).tolist())
    ours = {count: label for label, count in known.counts.items()}
    if set(sizes.values()) != set(ours):
        raise DataError(f"classes of {sorted(sizes.values())} rows instead of {sorted(ours)}")
    return values, np.array([ours[sizes[label]] for label in found.target.astype(str)])


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


def _one_hot(sequences: Array) -> tuple[Array, tuple[str, ...]]:
    """A column for each letter at each position; letters that stand for several nucleotides have none."""
    letters = np.array([list(sequence) for sequence in sequences])
    names = tuple(f"{letter}{position}" for letter in "ACGT" for position in range(1, letters.shape[1] + 1))
    return np.concatenate([letters == letter for letter in "ACGT"], axis=1).astype(float), names


CARDIO = (
    *("LB", "AC", "FM", "UC", "DL", "DS", "DP", "ASTV", "MSTV", "ALTV", "MLTV", "Width", "Min", "Max", "Nmax", "Nzeros"),
    *("Mode", "Mean", "Median", "Variance", "Tendency"),
)
SETS: Mapping[str, _Set] = {
    "wine": _Set(
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
    "robot": _Set(
        "Wall-Following Robot Navigation, 24 ultrasound sensors (Freire et al. 2009)",
        ("sensor_readings_24.data",),
        _numbers(",", str),
        tuple(f"US{sensor}" for sensor in range(1, 25)),
        {"Move-Forward": 2205, "Sharp-Right-Turn": 2097, "Slight-Right-Turn": 826, "Slight-Left-Turn": 328},
        "a5ef68ac41aebc8a90954418d009ef943cfe3972eff8981e6a2fd912ad85ebb7",
        "194/wall+following+robot+navigation+data.zip",
        1497,
    ),
    "vehicle": _Set(
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
    "molecular": _Set(
        "Splice-junction Gene Sequences (Noordewier et al. 1991)",
        ("splice.data",),
        _molecular,
        ("sequence",),
        {"EI": 767, "IE": 768, "N": 1655},
        "e8cd98219a8f0138f59b6449ac77487280b0b15eff775c998af9ad620fe61ee2",
        "69/molecular+biology+splice+junction+gene+sequences.zip",
        46,
    ),
    "wave": _Set(
        "Waveform Database Generator, version 1 (Breiman et al. 1984)",
        ("waveform.data",),
        _numbers(",", int),
        tuple(f"x{position}" for position in range(1, 22)),
        {0: 1657, 1: 1647, 2: 1696},
        "b9cf28d9a7d51e1e395dd96128987d45680563c53455208fc6b041915dea6280",
        None,  # the archive has it in a format that no longer has a reader in Python
        None,
    ),
    "iono": _Set(
        "Ionosphere (Sigillito et al. 1989)",
        ("ionosphere.data",),
        _numbers(",", str),
        tuple(f"{part}{pulse}" for pulse in range(1, 18) for part in ("real", "imaginary")),
        {"g": 225, "b": 126},
        "26e1035af1e1e10298263076dfa5bbbd6f99ec21ce349bed8bff39042f202420",
        "52/ionosphere.zip",
        59,
    ),
    "cardio": _Set(
        "Cardiotocography, fetal state NSP (Ayres de Campos et al. 2000)",
        ("CTG.csv",),
        _cardio,
        CARDIO,
        {1: 1655, 2: 295, 3: 176},
        "efb34f8fa89acc8829bf35bab1b9755af7e4efffa8af43bafca17c5f4ccc7594",
        "193/data.csv",
        None,
    ),
    "pima": _Set(
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

WAVEFORM_POSITIONS = np.arange(1, 22)
# Three triangles of height 6; each class mixes two of them.
WAVEFORM_BASES = np.maximum(6 - np.abs(WAVEFORM_POSITIONS - np.array([[7], [15], [11]])), 0)
WAVEFORM_PAIRS = np.array([[0, 1], [0, 2], [1, 2]])


def make_waveform(n_samples: int = 5000, random_state: Any = None) -> tuple[Array, Array]:
    """The waveform data of Breiman et al. (1984), as the UCI generator (version 1) makes them.

    A row of class k is u * a + (1 - u) * b + noise at 21 positions: a and b are the two triangular waves of the class, u is
    uniform on {0, 0.001, ..., 1}, the noise is standard normal, and values are rounded to two decimals. Classes are equally
    likely; the best possible accuracy is about 86 %.

    Parameters
    ----------
    n_samples : int
    random_state : int, RandomState or None

    Returns
    -------
    X : array of shape (n_samples, 21)
    y : array of shape (n_samples,)
        Classes 0, 1, 2.

    Examples
    --------
    >>> X, y = make_waveform(100, random_state=0)
    >>> X.shape
    (100, 21)
    """
    rng = check_random_state(random_state)
    y = rng.randint(3, size=n_samples)
    share = rng.randint(1001, size=(n_samples, 1)) / 1000
    first, second = WAVEFORM_BASES[WAVEFORM_PAIRS[y]].transpose(1, 0, 2)
    noise = rng.normal(size=(n_samples, 21))
    return np.round(share * first + (1 - share) * second + noise, 2), y
