"""Can others store classes of their own, and only as safely as ours?"""

import ast
import importlib
import json
import subprocess
import sys
from dataclasses import InitVar, dataclass, field
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tampering import forge, parts

import outmetric
from outmetric import LearnedKernelMetric
from outmetric.foundation import STORABLE, how_stored
from outmetric.storage import ModelFileError, NotStorableError, register

X, y = load_iris(return_X_y=True)


@dataclass(frozen=True)
class Bounds:
    """Something that is part of an estimator."""

    low: float
    high: float


class Clipper(TransformerMixin, BaseEstimator):
    """Somebody's preparation."""

    def __init__(self, bounds=None, n_jobs=None):
        self.bounds = bounds
        self.n_jobs = n_jobs

    def fit(self, X, y=None):
        low, high = np.percentile(X, [self.bounds.low, self.bounds.high], axis=0)
        self.lows_, self.highs_, self.X_, self.n_features_in_ = low, high, X[:2], X.shape[1]
        return self

    def transform(self, X):
        return np.clip(X, self.lows_, self.highs_)


class StrictClipper(Clipper):
    """Somebody else's."""


def check_clipper(found, size):
    if hasattr(found, "lows_") and not found.lows_.shape == found.highs_.shape == (found.n_features_in_,):
        raise ValueError("the bounds are not as many as the features")


register(Bounds, "thirdparty.Bounds")
register(Clipper, "thirdparty.Clipper", check=check_clipper)
register(StrictClipper, "elsewhere.StrictClipper")


@pytest.fixture
def model():
    return make_pipeline(Clipper(Bounds(5.0, 90.0), n_jobs=2), StandardScaler(), LearnedKernelMetric()).fit(X, y)


def test_an_estimator_of_a_third_party_comes_back_as_it_was(model, tmp_path):
    outmetric.save(model, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    assert again.transform(X).tobytes() == model.transform(X).tobytes()
    assert type(again[0]) is Clipper
    assert again[0].bounds == Bounds(5.0, 90.0)
    assert again[0].n_jobs is None  # belongs to a machine
    np.testing.assert_array_equal(again[0].X_, X[:2])
    outmetric.save(again, tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_a_process_that_does_not_know_the_class_says_how_to_register_it(model, tmp_path):
    outmetric.save(model, tmp_path / "model")
    code = "import sys, outmetric; outmetric.load(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "ModelFileError" in done.stderr
    assert "unknown class 'thirdparty.Bounds': import the package that registers it" in done.stderr
    assert "outmetric.storage.register(cls, name)" in done.stderr


class Unregistered(BaseEstimator):
    pass


class Derived(Clipper):
    pass


@pytest.mark.parametrize("estimator", [Unregistered(), Derived(Bounds(0.0, 1.0))])
def test_what_is_not_registered_is_not_stored(estimator, tmp_path):
    with pytest.raises(NotStorableError, match=r"after outmetric\.storage\.register"):
        outmetric.save(estimator, tmp_path / "model")


@pytest.mark.parametrize("name", ["MyScaler", "StandardScaler", "", ".A", "a.", "a..B", "a b.C", "outmetric.A", "sklearn.A", None])
def test_names_must_say_whose_they_are(name):
    with pytest.raises(ValueError, match="must begin with your package and a dot"):
        register(Unregistered, name)


def test_ours_stay_ours():
    with pytest.raises(ValueError, match="must begin with your package"):
        register(Unregistered, "gaussian_process.RBF")
    with pytest.raises(ValueError, match="LearnedKernelMetric is stored already, by the name 'LearnedKernelMetric'"):
        register(LearnedKernelMetric, "thirdparty.Metric")


def test_names_that_are_taken_are_refused():
    with pytest.raises(ValueError, match=r"another storable class of the name 'thirdparty\.Clipper'"):
        register(Unregistered, "thirdparty.Clipper")
    with pytest.raises(ValueError, match=r"Clipper is stored already, by the name 'thirdparty\.Clipper'"):
        register(Clipper, "thirdparty.Other")
    assert STORABLE["thirdparty.Clipper"] is Clipper
    assert how_stored(Unregistered) is None


def test_a_class_that_is_defined_once_more_takes_its_earlier_place(tmp_path):
    def define():
        class Cell(BaseEstimator):
            pass

        register(Cell, "notebook.Cell")
        return Cell

    earlier, later = define(), define()
    register(later, "notebook.Cell")
    outmetric.save(later(), tmp_path / "model")
    assert type(outmetric.load(tmp_path / "model")) is later
    with pytest.raises(NotStorableError):
        outmetric.save(earlier(), tmp_path / "model")


@dataclass
class Mutable:
    a: int = 0


@dataclass(frozen=True)
class Hidden:
    a: int
    b: int = field(init=False, default=1)


@dataclass(frozen=True)
class Passing:
    a: int
    b: InitVar[int] = 1


class Swallows(BaseEstimator):
    def __init__(self, **anything):
        pass


class Plain:
    pass


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Plain, "an estimator .* or a frozen dataclass"),
        (Mutable, "an estimator .* or a frozen dataclass"),
        (dict, "an estimator .* or a frozen dataclass"),
        (outmetric.Status, "stored already"),
        (Hidden, "exactly its fields"),
        (Passing, "exactly its fields"),
        (Swallows, "must name its parameters"),
        (Clipper(), "only classes"),
    ],
)
def test_classes_that_cannot_be_stored(kind, message):
    with pytest.raises(ValueError, match=message):
        register(kind, "thirdparty.Kind")
    assert "thirdparty.Kind" not in STORABLE


@pytest.mark.parametrize("kind", [Clipper, StrictClipper])
def test_what_does_not_fit_together_is_refused_also_in_subclasses(kind, tmp_path):
    fitted = kind(Bounds(5.0, 90.0)).fit(X)
    outmetric.save(fitted, tmp_path / "model")
    outmetric.load(tmp_path / "model")
    fitted.lows_ = np.zeros(3)
    outmetric.save(fitted, tmp_path / "model")
    with pytest.raises(ModelFileError, match="the bounds are not as many as the features"):
        outmetric.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["transform", "__class__", "__dict__", "a b"])
def test_attributes_that_hide_the_class_are_refused_on_both_sides(name, tmp_path):
    fitted = Clipper(Bounds(5.0, 90.0)).fit(X)
    outmetric.save(fitted, tmp_path / "model")
    text, arrays = parts(tmp_path / "model")
    forge(tmp_path / "model", text.replace('"lows_"', json.dumps(name)), arrays)
    with pytest.raises(ModelFileError, match="Clipper has no attribute"):
        outmetric.load(tmp_path / "model")
    vars(fitted)[name] = 1
    with pytest.raises(NotStorableError, match="Clipper has the attribute"):
        outmetric.save(fitted, tmp_path / "other")


@dataclass
class Counted(BaseEstimator):
    """An estimator that is a dataclass."""

    step: int = 1

    def fit(self, X, y=None):
        self.count_ = len(X) // self.step
        return self


@dataclass(frozen=True)
class Both:
    one: object
    other: object


register(Counted, "thirdparty.Counted")
register(Both, "thirdparty.Both")


def test_dataclasses_that_are_estimators_keep_what_they_learned(tmp_path):
    outmetric.save(Counted(5).fit(X), tmp_path / "model")
    assert outmetric.load(tmp_path / "model").count_ == 30


def test_objects_that_hold_one_another_twice_and_so_on(tmp_path):
    nested = Bounds(0.0, 1.0)
    for _ in range(40):
        nested = Both(nested, nested)
    outmetric.save(Clipper(nested), tmp_path / "model")
    with pytest.raises(ModelFileError, match=r"made of .* others"):
        outmetric.load(tmp_path / "model")


def test_an_enumeration_is_a_value_and_not_an_object(tmp_path):
    outmetric.save(Clipper(outmetric.Status.STALLED), tmp_path / "model")
    assert outmetric.load(tmp_path / "model").bounds is outmetric.Status.STALLED
    text, arrays = parts(tmp_path / "model")
    for old, new in [('"class":"thirdparty.Clipper"', '"class":"status"'), ('{"status":', '{"thirdparty.Clipper":')]:
        assert old in text
        forge(tmp_path / "forged", text.replace(old, new), arrays)
        with pytest.raises(ModelFileError, match="unknown"):
            outmetric.load(tmp_path / "forged")


def test_storage_knows_no_class_of_ours():
    ours = {name: kind for name, kind in STORABLE.items() if kind.__module__.startswith("outmetric.")}
    assert {"LearnedKernelMetric", "Scalar", "LMNN", "TableModel", "status"} <= set(ours)
    for path in (Path(outmetric.__file__).parent / "storage").glob("*.py"):
        module = importlib.import_module(f"outmetric.storage.{path.stem}")
        assert not set(ours.values()) & {value for value in vars(module).values() if isinstance(value, type)}
        constants = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        assert not set(ours) & constants
