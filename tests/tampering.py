"""Files of models, and ways to tamper with them."""

from __future__ import annotations

import copy
import itertools
import json
import struct
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from stored_models import MODELS

import outmetric
from outmetric.foundation import STORABLE
from outmetric.storage import files as storage


def parts(path: Path) -> tuple[str, dict[str, Any]]:
    """(text of the document, arrays) of a model's file."""
    with safetensors.safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return arrays.pop(storage.DOCUMENT).tobytes().decode(), arrays


def forge(path: Path, text: str, arrays: dict[str, Any]) -> None:
    """A file with a check sum that is right for whatever it holds."""
    arrays = {**arrays, storage.DOCUMENT: np.frombuffer(text.encode(), np.uint8)}
    safetensors.numpy.save_file(arrays, path, {storage.KEY: storage._digest(arrays)})


def raw(path: Path, header: Any, content: bytes = b"") -> None:
    """A file with any header."""
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)


@dataclass(frozen=True, eq=False)
class Sound:
    """A model as it was saved."""

    name: str
    model: Any
    data: Any
    content: bytes
    text: str
    arrays: dict[str, Any]

    @classmethod
    def of(cls, name: str, folder: Path) -> Sound:
        fit, data = MODELS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = fit()
        path = folder / "sound"
        outmetric.save(model, path)
        return cls(name, model, data, path.read_bytes(), *parts(path))


def known_classes() -> dict[str, Any]:
    """Those that can be stored, but for what an example has registered in this process, in whatever order tests run."""
    return {name: kind for name, kind in STORABLE.items() if not name.startswith("mypackage.")}


# What a tampered document may hold at any place.
POOL: list[Any] = [
    *(None, True, -1, 0, 1, 3, 2**31, 2**62, 1e308, -0.5, 1.5, "", "rbf", "linear", "precomputed", "x" * 5000, [], [[]], {}),
    *([0] * 1000, {"float": "nan"}, {"float": "inf"}, {"float": "x"}, {"number": ["<f8", "x"]}, {"number": ["O", 1]}),
    *({"number": ["<i8", 3]}, {"number": ["|b1", True]}, {"tuple": [1, 2]}, {"tuple": 3}, {"tuple": []}, {"dict": [[1, 2]]}),
    *({"dict": []}, {"dict": [[[], 1]]}, {"slice": [0, 2**60, 1]}, {"slice": []}, {"slice": [None, None, None]}),
    *({"status": "DIVERGED"}, {"status": 1}, {"dtype": ["<f8", True]}, {"dtype": ["<f4", False]}, {"dtype": ["O", True]}),
    *({"dtype": ["(1000000,1000000)f8", False]}, {"masked": [[1], [0]]}, {"array": ["a0", False]}, {"array": ["a1", True]}),
    *({"array": ["a2", 1]}, {"text": ["a0", False]}, {"text": ["a3", True]}, {"objects": [[1, "a"], [2]]}, {"objects": [[], [0]]}),
    *({"objects": [[1], [2**40]]}, {"csr": [[1.0], [0], [0, 1], [1, 2**50], True]}, {"function": "eval"}, {"function": "doubled"}),
    *({"csr": [{"array": ["a0", False]}] * 3 + [[150, 4], False]}, {"random_state": {"tuple": ["MT19937", [0] * 624, 0, 0, 0.0]}}),
    *({"object": 0}, {"object": 1}, {"object": 2}, {"object": 10**6}, "passthrough", "drop", "auto", "mahalanobis", "pandas"),
]
# Of most models.
FEATURES = 4
# Of a document that was made longer; what longer ones take is in proportion, but takes its time.
LONGEST = 200_000
# -1 and -2 have the same hash, and so have all tuples of them.
EQUAL_HASHES = [{"tuple": list(signs)} for signs in itertools.product([-1, -2], repeat=11)]


def walk(node: Any) -> Any:
    """All (container, key, value) below a node."""
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        yield node, key, value
        yield from walk(value)


def pick(rng: Any, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def one_value(rng: Any, document: Any, arrays: Any) -> None:
    """Some value takes the place of another: plain, of one of the kinds, or from elsewhere in the document."""
    places = list(walk(document))
    container, key, _ = pick(rng, places)
    container[key] = copy.deepcopy(pick(rng, POOL) if rng.random() < 0.7 else pick(rng, places)[2])


def near_number(rng: Any, document: Any, arrays: Any) -> None:
    """A number that is almost right."""
    places = [place for place in walk(document) if type(place[2]) in (int, float)]
    container, key, value = pick(rng, places)
    container[key] = pick(rng, [value + 1, value - 1, -value, 2 * value, 10**6, 0, float(value), str(value), [value]])


def object_for_a_value(rng: Any, document: Any, arrays: Any) -> None:
    """An object where a number, a text or an array is expected."""
    index = int(rng.integers(len(document["objects"])))
    entry = pick(rng, document["objects"][index:])
    places = [place for part in ("params", "state") for place in walk(entry[part])]
    if places:
        container, key, _ = pick(rng, places)
        container[key] = {"object": index}


def lost_or_foreign(rng: Any, document: Any, arrays: Any) -> None:
    """An attribute or a parameter is missing, or that of another object."""
    entry, other = pick(rng, document["objects"]), pick(rng, document["objects"])
    part = entry[pick(rng, ["params", "state"])]
    given = {**other["params"], **other["state"]}
    if part and rng.random() < 0.5:
        del part[pick(rng, list(part))]
    elif part and given:
        part[pick(rng, list(part))] = copy.deepcopy(pick(rng, list(given.values())))


def other_class(rng: Any, document: Any, arrays: Any) -> None:
    pick(rng, document["objects"])["class"] = pick(rng, sorted(known_classes()))


def swapped_objects(rng: Any, document: Any, arrays: Any) -> None:
    one, other = pick(rng, document["objects"]), pick(rng, document["objects"])
    part = pick(rng, ["class", "params", "state"])
    one[part], other[part] = copy.deepcopy((other[part], one[part]))


def shared_arrays(rng: Any, document: Any, arrays: Any) -> None:
    """One array in the place of several."""
    places = [place for place in walk(document) if place[1] in ("array", "text", "integers", "words")]
    if places:
        chosen = pick(rng, places)
        for container, key, _ in places:
            if rng.random() < 0.3 and key == chosen[1]:
                container[key] = copy.deepcopy(chosen[2])


def many_objects(rng: Any, document: Any, arrays: Any) -> None:
    """Very many objects that share all that they have."""
    entries, root = document["objects"], document["model"]
    index = int(rng.integers(len(entries)))
    if rng.random() < 0.5:
        most = max(3, min(3000, LONGEST // len(json.dumps(entries[index]))))
        entries += [copy.deepcopy(entries[index]) for _ in range(int(rng.integers(2, most)))]
        uses = [{"object": k} for k in range(len(entries))]
    else:
        uses = [{"object": index}] * int(rng.integers(2, 3000))
    entries.append({"class": "LearnedKernelMetric", "params": {"kernel_params": uses}, "state": {}})
    document["model"] = pick(rng, [root, {"object": len(entries) - 1}])


def nested(rng: Any, document: Any, arrays: Any) -> None:
    """An object within others, and so on, each of which has it once or twice."""
    entries = document["objects"]
    inner, times = int(rng.integers(len(entries))), int(rng.integers(1, 3))
    for _ in range(int(rng.integers(1, 60))):
        uses = [{"object": inner}] * times
        steps = [{"tuple": [f"step {k}", use]} for k, use in enumerate(uses)]
        wide = [{"tuple": [f"step {k}", use, {"slice": [None, None, None]}]} for k, use in enumerate(uses)]
        entries.append(
            {
                "Pipeline": {"class": "Pipeline", "params": {"steps": steps}, "state": {}},
                "KernelSum": {"class": "KernelSum", "params": {"kernels": uses}, "state": {}},
                "Diagonal": {"class": "Diagonal", "params": {"kernels": uses}, "state": {}},
                "Wide": {"class": "ColumnTransformer", "params": {"transformers": wide},
                         "state": {"transformers_": wide, "n_features_in_": 4}},
                "Search": {"class": "MetricSearchCV", "params": {"estimator": uses[0], "param_grid": {"dict": []}}, "state": {}},
            }[pick(rng, ["Pipeline", "Pipeline", "KernelSum", "Diagonal", "Wide", "Search"])]
        )  # fmt: skip
        inner = len(entries) - 1
    document["model"] = pick(rng, [document["model"], {"object": inner}])


def used_often(rng: Any, document: Any, arrays: Any) -> None:
    """Steps, kernels, members or columns are listed many times over."""
    lists = [place[2] for place in walk(document) if isinstance(place[2], list) and 0 < len(place[2]) < 50]
    if lists:
        chosen = pick(rng, lists)
        text = json.dumps(chosen)
        times = int(rng.integers(2, max(3, min(400, LONGEST // len(text)))))
        chosen[:] = [one for _ in range(times) for one in json.loads(text)]


def wide(rng: Any, document: Any, arrays: Any) -> None:
    """More features than data explain, in all arrays or in none."""
    factor = int(pick(rng, [2, 100, 10_000]))
    for container, key, value in list(walk(document)):
        if key in ("n_features_in_", "_n_features_out", "n_components_") and type(value) is int:
            container[key] = value * factor
    if rng.random() < 0.5:
        for name, array in arrays.items():
            if array.ndim and array.shape[-1] == FEATURES and array.size * factor < 2**17:
                arrays[name] = np.tile(array, factor)


def equal_hashes(rng: Any, document: Any, arrays: Any) -> None:
    """Very many keys, categories or names that have the same hash."""
    container, key, _ = pick(rng, [place for entry in document["objects"] for place in walk(entry)])
    alike = list(EQUAL_HASHES)
    container[key] = pick(rng, [alike, {"dict": [[one, 0] for one in alike]}, {"objects": [alike, [len(alike)]]}])


def other_numbers(rng: Any, document: Any, arrays: Any) -> None:
    """Arrays of other shapes, types or values."""
    name = pick(rng, list(arrays))
    old = arrays[name]
    shape = [int(rng.integers(0, 2 * length + 2)) for length in old.shape]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        choices = [
            np.zeros(shape, old.dtype),
            old.astype(pick(rng, [np.float32, np.float64, np.int64, np.uint8, np.bool_])),
            old.ravel(),
            old[..., None],
            old[: len(old) // 2] if old.ndim else old,
            np.full_like(old, pick(rng, [0, 1, 2])),
            np.full(old.shape, pick(rng, [np.nan, np.inf, -1e308, 1e-308])),
            np.where(rng.random(old.shape) < 0.1, pick(rng, [np.nan, np.inf, 1e300, 0]), old),
            rng.integers(-(2**62), 2**62, shape),
        ]
    arrays[name] = np.ascontiguousarray(pick(rng, choices))


IN_DOCUMENTS = [
    *(one_value, one_value, one_value, near_number, near_number, object_for_a_value, lost_or_foreign, lost_or_foreign, other_class),
    *(swapped_objects, shared_arrays, many_objects, nested, used_often, wide, equal_hashes, other_numbers, other_numbers),
]


def tamper_with_content(rng: Any, path: Path, sound: Sound) -> None:
    document, arrays = json.loads(sound.text), dict(sound.arrays)
    for _ in range(int(rng.integers(1, 3))):
        with suppress(
            AttributeError, LookupError, RecursionError, TypeError, ValueError
        ):  # where the first change left nothing for a second
            pick(rng, IN_DOCUMENTS)(rng, document, arrays)
        try:
            text = json.dumps(document)
        except (RecursionError, ValueError):  # it came to contain itself
            text = sound.text
        document = json.loads(text)  # without parts that are one object in several places, and would grow together
    used = {name: array for name, array in arrays.items() if f'"{name}"' in text}  # or it would be refused for the others
    forge(path, text, used)


def tamper_with_header(rng: Any, path: Path, sound: Sound) -> None:
    content = sound.content
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    name = pick(rng, [name for name in header if name != "__metadata__"])
    field = pick(rng, ["dtype", "shape", "data_offsets"])
    values = {"dtype": ["F64", "I64", "U8", "BOOL", "BF16", "F8_E5M2", "O", 3],
              "shape": [[], [2**40], [0, 2**40], [-1], [150, 4], "x"],
              "data_offsets": [[0, 0], [0, 2**60], [5, 1], [-8, 8], [0]]}[field]  # fmt: skip
    header[name][field] = pick(rng, values)
    raw(path, header, content[8 + length :])


def tamper_with_bytes(rng: Any, path: Path, sound: Sound) -> None:
    content = bytearray(sound.content)
    places = rng.integers(0, len(content), rng.integers(1, 9))
    start = int(places[0])
    some = rng.bytes(int(rng.integers(1, 64)))
    choices = [
        lambda: [content.__setitem__(place, content[place] ^ int(rng.integers(1, 256))) for place in places.tolist()],
        lambda: content.__delitem__(slice(start, None)),
        lambda: content.__setitem__(slice(start, start), some),
        lambda: content.__delitem__(slice(start, start + 40)),
        lambda: content.__setitem__(slice(0, 8), rng.bytes(8)),
        lambda: content.__setitem__(slice(0, None), rng.bytes(int(rng.integers(0, 4000)))),
        lambda: content.__setitem__(slice(8, 8 + len(some)), some),
    ]
    pick(rng, choices)()
    path.write_bytes(content)


def tamper(rng: Any, path: Path, sound: Sound) -> None:
    """A file that was made of a sound one."""
    share = rng.random()
    way = tamper_with_header if share < 0.03 else tamper_with_bytes if share < 0.06 else tamper_with_content
    way(rng, path, sound)
