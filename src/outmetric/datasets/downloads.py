"""Data sets from the UCI archive, or else from OpenML."""

from __future__ import annotations

import threading
import time
import uuid
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np

from outmetric.datasets.sets import DataError, DataSet, Table
from outmetric.foundation import Array, write_whole

UCI = "https://archive.ics.uci.edu/static/public"
# Seconds to wait for an answer of a server, and for all of it.
TIMEOUT = 20
LONGEST = 300
# The largest file of all sets is below a megabyte; nothing near this size is downloaded or unpacked.
LARGEST = 2**24
# Ways of packing that are unpacked step by step, so that a false size is noticed in time.
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def _pooch() -> Any:
    try:
        import pooch
    except ImportError as error:
        raise DataError("downloading needs pooch: pip install 'outmetric[data]'") from error
    return pooch


class _Bounded:
    """A file that takes neither too much nor for too long."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.size, self.until = file, 0, time.monotonic() + LONGEST

    def write(self, content: bytes) -> None:
        self.size += len(content)
        if self.size > LARGEST:
            raise DataError("the answer is far larger than the data set")
        if time.monotonic() > self.until:
            raise DataError(f"the answer takes more than {LONGEST} seconds")
        self.file.write(content)

    def flush(self) -> None:
        self.file.flush()


def _downloader(pooch: Any) -> Any:
    download = pooch.HTTPDownloader(progressbar=False, timeout=TIMEOUT)

    def bounded(url: str, path: str, manager: Any) -> None:
        with open(path, "wb") as file:
            download(url, _Bounded(file), manager)

    return bounded


def _in_time(work: Callable[[], Any]) -> None:
    """Do some work that may wait for others, but not for longer than LONGEST; in a thread, since each wait has its own limit."""
    troubles: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            troubles.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(LONGEST)
    if thread.is_alive():
        raise DataError(f"the answer takes more than {LONGEST} seconds")
    if troubles:
        raise troubles.pop()  # and keep none: its traceback holds connections


def from_uci(name: str, known: DataSet, cache: Path) -> Table:
    """Download from the UCI archive; files that turn out right are kept in the cache."""
    if known.download is None:
        raise DataError("not in the UCI archive")
    pooch = _pooch()
    address = f"{UCI}/{known.download}"
    part = cache / name / f".download.{uuid.uuid4().hex}"
    _in_time(lambda: pooch.retrieve(address, known_hash=None, fname=part.name, path=part.parent, downloader=_downloader(pooch)))
    fetched = part
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
        return [_member(unpacked, infos[file]) for file in files]


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """A file of an archive, which may lie about its size: as much is unpacked as is asked for, and no more."""
    if info.compress_type not in PACKINGS:
        raise DataError("a file in the archive is packed in an unusual way")
    with archive.open(info) as stream:
        content = b"" if info.file_size > LARGEST else stream.read(LARGEST + 1)
        if info.file_size > LARGEST or len(content) > LARGEST:
            raise DataError("a file in the archive is far larger than the data set")
        if len(content) != info.file_size or stream.read(1):
            raise DataError("a file in the archive is not as large as it says")
    return content


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
