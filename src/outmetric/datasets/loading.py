"""Data sets from folders, from the cache, or downloaded; checked wherever they come from."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from outmetric.datasets.downloads import from_openml, from_uci
from outmetric.datasets.sets import SETS, DataError, DataSet, Table, one_hot
from outmetric.datasets.waveform import make_waveform


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
    sources: dict[str, Callable[[], Table]] = {
        "uci": lambda: from_uci(name, known, cache),
        "openml": lambda: from_openml(name, known),
    }
    for source, fetch in sources.items() if download else ():
        try:
            return fetch(), source
        except Exception as error:  # whatever a network or a server may do
            troubles.append(f"{source}: {type(error).__name__}: {error}")
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
    try:
        import pooch
    except ImportError:
        # Nothing can be downloaded, but files may lie there, put by hand or by another environment: the same place on Linux.
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "outmetric"
    return Path(pooch.os_cache("outmetric"))


def _from_folder(name: str, known: DataSet, folder: Path) -> Table | None:
    """The table if all its files are there; an error if they are, but not as they should be."""
    for place in (folder / name, folder):
        paths = [place / file for file in known.files]
        if all(path.is_file() for path in paths):
            return known.checked(name, known.read_files([path.read_bytes() for path in paths]), where=str(place))
    return None
