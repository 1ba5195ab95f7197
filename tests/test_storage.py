"""Does a model that was saved come back as it was, and does a file that is none do no harm?"""

import functools
import json
import os
import socket
import stat
import subprocess
import sys
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
from tampering import parts

import outmetric
from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricRegressor, MetricSearchCV, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN
from outmetric.foundation import obstacle, whole, write_whole
from outmetric.storage import ModelFileError, NotStorableError

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
    "classifier of a rare class": (
        MetricClassifier(scoring="balanced_accuracy", random_state=0),
        X,
        np.where(y == 1, "rare", "usual"),
    ),
    "regressor": (MetricRegressor(random_state=0), X[:, :3], X[:, 3]),
    "regressor of a table": (MetricRegressor(random_state=0), table(), X[:, 2:]),
}


@functools.cache
def fitted_case(case):
    """(model, data) of a case."""
    model, data, targets = CASES[case]
    return model.fit(data, targets), data


@pytest.fixture
def fitted(one_preparation):
    """Each case, fitted when it is first asked for."""
    return fitted_case


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
    first, second, *_ = again.committee_
    assert first.pipeline is not second.pipeline
    assert first.pipeline["scale"] is second.pipeline["scale"]
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


def test_a_file_that_grows_while_it_is_read(tmp_path, monkeypatch):
    path, read = tmp_path / "model", np.fromfile
    outmetric.save(LearnedKernelMetric(), path)

    def grown(*args):
        path.write_bytes(path.read_bytes() + b"x")
        return read(*args)

    monkeypatch.setattr(np, "fromfile", grown)
    with pytest.raises(ModelFileError, match="it changes while it is read"):
        outmetric.load(path)


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
