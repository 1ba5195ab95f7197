"""Data sets from folders, from the cache, or downloaded; checked wherever they come from."""

from __future__ import annotations

import hashlib
import os
import uuid
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from outmetric.datasets.sets import SETS, DataError, DataSet, Table, one_hot
from outmetric.datasets.waveform import make_waveform
from outmetric.foundation import Array, write_whole

UCI = "https://archive.ics.uci.edu/static/public"
# Seconds to wait for an answer of a server.
TIMEOUT = 20
# The largest file of all sets is below a megabyte; nothing near this size is unpacked.
LARGEST = 2**24


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
        values, names = (values, ("sequence",)) if raw else one_hot(values)
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


def _table(name: str, known: DataSet, data_dir: Any, download: bool) -> tuple[Table, str]:
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


def _from_folder(name: str, known: DataSet, folder: Path) -> Table | None:
    """The table if all its files are there; an error if they are, but not as they should be."""
    for place in (folder / name, folder):
        paths = [place / file for file in known.files]
        if all(path.is_file() for path in paths):
            return _checked(name, known, _read(known, [path.read_bytes() for path in paths]), where=str(place))
    return None


def _read(known: DataSet, contents: list[bytes]) -> Table:
    try:
        lines = [line.strip() for content in contents for line in content.decode("utf-8").splitlines()]
        return known.read([line for line in lines if line])
    except (ValueError, IndexError) as error:
        raise DataError(f"{', '.join(known.files)} cannot be read ({error}); get it afresh.") from error


def _checked(name: str, known: DataSet, table: Table, where: str = "the download") -> Table:
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


def _from_uci(name: str, known: DataSet, cache: Path) -> Table:
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
            write_whole(cache / name / file, content)
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


def _from_openml(name: str, known: DataSet, cache: Path) -> Table:
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
