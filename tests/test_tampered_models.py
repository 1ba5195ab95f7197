"""Does a file that is no model, or was tampered with, do no harm?"""

import copy
import json
import os
import pickle
import struct
import sys
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import safetensors.numpy
import sklearn
from fuzzing import SECONDS, watched
from sklearn.gaussian_process.kernels import RBF
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from stored_models import MODELS
from tampering import Sound, forge, known_classes, parts, raw, tamper
from test_storage import fitted_case

import outmetric
from outmetric import LearnedKernelMetric, kernels
from outmetric.estimators.metric import OutputMetric
from outmetric.storage import ModelFileError
from outmetric.storage import files as storage


@pytest.fixture
def fitted():
    return fitted_case


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "model"
    outmetric.save(fitted_case("pipeline")[0], path)
    return path


class Bomb:
    def __reduce__(self):
        return os.system, ("touch exploded",)


def test_other_files_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_bytes(pickle.dumps(Bomb()))
    with zipfile.ZipFile(tmp_path / "b", "w", zipfile.ZIP_DEFLATED) as bomb:
        bomb.writestr("model", b"0" * 10_000_000)
    (tmp_path / "c").write_bytes(b"")
    (tmp_path / "d").write_bytes(b"<html><body>not found</body></html>")
    safetensors.numpy.save_file({"a": np.zeros(3)}, tmp_path / "e")
    os.mkfifo(tmp_path / "f")
    wanted = [
        "a pickle, which could run",
        "a zip archive",
        "empty or cut off",
        "no model",
        "a safetensors file, but no model",
        "regular",
    ]
    for name, message in zip("abcdef", wanted, strict=True):
        with pytest.raises(ModelFileError, match=message):
            outmetric.load(tmp_path / name)
    with pytest.raises(ModelFileError, match="regular"):
        outmetric.load(tmp_path)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999999])
def test_a_file_that_was_cut_off(sound, tmp_path, share):
    content = sound.read_bytes()
    (tmp_path / "model").write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ModelFileError):
        outmetric.load(tmp_path / "model")


def test_a_number_that_was_damaged(sound, tmp_path):
    content = bytearray(sound.read_bytes())
    content[-5] ^= 1
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ModelFileError, match="does not match its check sum"):
        outmetric.load(tmp_path / "model")


def test_a_newer_format_says_upgrade(sound, tmp_path):
    text, arrays = parts(sound)
    forge(tmp_path / "model", text.replace('"version":1', '"version":2'), arrays)
    with pytest.raises(ModelFileError, match="format 2, and this version reads up to 1: upgrade outmetric"):
        outmetric.load(tmp_path / "model")


def test_another_scikit_learn_is_named_where_something_goes_wrong(sound, tmp_path):
    text, arrays = parts(sound)
    text = text.replace(
        '"class":"KNeighborsClassifier","params":{', '"class":"KNeighborsClassifier","params":{"wheights":1'
    ).replace(f'"scikit-learn":"{sklearn.__version__}"', '"scikit-learn":"0.18"')
    forge(tmp_path / "model", text, arrays)
    with pytest.raises(ModelFileError, match=r"wheights.*made with scikit-learn 0\.18"):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"LearnedKernelMetric"', '"os.system"', "unknown class 'os.system'"),
        ('"class": "StandardScaler"', '"class": "StandardScaler", "code": "import os"', "keys"),
        ('{"version"', '{"more": 1, "version"', "not what describes a model"),
        ('{"version": 1', '{"version": "1"', "describes no model"),
        ('"mean_"', '"__class__"', "no attribute '__class__'"),
        ('"mean_"', '"transform"', "no attribute 'transform'"),
        ('"n_features_in_": 4', '"n_features_in_": {"function": "exec"}', "needs the function 'exec'"),
        ('"n_features_in_": 4', '"n_features_in_": {"eval": "1"}', "unknown kind 'eval'"),
        ('"n_features_in_": 4', '"n_features_in_": NaN', "holds NaN"),
        ('"n_features_in_": 4', '"n_features_in_": null', "claims None features"),
        ('"n_features_in_": 4', '"n_features_in_": {"object": 99}', "before it is described"),
        ('"n_features_in_": 4', '"n_features_in_": {"object": -1}', "before it is described"),
        ('"n_features_in_": 4', '"n_jobs": 1000000', "belong to a machine"),
        ('"params": {"steps"', '"params": {"memory": "cache", "steps"', "belong to a machine"),
        ('"n_features_in_": 4', '"n_features_in_": {"dict": [["n_jobs", 1000000]]}', "or one of"),
        ('"n_features_in_": 4', '"n_features_in_": {"dtype": ["O", false]}', "numbers of type 'O'"),
        ('"n_features_in_": 4', '"n_features_in_": {"objects": [[], [0, 1000000000000]]}', "do not have the shape"),
        ('"n_features_in_": 4', '"n_features_in_": ' + "[" * 100_000 + "]" * 100_000, "recursion"),
        ('"n_features_in_": 4', '"n_features_in_": ' + "9" * 10_000, "digits"),
        ('"n_features_in_": 4', '"n_features_in_": 1000000000000', "claims 1000000000000 features"),
    ],
)
def test_a_document_that_was_tampered_with(sound, tmp_path, old, new, message):
    text, arrays = parts(sound)
    readable = json.dumps(json.loads(text))
    assert old in readable
    forge(tmp_path / "model", readable.replace(old, new), arrays)
    with pytest.raises(ModelFileError, match=message):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "replacement", "message"),
    [
        ("coefficients", np.zeros((149, 2)), "needs 149 points"),
        ("coefficients", np.zeros((0, 2)), "needs 0 points"),
        ("coefficients", np.zeros((150, 0)), r"offset of shape \(0,\)"),
        ("coefficients", np.zeros((150, 3)), r"offset of shape \(3,\)"),
        ("points", np.zeros((150, 3)), "claims 4 features and was learned on 3"),
        ("points", np.full((150, 4), "x"), "."),
        ("mean_", np.zeros(5), "."),
        ("mean_", np.zeros((0, 10**4)), "."),
    ],
)
def test_arrays_that_do_not_fit_together(fitted, tmp_path, name, replacement, message):
    model = copy.deepcopy(fitted("pipeline")[0])
    holder = model[0] if name == "mean_" else model[1].metric_
    object.__setattr__(holder, name, replacement)
    outmetric.save(model, tmp_path / "model")
    with pytest.raises(ModelFileError, match=message):
        outmetric.load(tmp_path / "model")


def test_a_sparse_matrix_that_claims_more_rows(fitted, tmp_path):
    outmetric.save(fitted("sparse")[0], tmp_path / "model")
    text, arrays = parts(tmp_path / "model")
    assert "[150,4]" in text
    forge(tmp_path / "model", text.replace("[150,4]", "[151,4]"), arrays)
    with pytest.raises(ModelFileError, match="shape of a sparse matrix"):
        outmetric.load(tmp_path / "model")


def test_the_width_of_categories_is_not_believed(fitted, tmp_path):
    model, data = fitted("table")
    forged = copy.deepcopy(model)
    forged[0].named_transformers_["onehotencoder"]._n_features_outs = [10**12]
    outmetric.save(forged, tmp_path / "model")
    np.testing.assert_array_equal(outmetric.load(tmp_path / "model").transform(data), model.transform(data))


def test_voters_that_know_other_classes(fitted, tmp_path):
    search = copy.deepcopy(fitted("search")[0])
    search.voters_.fit(np.eye(2), [0, 1])
    classifier = copy.deepcopy(fitted("classifier")[0])
    voters = KNeighborsClassifier(1).fit(np.eye(2), [0, 1])
    classifier.committee_[-1] = replace(classifier.committee_[-1], voters=voters, temperature=None)
    for model in (search, classifier):
        outmetric.save(model, tmp_path / "model")
        with pytest.raises(ModelFileError, match="voters and classes do not fit together"):
            outmetric.load(tmp_path / "model")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (0, "PCG64"),
        (1, [0] * 624),
        (1, {"array": ["short", False]}),
        (1, {"array": ["wide", False]}),
        (2, 625),
        (2, 10**6),
        (2, -1),
        (2, 4.0),
        (2, True),
        (3, 2),
        (3, "1"),
        (4, "0"),
        (4, {"float": "nan"}),
    ],
)
def test_a_random_state_whose_fields_numpy_would_trust(place, value, tmp_path):
    """A position beyond the state's 624 words ended the process in `fit`."""
    outmetric.save(LearnedKernelMetric(random_state=np.random.RandomState(3)), tmp_path / "model")
    text, arrays = parts(tmp_path / "model")
    document = json.loads(text)
    state = document["objects"][0]["params"]["random_state"]["random_state"]["tuple"]
    more = {"short": np.ones(623, np.uint32), "wide": np.ones(624, np.uint64)}
    state[place] = value
    used = {name for name in (*arrays, *more) if f'"{name}"' in json.dumps(document)}
    forge(tmp_path / "model", json.dumps(document), {name: {**arrays, **more}[name] for name in used})
    with pytest.raises(ModelFileError, match="the state of a random number generator is none"):
        outmetric.load(tmp_path / "model")


def test_a_random_state_goes_on_where_it_was(tmp_path):
    state = np.random.RandomState(3)
    state.normal(size=3)  # keeps the second of a pair of normal numbers for the next time
    outmetric.save(LearnedKernelMetric(random_state=state), tmp_path / "model")
    again = outmetric.load(tmp_path / "model").random_state
    np.testing.assert_array_equal(again.normal(size=2000), state.normal(size=2000))


def nested(kernel, combine, depth):
    """A kernel that is made of the one before twice, and so on."""
    for _ in range(depth):
        kernel = combine(kernel)
    return kernel


@pytest.mark.parametrize(
    ("kernel", "points"),
    [
        (kernels.Separable(nested(RBF(), lambda one: one + one, 40)), np.zeros((1, 1))),
        (nested(kernels.Separable("rbf"), lambda one: kernels.Sum((one, one)), 10), np.zeros((1, 1))),
    ],
)
def test_kernels_that_would_be_evaluated_forever(kernel, points, tmp_path):
    outmetric.save(OutputMetric(kernel, points, np.zeros((1, 2)), np.eye(2), np.zeros(2)), tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"made of .* others"):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Spectrum(length=10**9, blended=True),
        kernels.WeightedDegree(degree=10**9),
        kernels.WeightedDegree(degree=1, shift=10**9),
    ],
)
def test_kernels_of_strings_are_not_evaluated_while_loading(kernel, tmp_path):
    """Nor afterwards, if a string of n letters has n^2 substrings, or places for them."""
    words = np.array(["a" * 5000], dtype=object)
    metric = OutputMetric(kernels.Separable(kernel), words, np.zeros((1, 2)), np.eye(2), np.zeros(2))
    outmetric.save(metric, tmp_path / "model")
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="far more than a file of its size should"):
        outmetric.load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


@pytest.mark.parametrize(
    "kernel",
    [kernels.Spectrum(60, blended=True), kernels.WeightedDegree(20, shift=5), kernels.WeightedDegree(60)],
)
def test_usual_kernels_of_strings_come_back(kernel, tmp_path):
    letters = np.random.default_rng(0).choice(list("ACGT"), (500, 60))
    words = np.array(["".join(row) for row in letters], dtype=object)
    metric = OutputMetric(kernels.Separable(kernel), words, np.ones((500, 2)), np.eye(2), np.zeros(2))
    outmetric.save(metric, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(again.coordinates(words[:2]), metric.coordinates(words[:2]))


@pytest.mark.parametrize(
    "node",
    [
        {"masked": [{"array": ["a0", False]}, {"array": ["a0", False]}]},
        {"csr": [{"array": ["a0", False]}, {"array": ["a0", False]}, {"array": ["a1", False]}, [1, 9], True]},
        {"text": ["a2", False]},
    ],
)
def test_one_array_cannot_become_a_thousand(node, tmp_path):
    arrays = {"a0": np.zeros(10_000, np.int8), "a1": np.array([0, 10_000]), "a2": np.zeros((10, 1000), np.uint32)}
    document = {"version": 1, "scikit-learn": sklearn.__version__, "model": [node] * 1000, "objects": []}
    forge(tmp_path / "model", json.dumps(document), arrays)
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="far more memory than a file of its size"):
        outmetric.load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 80 * (tmp_path / "model").stat().st_size + 2e6
    tracemalloc.stop()


def test_a_map_with_more_outputs_than_its_file_has_room_for(tmp_path):
    many = 20_000
    metric = OutputMetric(kernels.Separable("rbf"), np.zeros((1, 1)), np.zeros((1, many)), np.zeros((1, many)), np.zeros(many))
    outmetric.save(metric, tmp_path / "model")
    with pytest.raises(ModelFileError, match="20000 outputs"):
        outmetric.load(tmp_path / "model")


def test_truth_values_that_are_none(tmp_path):
    header = {"__metadata__": {storage.KEY: "0" * 64}, "a": {"dtype": "BOOL", "shape": [2], "data_offsets": [0, 2]}}
    raw(tmp_path / "model", header, b"\x01\x02")
    with pytest.raises(ModelFileError, match="truth values"):
        outmetric.load(tmp_path / "model")


def test_an_array_that_nothing_refers_to(sound, tmp_path):
    text, arrays = parts(sound)
    forge(tmp_path / "model", text, {**arrays, "../../etc/passwd": np.zeros(3)})
    with pytest.raises(ModelFileError, match="nothing refers to 1 of its arrays"):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize("shape", [[2**62], [10**12, 0], [2**33, 2**33], [1.5], [-1]])
def test_huge_shapes_are_not_allocated(tmp_path, shape):
    raw(
        tmp_path / "model", {"__metadata__": {storage.KEY: "0" * 64}, "a": {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]}}
    )
    tracemalloc.start()
    with pytest.raises(ModelFileError):
        outmetric.load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


def test_a_header_that_claims_to_be_huge(tmp_path):
    (tmp_path / "model").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(ModelFileError, match="no model"):
        outmetric.load(tmp_path / "model")


def test_text_that_is_none(fitted, tmp_path):
    outmetric.save(fitted("classifier")[0], tmp_path / "model")
    text, arrays = parts(tmp_path / "model")
    name = next(name for name, array in arrays.items() if array.dtype == np.uint32)
    forge(tmp_path / "model", text, {**arrays, name: arrays[name] + 0x110000})
    with pytest.raises(ModelFileError, match="should hold text"):
        outmetric.load(tmp_path / "model")


# Files of each model; python tests/fuzzing.py tries many more.
TAMPERED = int(os.environ.get("OUTMETRIC_TAMPERED", 25))
FORBIDDEN = (
    *("exec", "compile", "import", "pickle.find_class", "marshal.loads", "ctypes.dlopen", "os.system", "os.exec", "os.fork"),
    *("os.posix_spawn", "subprocess.Popen", "socket.connect", "os.remove", "os.rename", "os.mkdir", "shutil.rmtree"),
)
WATCH = {"on": False, "seen": []}


@pytest.fixture(scope="module")
def attentive():
    """A `load` that hears of everything that is executed, imported or started meanwhile."""

    def hear(event, arguments):
        if WATCH["on"] and event in FORBIDDEN:
            WATCH["seen"].append((event, str(arguments)[:200]))

    def load(path, **options):
        WATCH["on"] = True
        try:
            return outmetric.load(path, **options)
        finally:
            WATCH["on"] = False

    sys.addaudithook(hear)
    return load


@pytest.mark.parametrize("name", MODELS)
def test_no_file_does_harm(name, attentive, tmp_path):
    """Each is refused with our own error, or is a model that can be used; nothing runs, and work and memory are in proportion."""
    WATCH["seen"].clear()
    sound, path = Sound.of(name, tmp_path), tmp_path / "model"
    assert watched(tmp_path / "sound", sound, traced=False).what == "loaded"  # imports what is imported late, as do the next two
    repr(make_pipeline(StandardScaler(), LearnedKernelMetric()))
    repr(np.ma.MaskedArray([1.0], mask=[True]))
    found = []
    for seed in range(TAMPERED):
        tamper(np.random.default_rng([seed, list(MODELS).index(name)]), path, sound)
        found.append(watched(path, sound, traced=seed % 5 == 0, load=attentive))
    assert [(seed, case) for seed, case in enumerate(found) if case.what not in ("refused", "loaded", "unfitted")] == []
    assert [(seed, case) for seed, case in enumerate(found) if case.seconds > SECONDS or case.n_bytes > case.allowed] == []
    assert {"refused", "loaded"} <= {case.what for case in found}
    assert WATCH["seen"] == []
    assert sorted(os.listdir(tmp_path)) == ["model", "sound"]


def test_all_storable_classes_are_tampered_with(tmp_path):
    ours = {name for name, kind in known_classes().items() if kind.__module__.split(".")[0] in ("outmetric", "sklearn")}
    texts = [Sound.of(name, tmp_path).text for name in MODELS]
    entries = [entry for text in texts for entry in json.loads(text)["objects"]]
    assert {entry["class"] for entry in entries} == ours - {"status"}  # which is no object
    assert any('{"status":' in text for text in texts)
