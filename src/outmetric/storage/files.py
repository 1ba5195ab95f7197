"""Models in files: safetensors for the arrays, and in its header a JSON document for everything else.

Loading runs nothing that the file chooses, believes no size before the file is seen to hold it, and refuses what it does not know.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import sklearn

from outmetric.foundation import Array, printable, whole
from outmetric.storage.errors import ModelFileError, NotStorableError
from outmetric.storage.reader import Reader, parse
from outmetric.storage.writer import Writer

# The one entry of the header's metadata is a check sum of everything; the document is an array of bytes, since headers are limited.
KEY = "outmetric model"
DOCUMENT = "document"
# Raised whenever older code could not read newer files; `load` goes on reading all earlier versions.
VERSION = 1
DTYPES = {
    "BOOL": "?", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
    "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
# Of what is told of a file; it may repeat what the file says.
LONGEST_REASON = 500
# How well-known other files begin.
OTHERS = {
    b"\x80": "a pickle, which could run anything when loaded",
    b"PK": "a zip archive",
    b"\x1f\x8b": "a gzip file",
    b"\x89HDF": "an HDF5 file",
    b"PAR1": "a Parquet table",
}


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file that is safe to load.

    The file holds parameters, fitted attributes, names of features and classes, and preparations, and takes the place of an
    earlier one only when it is complete. ``n_jobs`` and ``memory`` belong to a machine, and rows seen by `partial_fit` to
    a process: they are left out.

    Parameters
    ----------
    model : estimator
        Any of this library's, or a `Pipeline` of these with scikit-learn's usual preparations and neighbours; or what `get_metric`
        returns. Functions are stored by their names only.
    path : str or path
        By custom with the suffix ``.outmetric``.

    Raises
    ------
    NotStorableError
        Names what cannot be stored.

    Examples
    --------
    >>> import outmetric, tempfile
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = outmetric.LearnedKernelMetric().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     outmetric.save(model, f"{folder}/iris.outmetric")
    ...     again = outmetric.load(f"{folder}/iris.outmetric")
    >>> bool((again.transform(X) == model.transform(X)).all())
    True
    """
    writer = Writer()
    root = writer.node(model)
    if "object" not in (root if isinstance(root, dict) else {}):
        raise NotStorableError(f"only models can be saved, not a {type(model).__name__}.")
    document = {"version": VERSION, "scikit-learn": sklearn.__version__, "model": root, "objects": writer.objects}
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    arrays = {**writer.arrays, DOCUMENT: np.frombuffer(text.encode(), np.uint8)}
    with whole(path) as partial:
        partial.touch()
        mode = partial.stat().st_mode
        try:
            safetensors.numpy.save_file(arrays, partial, {KEY: _digest(arrays)})
        except safetensors.SafetensorError as error:
            raise OSError(f"{path} cannot be written: {error}") from error
        partial.chmod(mode)  # as for any new file; safetensors hides its own from others
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())


def load(path: str | os.PathLike[str], *, functions: Mapping[str, Callable[..., Any]] | None = None, mmap: bool = False) -> Any:
    """Read a model that `save` wrote, of this version or an earlier one.

    Parameters
    ----------
    path : str or path
    functions : dict, optional
        The functions that the model names, a kernel on objects for instance: files hold no code.
    mmap : bool
        Leave the arrays in the file, read-only, so that processes share them.

    Returns
    -------
    model

    Raises
    ------
    ModelFileError
        Says what is wrong with the file.
    """
    path = Path(path)
    made_with = sklearn.__version__
    try:
        digest, arrays, size = _read(path, mmap)
        if digest != _digest(arrays):
            raise ValueError("its content does not match its check sum: it is damaged, or was edited")
        document = parse(arrays.pop(DOCUMENT).tobytes())
        if not isinstance(document, dict) or type(document.get("version")) is not int:
            raise ValueError("it describes no model")
        if document["version"] > VERSION:
            raise ValueError(f"it has format {document['version']}, and this version reads up to {VERSION}: upgrade outmetric")
        if set(document) != {"version", "scikit-learn", "model", "objects"}:
            raise ValueError(f"it holds {sorted(document)[:10]}, which is not what describes a model")
        made_with = str(document["scikit-learn"])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told when the model was fitted
            return Reader(arrays, functions or {}, size).read(document["model"], document["objects"])
    except OSError:
        raise
    except Exception as error:  # whatever a file can provoke means that it is none of ours
        other = f" It was made with scikit-learn {made_with:.20}; this is {sklearn.__version__}."
        note = other if made_with != sklearn.__version__ else ""
        reason = f"{error or type(error).__name__}"[:LONGEST_REASON].removesuffix(".")
        raise ModelFileError(printable(f"{path} cannot be loaded: {reason}.{note}")) from error


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like one of `save`, by its first bytes; whether it can be loaded is another question."""
    path = Path(path)
    if not path.is_file():
        return False
    with open(path, "rb") as file:
        start = file.read(9)
    return len(start) == 9 and start[8:] == b"{" and int.from_bytes(start[:8], "little") <= path.stat().st_size - 8


def _read(path: Path, mmap: bool) -> tuple[str, dict[str, Array], int]:
    """The check sum, the arrays as views of one buffer, and the size of the file."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise ValueError("it is not a regular file")
    with open(path, "rb") as file:
        start = file.read(8)
    found = next((what for magic, what in OTHERS.items() if start.startswith(magic)), None)
    header = int.from_bytes(start, "little")
    if len(start) < 8 or header > status.st_size - 8:
        raise ValueError(f"it is {found or 'no model'}" if len(start) == 8 or found else "it is empty or cut off")
    with safetensors.safe_open(path, framework="numpy") as file:
        metadata = file.metadata() or {}
        described = [(name, file.get_slice(name)) for name in file.offset_keys()]
    if set(metadata) != {KEY}:
        raise ValueError("it is a safetensors file, but no model")
    buffer = np.memmap(path, np.uint8, "r") if mmap else np.fromfile(path, np.uint8)
    if len(buffer) != status.st_size:
        raise ValueError("it changes while it is read")
    arrays, offset = {}, 8 + header
    for name, described_as in described:
        dtype, shape = np.dtype(DTYPES[described_as.get_dtype()]), described_as.get_shape()
        if any(length > status.st_size for length in shape):  # an array without elements may claim any shape
            raise ValueError(f"an array claims the shape {shape}")
        array: Array = np.ndarray(shape, dtype, buffer=buffer.data, offset=offset)
        offset += array.nbytes
        if dtype == np.bool_ and array.size and array.view(np.uint8).max() > 1:
            raise ValueError("an array of truth values holds something else")
        arrays[name] = array if array.flags.aligned else array.copy()
    return metadata[KEY], arrays, status.st_size


def _digest(arrays: Mapping[str, Array]) -> str:
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data if array.size else b"")
    return digest.hexdigest()
