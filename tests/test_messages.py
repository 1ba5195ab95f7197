"""Do messages name what came and what to do, where a new user stumbled?"""

import os
import subprocess
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas
import polars
import pytest
from sklearn.datasets import load_iris, load_wine
from typer.testing import CliRunner

import outmetric
from outmetric import (
    FixedKernelMetric,
    LearnedKernelMetric,
    MetricClassifier,
    MetricMap,
    MetricRegressor,
    cli,
    kernels,
    plots,
    storage,
)
from outmetric.foundation import STORABLE, how_stored
from outmetric.storage import ModelFileError, NotStorableError

mpl.use("Agg")
X, y = load_iris(return_X_y=True)
QUICK = {"time_budget": 0.1, "random_state": 0}
BOTH = [pandas.DataFrame, polars.DataFrame]


def told_at(caught):
    """Where warnings point, but for those of time budgets, which a busy machine exceeds."""
    return [warning.filename for warning in caught if "time_budget" not in str(warning.message)]


@pytest.mark.parametrize("model", [MetricClassifier(**QUICK), MetricRegressor(**QUICK)])
@pytest.mark.parametrize("kind", [np.asarray, list, pandas.Series])
def test_the_lengths_of_both_are_told(model, kind):
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[150, 149\]"):
        model.fit(X, kind(y[1:]))


def test_the_lengths_of_both_are_told_where_labels_are_missing():
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[150, 149\]"):
        MetricClassifier(unlabeled="ignore", **QUICK).fit(X, np.where(np.arange(149) % 2, y[1:], -1))


# Kernels of one's own


@dataclass(frozen=True, eq=False)
class Squares(kernels.ScalarKernel):
    """Somebody's kernel."""

    scale: float = 1.0
    name = "messages-squares"
    takes = "arrays"

    def values(self, X: Any, Z: Any) -> Any:
        return (self.scale * X @ Z.T + 1.0) ** 2


class Plain(kernels.ScalarKernel):
    """One that is no dataclass."""

    name = "messages-plain"
    takes = "arrays"

    def values(self, X: Any, Z: Any) -> Any:
        return X @ Z.T


kernels.register("messages-squares", Squares)
kernels.register("messages-plain", Plain)


@pytest.mark.parametrize("model", [LearnedKernelMetric, FixedKernelMetric])
@pytest.mark.parametrize("kernel", [Squares(0.1), Squares(0.1) + 0.5 * kernels.Scalar("rbf"), kernels.Separable(Squares(0.1))])
def test_an_object_of_a_registered_kernel_is_stored(model, kernel, tmp_path):
    if model is LearnedKernelMetric and isinstance(kernel, kernels.Separable):
        pytest.skip("takes no matrix-valued kernels")
    fitted = model(kernel=kernel).fit(X, y)
    outmetric.save(fitted, tmp_path / "model")
    again = outmetric.load(tmp_path / "model")
    assert again.transform(X).tobytes() == fitted.transform(X).tobytes()


def test_ours_are_stored_by_name_as_before():
    assert not {name for name in STORABLE if name.startswith("kernel:")} & {
        f"kernel:{word}" for word in ("rbf", "laplacian", "linear")
    }
    assert how_stored(kernels.KERNELS["rbf"]) is None


def test_a_registered_kernel_may_get_a_name_of_its_own(tmp_path):
    @dataclass(frozen=True, eq=False)
    class Other(Squares):
        name = "messages-other"

    kernels.register("messages-other", Other)
    fitted = LearnedKernelMetric(kernel=Other(0.1)).fit(X, y)
    outmetric.save(fitted, tmp_path / "before")
    storage.register(Other, "messages.Other")
    outmetric.save(fitted, tmp_path / "after")
    for name in ("before", "after"):
        np.testing.assert_array_equal(outmetric.load(tmp_path / name).transform(X), fitted.transform(X))


def test_an_object_that_cannot_be_stored_says_what_can(tmp_path):
    outmetric.save(LearnedKernelMetric(kernel="messages-plain").fit(X, y), tmp_path / "model")
    with pytest.raises(NotStorableError, match=r"kernels that are frozen dataclasses, after outmetric\.kernels\.register"):
        outmetric.save(LearnedKernelMetric(kernel=Plain()).fit(X, y), tmp_path / "model")


@pytest.mark.parametrize("kernel", ["messages-squares", Squares()])
def test_a_file_with_a_kernel_that_is_not_registered(kernel, tmp_path):
    outmetric.save(LearnedKernelMetric(kernel=kernel).fit(X, y), tmp_path / "model")
    code = "import sys, outmetric; outmetric.load(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "model"], capture_output=True, text=True, check=False)
    last = done.stderr.strip().splitlines()[-1]
    assert "ModelFileError" in last
    assert "messages-squares" in last
    assert not last.endswith("..")
    if isinstance(kernel, str):
        assert "import the module that registers it (kernels.register) before, also before loading a model of it." in last
    else:
        assert "import the package that registers it, by outmetric.kernels.register(name, cls)." in last


@dataclass(frozen=True, eq=False)
class Misshapen(kernels.ScalarKernel):
    """Somebody's mistake."""

    name = "misshapen"
    takes = "arrays"

    def values(self, X: Any, Z: Any) -> Any:
        return X @ X.T if len(X) != len(Z) else np.ones(len(X))


def test_a_kernel_that_returns_another_shape():
    with pytest.raises(
        ValueError, match=r"'misshapen' returned an array of shape \(150,\) for 150 and 150 points; expected: \(150, 150\)"
    ):
        LearnedKernelMetric(kernel=Misshapen()).fit(X, y)
    with pytest.raises(ValueError, match=r"returned an array of shape \(3, 3\) for 3 and 5 points; expected: \(3, 5\)"):
        Misshapen().cross(X[:3], X[:5])


def test_a_number_of_landmarks():
    with pytest.raises(ValueError, match=r"landmarks=50 is a number, .*; for 50 landmarks give n_landmarks=50\."):
        LearnedKernelMetric(landmarks=50).fit(X, y)


# Columns that say nothing


def table(frame, **columns):
    rng = np.random.default_rng(0)
    return frame({"size": rng.normal(size=40).tolist(), **columns})


NUMBERING = {"from 1": range(1, 41), "from 1000, in another order": np.random.default_rng(1).permutation(40) + 1000}


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("case", NUMBERING)
@pytest.mark.parametrize("model", [MetricClassifier(**QUICK), MetricRegressor(**QUICK)])
def test_a_column_that_numbers_the_rows_is_told(kind, case, model):
    numbers = [int(number) for number in NUMBERING[case]]
    told = f"column 'id' holds every whole number from {min(numbers)} to {max(numbers)} once, and probably numbers the rows"
    frame = table(kind, id=numbers)
    with pytest.warns(UserWarning, match=told) as caught:
        model.fit(frame, np.arange(40) % 2)
    assert told_at(caught) == [__file__]
    model.predict(frame)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize(
    "numbers",
    [[*range(39), 38], [*range(39), 40], [float(k) / 2 for k in range(40)], [k // 2 for k in range(40)]],
    ids=["twice", "a gap", "no whole numbers", "years"],
)
def test_other_numbers_are_no_numbering(kind, numbers):
    MetricClassifier(**QUICK).fit(table(kind, number=numbers), np.arange(40) % 2)


def test_few_rows_may_be_consecutive():
    frame = table(pandas.DataFrame, number=range(40))
    MetricClassifier(**QUICK).fit(frame[:19], np.arange(19) % 2)
    with pytest.warns(UserWarning, match="numbers the rows"):
        MetricClassifier(**QUICK).fit(frame[:20], np.arange(20) % 2)


@pytest.mark.parametrize("values", [np.full(40, np.nan), [None] * 40, pandas.Series([pandas.NaT] * 40)], ids=["NaN", "None", "NaT"])
def test_a_column_without_any_value_is_told(values):
    with pytest.warns(UserWarning, match="column 'empty' has no value in any row, so it says nothing") as caught:
        MetricClassifier(**QUICK).fit(table(pandas.DataFrame, empty=values), np.arange(40) % 2)
    assert told_at(caught) == [__file__]


def test_warnings_of_a_script_point_at_its_line(tmp_path):
    """With one function less than a test has above it, a fixed number of steps up ended outside of everything."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, pandas as pd\n"
        "from outmetric import MetricClassifier\n"
        "frame = pd.DataFrame({'a': np.sin(np.arange(40.0) ** 2), 'text': [f'row {k}' for k in range(40)]})\n"
        "MetricClassifier(time_budget=0.1).fit(frame, np.arange(40) % 2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert f"{script}:4: UserWarning: column 'text' has 40 different texts" in done.stderr


@pytest.fixture
def numbered(tmp_path):
    frame = table(pandas.DataFrame, id=range(1, 41), empty=[None] * 40, kind=["a", "b"] * 20)
    frame.to_csv(tmp_path / "table.csv", index=False)
    return tmp_path / "table.csv"


COMMANDS = {
    "fit": (["--time-budget", "0.1", "-o", "made.model"], True),
    "map": (["-o", "made.png"], True),
    "evaluate": (["--time-budget", "0.1", "--folds", "2"], False),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_tells_of_both(numbered, command, monkeypatch):
    monkeypatch.chdir(numbered.parent)
    options, has_id = COMMANDS[command]
    done = CliRunner().invoke(cli.app, [command, str(numbered), "--target", "kind", *options])
    assert done.exit_code == 0, done.stderr
    numbers = (
        "column 'id' holds every whole number from 1 to 40 once, and probably numbers the rows: a model learns their order from it"
    )
    way = "--id 'id' or " if has_id else ""
    assert f"warning: {numbers}. Say {way}--leave-out 'id'.\n" in done.stderr
    assert "warning: column 'empty' has no value in any row, so it says nothing. Say --leave-out 'empty'.\n" in done.stderr


def test_the_command_does_not_tell_of_what_is_left_out(numbered, monkeypatch):
    monkeypatch.chdir(numbered.parent)
    arguments = ["fit", str(numbered), "--target", "kind", "--time-budget", "0.1", "-o", "made.model", "--leave-out", "empty"]
    done = CliRunner().invoke(cli.app, [*arguments, "--id", "id"])
    assert done.exit_code == 0, done.stderr
    assert "warning" not in done.stderr


# What is not there, or something else


def test_a_folder_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = LearnedKernelMetric().fit(X, y)
    with pytest.raises(FileNotFoundError, match=r"^there is no folder nix to write m\.model to; choose an existing folder\.$"):
        outmetric.save(model, os.path.join("nix", "m.model"))


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "b", "c"], ["a", "b", "b"]])
def test_a_map_of_too_small_classes(labels):
    shown = MetricMap(LearnedKernelMetric())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            ValueError, match=r"at least two classes with at least two rows each are needed, .*; [01] of the [23] that came"
        ):
            shown.fit(X[: len(labels)], labels)


@pytest.mark.parametrize("draw", [plots.map_picture, lambda model: plots.map_page(model, X)], ids=["picture", "page"])
def test_what_is_no_map_is_not_drawn_as_one(draw):
    model = MetricClassifier(**QUICK).fit(X, y)
    with pytest.raises(
        TypeError, match=r"a fitted MetricMap is drawn here, and a MetricClassifier came\. MetricMap\(MetricClassifier"
    ):
        draw(model)


def test_predictions_have_no_reasons(tmp_path):
    wine = load_wine(as_frame=True).frame
    wine.to_csv(tmp_path / "wine.csv", index=False)
    done = CliRunner().invoke(cli.app, ["predict", str(tmp_path / "wine.model"), str(tmp_path / "wine.csv"), "--explain"])
    assert done.exit_code == 2
    assert "No such option --explain: reasons are of pairs of rows; see `outmetric neighbors --explain`." in done.stderr
    assert "--explain" not in CliRunner().invoke(cli.app, ["predict", "--help"]).stdout


def test_loading_says_it_once(tmp_path):
    (tmp_path / "model").write_bytes(b"nothing")
    with pytest.raises(ModelFileError) as caught:
        outmetric.load(tmp_path / "model")
    assert not str(caught.value).endswith("..")
