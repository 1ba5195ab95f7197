"""Data sets from the UCI archive, or else from OpenML."""

from __future__ import annotations

import uuid
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from outmetric.datasets.sets import DataError, DataSet, Table
from outmetric.foundation import Array, write_whole

UCI = "https://archive.ics.uci.edu/static/public"
# Seconds to wait for an answer of a server.
TIMEOUT = 20
# The largest file of all sets is below a megabyte; nothing near this size is unpacked.
LARGEST = 2**24


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise DataError("downloading needs pooch: pip install 'outmetric[data]'") from error
    return pooch


def from_uci(name: str, known: DataSet, cache: Path) -> Table:
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
        table = known.checked(name, known.read_files(contents))
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


def from_openml(name: str, known: DataSet) -> Table:
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
    return known.checked(name, (values, np.array([ours[sizes[label]] for label in found.target.astype(str)])))
