"""Does a model that was saved come back as it was, and does a file that is none do no harm?"""

import copy
import json
import os
import pickle
import socket
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import safetensors.numpy
import scipy.sparse
import sklearn
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.gaussian_process.kernels import RBF, DotProduct
from sklearn.impute import SimpleImputer
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, OneHotEncoder, OrdinalEncoder, PowerTransformer, RobustScaler, StandardScaler

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricSearchCV, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.estimators.metric import OutputMetric
from outmetric.foundation import obstacle, whole, write_whole
from outmetric.storage import ModelFileError, NotStorableError
from outmetric.storage import files as storage

X, y = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])[y]
REFERENCE = Path(__file__).parent / "reference"


def shared_letters(s, t):
    """A kernel on words."""
    return float(sum(s.count(letter) * t.count(letter) for letter in "abc"))


def table():
    frame = pd.DataFrame(X.copy(), columns=["length", "width", "petal length", "petal width"])
    frame["colour"] = np.where(X[:, 1] > 3, "blue", "white")
    frame.loc[3, "length"] = np.nan
    frame.loc[4, "colour"] = None
    return frame


def pipeline(*steps):
    return make_pipeline(StandardScaler(), *steps)


# (model, data, targets)
SUMS = kernels.Separable("linear") + 0.5 * kernels.Diagonal(["rbf", "laplacian"])
GRID = {"learnedkernelmetric__bandwidth": [1.0, "median"], "learnedkernelmetric__collocation_weight": [0.0, "auto"]}
CASES = {
    "model 1": (FixedKernelMetric(), X, y),
    "diagonal": (FixedKernelMetric(bandwidth=[1.0, 2.0]), X.astype(np.float32), NAMES),
    "sum of kernels": (FixedKernelMetric(kernel=SUMS), X, y),
    "precomputed": (FixedKernelMetric(kernel="precomputed"), X @ X.T, y),
    "Gaussian process": (FixedKernelMetric(kernel=RBF(2.0) + DotProduct()), X, y),
    "model 2": (LearnedKernelMetric(2, random_state=np.random.RandomState(3)), X, NAMES),
    "landmarks": (LearnedKernelMetric(n_landmarks=20), X, y),
    "real targets": (LearnedKernelMetric(regression_weight=0.5), X[:, :2], X[:, 2:]),
    "sparse": (LearnedKernelMetric(kernel="cosine"), scipy.sparse.csr_array(X), y),
    "similarity": (LearnedKernelMetric(similarity=np.eye(150)), X, y),
    "LMNN": (LMNN(), X, y),
    "ITML": (ITML(), X, y),
    "kernel LMNN": (KernelLMNN(), X, y),
    "kernel ITML": (KernelITML(n_constraints=50), X, y),
    "pipeline": (pipeline(LearnedKernelMetric(), KNeighborsClassifier()), X, NAMES),
    "regression": (pipeline(LearnedKernelMetric(), KNeighborsRegressor()), X[:, :3], X[:, 3]),
    "preparations": (make_pipeline(MinMaxScaler(), PowerTransformer(), RobustScaler(), PCA(3), LMNN()), X, y),
    "table": (
        make_pipeline(
            make_column_transformer(
                (OneHotEncoder(), ["colour"]), (OrdinalEncoder(), ["colour"]), (SimpleImputer(add_indicator=True), ["length"])
            ),
            StandardScaler(),
            LearnedKernelMetric(),
        ),
        table().fillna({"colour": "blue"}),
        y,
    ),
    "words": (
        LearnedKernelMetric(kernel=kernels.Spectrum(2)),
        [f"{name}{round(10 * width)}" for name, width in zip(NAMES, X[:, 1], strict=True)],
        y,
    ),
    "wide and sparse": (
        LearnedKernelMetric(),
        scipy.sparse.csr_array((X.ravel(), (np.repeat(np.arange(150), 4), np.arange(600) * 999))),
        y,
    ),
    "text to fill": (
        make_pipeline(
            make_column_transformer(
                (make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder()), ["colour"]), remainder="passthrough"
            ),
            SimpleImputer(),
            LearnedKernelMetric(),
        ),
        table().astype({"colour": object}),
        y,
    ),
    "Box and Cox": (make_pipeline(PowerTransformer("box-cox"), LearnedKernelMetric()), X, y),
    "frames": (pipeline(LearnedKernelMetric()).set_output(transform="pandas"), X, y),
    "told of progress": (MetricSearchCV(LearnedKernelMetric(), {"bandwidth": [1.0]}, verbose=lambda *news: None), X, y),
    "search": (MetricSearchCV(pipeline(LearnedKernelMetric()), GRID, cv=StratifiedKFold(3), n_jobs=2), X, NAMES),
    "grids": (
        MetricSearchCV(
            LearnedKernelMetric(), [{"bandwidth": [1.0]}, {"kernel": ["linear"]}], cv=RepeatedStratifiedKFold(n_splits=3)
        ),
        X,
        y,
    ),
    "classifier": (MetricClassifier(random_state=0), X, NAMES),
    "classifier of a table": (MetricClassifier(random_state=0), table(), NAMES),
}


@pytest.fixture(scope="module")
def fitted(one_preparation):
    """Each case, fitted when it is first asked for."""
    models = {}

    def get(case):
        model, data, targets = CASES[case]
        if case not in models:
            models[case] = model.fit(data, targets)
        return models[case], data

    return get


def outputs(model, data):
    """All that a model has to say about data."""
    found = [getattr(model, name)(data) for name in ("transform", "predict", "predict_proba") if hasattr(model, name)]
    return [output.toarray() if scipy.sparse.issparse(output) else np.asarray(output) for output in found]


@pytest.mark.parametrize("mmap", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_a_model_comes_back_as_it_was(case, mmap, fitted, tmp_path):
    model, data = fitted(case)
    outmetric.save(model, tmp_path / "model")
    again = outmetric.load(tmp_path / "model", mmap=mmap)
    assert type(again) is type(model)
    for found, expected in zip(outputs(again, data), outputs(model, data), strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)
    # Nothing was lost: it can be saved again, to the same bytes.
    outmetric.save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["again", "model"]
    (tmp_path / "other").touch()
    assert (tmp_path / "model").stat().st_mode == (tmp_path / "other").stat().st_mode
    local = {"n_jobs": None, "random_state": None, "verbose": False}
    shown = [
        repr(sklearn.clone(one).set_params(**{name: value for name, value in local.items() if name in one.get_params()}))
        for one in (again, model)
    ]
    assert shown[0] == shown[1]


def test_two_functions_of_one_name_are_refused(tmp_path):
    def other(s, t):
        return 2 * shared_letters(s, t)

    other.__name__ = "shared_letters"
    both = kernels.Separable(shared_letters) + kernels.Separable(other)
    with pytest.raises(NotStorableError, match="a second function of the name shared_letters"):
        outmetric.save(FixedKernelMetric(kernel=both), tmp_path / "model")


def test_threads_may_save_to_one_place(fitted, tmp_path):
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: outmetric.save(fitted("model 2")[0], tmp_path / "model"), range(40)))
    assert os.listdir(tmp_path) == ["model"]
    outmetric.load(tmp_path / "model")


def test_links_are_followed_and_names_may_be_long(fitted, tmp_path):
    (tmp_path / ("x" * 250)).touch()
    (tmp_path / "link").symlink_to("x" * 250)
    outmetric.save(fitted("model 2")[0], tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / ("x" * 250)).stat().st_size > 1000


def make_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


PLACES = {
    "a pipe": (os.mkfifo, "is no ordinary file; choose another name"),
    "a socket": (make_socket, "is no ordinary file"),
    "a folder": (os.mkdir, "is a folder; choose another name"),
    "a link to a pipe": (lambda path: (os.mkfifo(f"{path}.pipe"), os.symlink(f"{path}.pipe", path)), "is no ordinary file"),
    "a loop": (lambda path: os.symlink(path.name, path), "is a link that leads back to itself; choose another name"),
}


@pytest.mark.parametrize("place", PLACES)
def test_only_regular_files_are_replaced(place, tmp_path):
    make, message = PLACES[place]
    make(tmp_path / "model")
    before = {path.name: path.lstat().st_mode for path in tmp_path.iterdir()}
    with pytest.raises(OSError, match=message):
        outmetric.save(LearnedKernelMetric(), tmp_path / "model")
    with pytest.raises(OSError, match=message):
        write_whole(tmp_path / "model", b"")
    assert message in obstacle(tmp_path / "model")
    assert {path.name: path.lstat().st_mode for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("kind", [stat.S_IFCHR, stat.S_IFBLK])
def test_devices_are_not_replaced(kind, tmp_path, monkeypatch):
    """An administrator who saves to the null device would put a file in its place."""
    (tmp_path / "device").write_text("as it was")
    true = os.stat

    def status(path, *arguments, **options):
        found = true(path, *arguments, **options)
        return os.stat_result((kind | 0o666, *found[1:])) if str(path).endswith("device") else found

    monkeypatch.setattr(os, "stat", status)
    with pytest.raises(OSError, match="is no ordinary file"):
        outmetric.save(LearnedKernelMetric(), tmp_path / "device")
    assert os.listdir(tmp_path) == ["device"]
    assert (tmp_path / "device").read_text() == "as it was"


def test_what_comes_while_a_file_is_written_is_not_replaced_either(tmp_path):
    def write():
        with whole(tmp_path / "model") as partial:
            partial.touch()
            os.mkfifo(tmp_path / "model")

    with pytest.raises(OSError, match="is no ordinary file"):
        write()
    assert os.listdir(tmp_path) == ["model"]
    assert stat.S_ISFIFO((tmp_path / "model").stat().st_mode)


@pytest.mark.parametrize("case", ["model 1", "landmarks", "search", "classifier of a table", "LMNN"])
def test_what_was_learned_is_there(case, fitted, tmp_path):
    model, _ = fitted(case)
    outmetric.save(model, tmp_path / "model")
    again = vars(outmetric.load(tmp_path / "model"))
    assert set(again) == set(vars(model))
    numbers = [
        name for name, value in vars(model).items() if isinstance(value, int | float | str | np.ndarray) and name != "n_jobs"
    ]
    assert len(numbers) > 5
    for name in numbers:
        np.testing.assert_array_equal(again[name], vars(model)[name])
        assert type(again[name]) is type(vars(model)[name])


def test_parts_that_were_shared_are_shared_again(fitted, tmp_path):
    outmetric.save(fitted("classifier")[0], tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    assert again.best_estimator_ is again.committee_[0].pipeline
    assert again.committee_[0].candidate is again.candidates_[0]
    assert again.summary() == fitted("classifier")[0].summary()
    # Points that several maps have in common are stored once.
    points = [member.pipeline[-1].metric_.points.tobytes() for member in again.committee_]
    stored = [array.tobytes() for array in parts(tmp_path / "model")[1].values()]
    assert len(set(points)) < len(points)
    assert len(set(stored)) == len(stored)


def test_arrays_can_stay_in_the_file(fitted, tmp_path):
    outmetric.save(fitted("model 2")[0], tmp_path / "model")
    again = outmetric.load(tmp_path / "model", mmap=True)
    base = again.coefficients_
    while getattr(base, "base", None) is not None and not isinstance(base, np.memmap):
        base = base.base.obj if isinstance(base.base, memoryview) else base.base
    assert isinstance(base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        again.coefficients_[0] = 1


ELSEWHERE = """
import sys
class Absent:
    def find_spec(self, name, *rest):
        if name.split(".")[0] in ("pandas", "polars", "pyarrow", "matplotlib", "typer", "rich", "dask", "plotly", "skl2onnx"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
import numpy as np
import outmetric
rows = [[5.1, 3.5, 1.4, 0.2, "blue"], [6.1, None, 4.6, 1.4, "white"], [np.nan, 2.8, 5.0, 2.0, None], [1, 1, 1, 1, "?"]]
rows = np.array(rows, dtype=object)
print(outmetric.load(sys.argv[1]).predict_proba(rows).tobytes().hex())
"""


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_new_process_with_only_the_core_packages_predicts_the_same_to_the_last_bit(fitted, tmp_path):
    outmetric.save(fitted("classifier of a table")[0], tmp_path / "model")
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    output = subprocess.check_output([sys.executable, "-c", ELSEWHERE, tmp_path / "model"], text=True, env=environment)
    rows = table().iloc[:4].copy()
    rows.iloc[:, :4] = [[5.1, 3.5, 1.4, 0.2], [6.1, np.nan, 4.6, 1.4], [np.nan, 2.8, 5.0, 2.0], [1, 1, 1, 1]]
    rows["colour"] = ["blue", "white", None, "?"]
    assert output.strip() == fitted("classifier of a table")[0].predict_proba(rows).tobytes().hex()


def test_functions_are_named_and_brought_by_the_reader(tmp_path):
    words = ["abc", "aab", "bcc", "cca", "bab"]
    model = LearnedKernelMetric(kernel=shared_letters).fit(words, [0, 0, 1, 1, 0])
    outmetric.save(model, tmp_path / "model")
    again = outmetric.load(tmp_path / "model", functions={"shared_letters": shared_letters})
    np.testing.assert_array_equal(again.transform(["ca", "b"]), model.transform(["ca", "b"]))
    with pytest.raises(ModelFileError, match="needs the function 'shared_letters'"):
        outmetric.load(tmp_path / "model")


def test_the_metric_alone(fitted, tmp_path):
    metric = fitted("model 2")[0].get_metric()
    outmetric.save(metric, tmp_path / "metric")
    assert outmetric.load(tmp_path / "metric")(X[0], X[70]) == metric(X[0], X[70])


def test_an_estimator_that_is_not_fitted(tmp_path):
    outmetric.save(pipeline(LearnedKernelMetric(bandwidth="2*median")), tmp_path / "model")
    assert outmetric.load(tmp_path / "model")[1].bandwidth == "2*median"


class Unknown:
    """Something of the user's."""


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (LearnedKernelMetric(kernel=lambda s, t: 1.0), "kernel of the model.LearnedKernelMetric is a nameless function"),
        (LearnedKernelMetric(similarity=Unknown()), r"similarity of .* is a .*Unknown, which cannot be stored"),
        (LearnedKernelMetric(prototypes=np.array(["2026-01-01"], dtype="M8[D]")), r"dtype datetime64\[D\]"),
        (LearnedKernelMetric(kernel_params={"n_jobs": 2}), "kernel_params of .* sets one of"),
        ({"a": 1}, "only models can be saved, not a dict"),
        (pd.DataFrame(X), "DataFrame, which cannot be stored"),
    ],
)
def test_what_cannot_be_stored_is_named_and_an_earlier_file_stays(model, message, tmp_path):
    (tmp_path / "model").write_text("earlier")
    with pytest.raises(NotStorableError, match=message):
        outmetric.save(model, tmp_path / "model")
    assert (tmp_path / "model").read_text() == "earlier"
    assert os.listdir(tmp_path) == ["model"]


def test_an_interrupted_save_leaves_the_earlier_file(tmp_path, monkeypatch):
    (tmp_path / "model").write_text("earlier")

    def interrupted(arrays, path, metadata):
        Path(path).write_text("half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.numpy, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        outmetric.save(LearnedKernelMetric(), tmp_path / "model")
    assert (tmp_path / "model").read_text() == "earlier"
    assert os.listdir(tmp_path) == ["model"]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_files_of_format_1_stay_loadable():
    """Also one that was made with scikit-learn 1.6."""
    model = outmetric.load(REFERENCE / "format-1.outmetric")
    expected = json.loads((REFERENCE / "format-1.json").read_text())
    rows = np.array(expected["rows"], dtype=object)
    np.testing.assert_allclose(model.predict_proba(rows), expected["probabilities"], rtol=1e-9)
    assert model.predict(rows).tolist() == expected["classes"]
    assert "60 samples" in model.summary()


def test_a_missing_file():
    with pytest.raises(FileNotFoundError):
        outmetric.load("nowhere.outmetric")


# What hostile files are made of.


def parts(path):
    """(text of the document, arrays) of a model's file."""
    with safetensors.safe_open(path, framework="numpy") as file:
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return arrays.pop(storage.DOCUMENT).tobytes().decode(), arrays


def forge(path, text, arrays):
    """A file with a check sum that is right for whatever it holds."""
    arrays = {**arrays, storage.DOCUMENT: np.frombuffer(text.encode(), np.uint8)}
    safetensors.numpy.save_file(arrays, path, {storage.KEY: storage._digest(arrays)})


def raw(path, header, content=b""):
    """A file with any header."""
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content)


@pytest.fixture(scope="module")
def sound(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("sound") / "model"
    outmetric.save(fitted("pipeline")[0], path)
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
        ("coefficients", np.zeros((150, 0)), "offset of length 0"),
        ("coefficients", np.zeros((150, 3)), "offset of length 3"),
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
    for case, voters in (("search", lambda model: model.voters_), ("classifier", lambda model: model.committee_[-1].voters)):
        model = copy.deepcopy(fitted(case)[0])
        voters(model).fit(np.eye(2), [0, 1])
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


@pytest.mark.parametrize("kernel", [kernels.Spectrum(length=10**9, blended=True), kernels.WeightedDegree(degree=1, shift=10**9)])
def test_kernels_of_strings_are_not_evaluated_while_loading(kernel, tmp_path):
    words = np.array(["a" * 5000], dtype=object)
    metric = OutputMetric(kernels.Separable(kernel), words, np.zeros((1, 2)), np.eye(2), np.zeros(2))
    outmetric.save(metric, tmp_path / "model")
    tracemalloc.start()
    outmetric.load(tmp_path / "model")
    assert tracemalloc.get_traced_memory()[1] < 1e6
    tracemalloc.stop()


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


FUZZED = ["pipeline", "table", "diagonal", "search", "landmarks", "sparse", "Gaussian process", "sum of kernels", "words"]
ROUNDS, CASES_IN_ROUND = 18, 600
FORBIDDEN = (
    *("exec", "compile", "import", "pickle.find_class", "marshal.loads", "ctypes.dlopen", "os.system", "os.exec", "os.fork"),
    *("os.posix_spawn", "subprocess.Popen", "socket.connect", "os.remove", "os.rename", "os.mkdir", "shutil.rmtree"),
)
# What a tampered document may hold at any place.
POOL = [
    *(None, True, -1, 0, 1, 2**31, 2**62, 1e308, -0.5, "", "rbf", "precomputed", "x" * 5000, [], [[]], {}, [0] * 1000),
    *({"float": "nan"}, {"float": "x"}, {"number": ["<f8", "x"]}, {"number": ["O", 1]}, {"tuple": [1, 2]}, {"tuple": 3}),
    *({"dict": [[1, 2]]}, {"dict": [[[], 1]]}, {"slice": [0, 2**60, 1]}, {"slice": []}, {"status": "DIVERGED"}, {"status": 1}),
    *({"dtype": ["<f8", True]}, {"dtype": ["O", True]}, {"dtype": ["(1000000,1000000)f8", False]}, {"masked": [[1], [0]]}),
    *({"array": ["a0", False]}, {"array": ["a1", True]}, {"array": ["a2", 1]}, {"text": ["a0", False]}, {"text": ["a3", True]}),
    *({"objects": [[1, "a"], [2]]}, {"objects": [[1], [2**40]]}, {"csr": [[1.0], [0], [0, 1], [1, 2**50], True]}),
    *({"csr": [{"array": ["a0", False]}] * 3 + [[150, 4], False]}, {"random_state": {"tuple": ["MT19937", [0] * 624, 0, 0, 0.0]}}),
    *({"function": "eval"}, {"object": 0}, {"object": 1}, {"object": 2}, {"object": 10**6}),
]
WATCH = {"on": False, "seen": []}


@pytest.fixture(scope="module")
def watched():
    """Hears of everything that is executed, imported or started while it listens."""

    def hear(event, arguments):
        if WATCH["on"] and event in FORBIDDEN:
            WATCH["seen"].append((event, str(arguments)[:200]))

    sys.addaudithook(hear)
    return WATCH


@pytest.fixture(autouse=True)
def nothing_heard():
    WATCH["seen"].clear()


def random_node(rng, document):
    """Some value: plain, of one of the kinds, or from elsewhere in the document."""
    places = list(walk(document))
    return copy.deepcopy(POOL[rng.integers(len(POOL))] if rng.random() < 0.8 else places[rng.integers(len(places))][2])


def walk(node):
    """All (container, key, value) below a node."""
    pairs = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node, list) else []
    for key, value in pairs:
        yield node, key, value
        yield from walk(value)


def tamper_with_document(rng, path, text, arrays):
    document = json.loads(text)
    for _ in range(rng.integers(1, 4)):
        places = list(walk(document))
        container, key, _ = places[rng.integers(len(places))]
        container[key] = random_node(rng, document)
    forge(path, json.dumps(document), arrays)


def tamper_with_arrays(rng, path, text, arrays):
    arrays = dict(arrays)
    for _ in range(rng.integers(1, 3)):
        name = list(arrays)[rng.integers(len(arrays))]
        old = arrays[name]
        shape = [rng.integers(0, 2 * length + 2) for length in old.shape]
        choices = [
            np.zeros(shape, old.dtype),
            old.astype(rng.choice([np.float32, np.float64, np.int64, np.uint8, np.bool_])),
            old.ravel(),
            np.full_like(old, rng.choice([0, 1, 2])),
            np.full(old.shape, rng.choice([np.nan, np.inf, -1e308])),
            rng.integers(-(2**62), 2**62, shape),
        ]
        arrays[name] = np.ascontiguousarray(choices[rng.integers(len(choices))])
    forge(path, text, arrays)


def tamper_with_header(rng, path, content):
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    tensors = [name for name in header if name != "__metadata__"]
    name = tensors[rng.integers(len(tensors))]
    field = rng.choice(["dtype", "shape", "data_offsets"])
    values = {"dtype": ["F64", "I64", "U8", "BOOL", "BF16", "F8_E5M2", "O", 3],
              "shape": [[], [2**40], [0, 2**40], [-1], [150, 4], "x"],
              "data_offsets": [[0, 0], [0, 2**60], [5, 1], [-8, 8], [0]]}[field]  # fmt: skip
    header[name][field] = values[rng.integers(len(values))]
    raw(path, header, content[8 + length :])


def tamper_with_bytes(rng, path, content):
    content = bytearray(content)
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
    choices[rng.integers(len(choices))]()
    path.write_bytes(content)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_no_file_does_harm(seed, fitted, watched, tmp_path):
    """At least 10,000 in all: each is refused with our own error, or is a model; nothing runs, and memory is in proportion."""
    rng = np.random.default_rng(seed)
    model, data = fitted(FUZZED[seed % len(FUZZED)])
    sound, path = tmp_path / "sound", tmp_path / "model"
    outmetric.save(model, sound)
    outputs(outmetric.load(sound), data)  # imports all that is imported late, as do the next two for messages
    repr(make_pipeline(StandardScaler(), LearnedKernelMetric()))
    repr(np.ma.MaskedArray([1.0], mask=[True]))
    content, (text, arrays) = sound.read_bytes(), parts(sound)
    ways = [
        lambda: tamper_with_document(rng, path, text, arrays),
        lambda: tamper_with_document(rng, path, text, arrays),
        lambda: tamper_with_arrays(rng, path, text, arrays),
        lambda: tamper_with_header(rng, path, content),
        lambda: tamper_with_bytes(rng, path, content),
    ]
    refused, loaded = 0, 0
    tracemalloc.start()
    try:
        for _ in range(CASES_IN_ROUND):
            ways[rng.integers(len(ways))]()
            size = path.stat().st_size
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            watched["on"] = True
            try:
                outmetric.load(path)
                loaded += 1
            except ModelFileError:
                refused += 1
            finally:
                watched["on"] = False
            assert tracemalloc.get_traced_memory()[1] - before < 64 * size + 2e6
    finally:
        tracemalloc.stop()
    assert watched["seen"] == []
    assert refused > 3 * loaded > 0
    assert ROUNDS * (refused + loaded) >= 10_000
    assert sorted(os.listdir(tmp_path)) == ["model", "sound"]
