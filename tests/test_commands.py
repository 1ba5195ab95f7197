"""Do the commands do on people's own tables what they say, and end well when that cannot be done?"""

import csv
import io
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import replace

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

import outmetric
from outmetric import MetricClassifier, cli, tables
from outmetric.automatic import comparison
from outmetric.columns import Columns
from outmetric.columns.encoding import table_encoder
from outmetric.foundation import progress
from outmetric.paper.protocol import METHODS
from outmetric.tables import fitting
from outmetric.tables.kept import check_kept

mpl.use("Agg")

ROWS = 90


def cars():
    """A table with numbers, categories, gaps and names."""
    rng = np.random.default_rng(0)
    kind = np.arange(ROWS) % 3
    frame = pd.DataFrame(
        {
            "name": [f"car {number}" for number in range(ROWS)],
            "weight": 3300 - 500 * kind + rng.normal(0, 200, ROWS),
            "power": 130 - 20 * kind + rng.normal(0, 15, ROWS),
            "fuel": rng.choice(["petrol", "diesel"], ROWS),
            "origin": np.array(["usa", "europe", "japan"])[kind],
        }
    )
    frame.loc[::17, "power"] = np.nan
    frame.loc[::23, "fuel"] = None
    return frame


def run(*arguments, text=None):
    """The command's (exit code, stdout, stderr)."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=text)
    trouble = result.exception
    assert trouble is None or isinstance(trouble, SystemExit), repr(trouble)
    return result.exit_code, result.stdout, result.stderr


def done(*arguments, text=None):
    """The stdout of a command that must succeed."""
    code, output, talk = run(*arguments, text=text)
    assert code == 0, talk
    return output


def rows_of(output):
    return list(csv.DictReader(io.StringIO(output)))


@pytest.fixture(scope="module", autouse=True)
def hasty_clock():
    """One by which every budget is over at once, so that models do not depend on the machine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(progress, "clock", itertools.count().__next__)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables and a model of one of them."""
    place = tmp_path_factory.mktemp("cars")
    cars().to_csv(place / "cars.csv", index=False)
    cars()[:7].drop(columns="origin").to_csv(place / "new.csv", index=False)
    arguments = ("--id", "name", "--time-budget", 0.1)
    done("fit", place / "cars.csv", "--target", "origin", "-o", place / "cars.model", *arguments)
    return place


@pytest.fixture(scope="module")
def model(folder):
    return outmetric.load(folder / "cars.model")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_the_model_is_the_one_of_the_library(model):
    expected = MetricClassifier(time_budget=0.1, random_state=0)
    X = cars().drop(columns=["name", "origin"])
    X["fuel"] = X["fuel"].astype(object).where(X["fuel"].notna(), np.nan)
    np.testing.assert_array_equal(model.predict_proba(cars()), expected.fit(X, cars()["origin"]).predict_proba(X))
    assert model.columns.features == ("weight", "power", "fuel")
    assert model.columns.kinds == ("number", "number", "category")


def test_predict(folder, model):
    found = rows_of(done("predict", folder / "cars.model", folder / "new.csv"))
    new = cars()[:7]  # not read by pandas, which in version 2 is off by the last bit of decimals
    assert [row["name"] for row in found] == new["name"].tolist()
    assert [row["prediction"] for row in found] == model.predict(new).tolist()
    shares = [[float(row[f"probability of {name}"]) for name in model.classes] for row in found]
    np.testing.assert_array_equal(shares, model.predict_proba(new))


def test_predict_computes_once(folder, monkeypatch):
    calls = []
    compute = MetricClassifier.predict_proba
    monkeypatch.setattr(MetricClassifier, "predict_proba", lambda *given: calls.append(len(given[1])) or compute(*given))
    done("predict", folder / "cars.model", folder / "new.csv")
    assert [rows for rows in calls if rows > 1] == [7]  # a single row is tried when the model is loaded


@pytest.mark.parametrize("kind", ["auto", "fixed", "learned"])
def test_classes_are_those_of_the_probabilities_also_in_ties(kind):
    # Few distinct rows of shuffled classes: votes tie.
    frame = pd.DataFrame({"x": np.arange(60) % 4, "kind": np.random.default_rng(0).permutation(60) % 3})
    fitted = tables.fit_table(frame, tables.check_columns(frame, "kind"), kind=kind, time_budget=0.1).model
    labels, probabilities = fitted.classify(frame)
    np.testing.assert_array_equal(labels, fitted.predict(frame))
    np.testing.assert_array_equal(probabilities, fitted.predict_proba(frame))


def test_transform(folder, model, tmp_path):
    done("transform", folder / "cars.model", folder / "new.csv", "-o", tmp_path / "coordinates.parquet")
    found = pd.read_parquet(tmp_path / "coordinates.parquet")
    # Not read by pandas, which in version 2 is off by the last bit of decimals.
    np.testing.assert_array_equal(found[["x1", "x2"]], model.transform(cars()[:7]))
    records = json.loads(done("transform", folder / "cars.model", folder / "new.csv", "--json"))
    assert records == found.to_dict("records")


def test_columns_may_come_in_any_order_and_with_others(folder, model):
    new = pd.read_csv(folder / "new.csv")
    text = new[["fuel", "name", "weight", "power"]].assign(more=1).to_csv(index=False)
    found = rows_of(done("transform", folder / "cars.model", "-", text=text))
    np.testing.assert_array_equal([float(row["x1"]) for row in found], model.transform(new)[:, 0])


def test_categories_that_look_like_numbers_stay_as_they_are_written(tmp_path):
    rows = [f"{('007', 'x7')[k % 2]},{k % 5},{'ab'[k % 2]}" for k in range(20)]
    (tmp_path / "table.csv").write_text("\n".join(["code,x,kind", *rows]))
    done("fit", tmp_path / "table.csv", "-t", "kind", "-o", tmp_path / "a", "--model", "learned")
    predicted = rows_of(done("predict", tmp_path / "a", "-", text="code,x\n007,1\n007,2\n"))
    assert [row["prediction"] for row in predicted] == ["a", "a"]
    expected = outmetric.load(tmp_path / "a").predict_proba(pd.DataFrame({"code": ["007"], "x": [1]}))
    assert float(predicted[0]["probability of a"]) == expected[0, 0]
    number = outmetric.load(tmp_path / "a").predict_proba(pd.DataFrame({"code": [7], "x": [1]}))
    assert float(predicted[0]["probability of a"]) > number[0, 0]  # an unknown category


def test_neighbors_are_the_nearest_rows_of_the_table(folder, model):
    found = rows_of(done("neighbors", folder / "cars.model", folder / "new.csv", "-k", 3))
    places, new = model.transform(cars()), model.transform(pd.read_csv(folder / "new.csv"))
    distances = np.linalg.norm(new[:, None] - places[None], axis=2)
    np.testing.assert_allclose([float(row["distance"]) for row in found], np.sort(distances)[:, :3].ravel(), atol=1e-12)
    for row in found:
        number = cars()["name"].tolist().index(row["neighbor"])
        query = cars()["name"].tolist().index(row["name"])
        assert float(row["distance"]) == pytest.approx(distances[query, number], abs=1e-12)
        assert row["origin"] == cars()["origin"][number]
    assert [row["rank"] for row in found[:3]] == ["1", "2", "3"]


def test_neighbors_are_explained_in_words(folder, model):
    found = rows_of(done("neighbors", folder / "cars.model", folder / "new.csv", "-k", 3, "--explain"))
    plain = rows_of(done("neighbors", folder / "cars.model", folder / "new.csv", "-k", 3))
    assert [{name: value for name, value in row.items() if name != "reasons"} for row in found] == plain
    known, new = cars().set_index("name"), pd.read_csv(folder / "new.csv").set_index("name")
    told = 0
    for row in found:
        reasons = row["reasons"].split("; ") if row["reasons"] else []
        assert len(reasons) <= 3
        for reason in reasons:
            name, _, words = reason.partition(" ")
            one, other = (frame.loc[row[which], name] for frame, which in ((new, "name"), (known, "neighbor")))
            texts = [value if isinstance(value, str) else "missing" if pd.isna(value) else f"{value:.4g}" for value in (one, other)]
            assert words == (f"{texts[0]} in both" if texts[0] == texts[1] else " beside ".join(texts))
            told += 1
    assert told >= len(found)
    # The row itself, which is its own nearest neighbour, has all that tells it from others.
    assert "in both" in found[0]["reasons"]
    assert " beside " not in found[0]["reasons"]


def test_a_model_that_does_not_know_its_rows_gives_no_reasons(folder, model, tmp_path):
    outmetric.save(replace(model, table=None), tmp_path / "model")
    code, _, talk = run("neighbors", tmp_path / "model", folder / "new.csv", "--explain")
    assert (code, "earlier version" in talk, "Fit it again" in talk) == (2, True, True)
    assert run("neighbors", tmp_path / "model", folder / "new.csv")[0] == 0


@pytest.mark.parametrize(
    "table",
    [
        {"weight": np.zeros(3)},
        {"weight": np.zeros(2), "power": np.zeros(2), "fuel": np.array(["a", None], dtype=object)},
        {"weight": np.zeros(3), "power": np.zeros(3), "fuel": np.zeros(3)},
        {"weight": np.zeros(3), "power": np.zeros(3), "fuel": np.array(["a", 1, None], dtype=object)},
    ],
    ids=["columns", "rows", "kind", "texts"],
)
def test_rows_in_a_file_must_be_those_of_the_model(table):
    columns = Columns(("weight", "power", "fuel"), ("number", "number", "category"))
    with pytest.raises(ValueError, match="a model of a table"):
        check_kept(table, columns, 3)


def test_distances_between_rows_and_tables(folder, model):
    places, new = model.transform(cars()), model.transform(pd.read_csv(folder / "new.csv"))
    (one,) = json.loads(done("distance", folder / "cars.model", "car 3", "car 8", "--json"))
    assert one["distance"] == pytest.approx(np.linalg.norm(places[3] - places[8]))
    found = rows_of(done("distance", folder / "cars.model", folder / "new.csv", "car 8"))
    np.testing.assert_allclose([float(row["distance"]) for row in found], np.linalg.norm(new - places[8], axis=1))
    assert [row["b"] for row in found] == ["car 8"] * 7
    found = rows_of(done("distance", folder / "cars.model", folder / "new.csv", folder / "new.csv"))
    assert {float(row["distance"]) for row in found} == {0.0}


def test_identifiers_stay_as_they_are_written(tmp_path):
    rows = [f"{k:04d},{k % 7},{'ab'[k % 2]}" for k in range(20)]
    (tmp_path / "table.csv").write_text("\n".join(["code,x,kind", *rows]))
    done("fit", tmp_path / "table.csv", "-t", "kind", "-o", tmp_path / "a", "--id", "code", "--model", "learned")
    found = rows_of(done("predict", tmp_path / "a", tmp_path / "table.csv"))
    assert [row["code"] for row in found[:2]] == ["0000", "0001"]
    assert rows_of(done("distance", tmp_path / "a", "0000", "0003"))[0]["a"] == "0000"


def test_missing_identifiers(folder):
    text = "name,weight,power,fuel\n,3000,100,petrol\ncar x,3000,100,diesel\n"
    records = json.loads(done("predict", folder / "cars.model", "-", "--json", text=text))
    assert [record["name"] for record in records] == ["", "car x"]


def test_columns_of_the_result_do_not_hide_each_other(tmp_path):
    frame = cars().rename(columns={"origin": "distance", "name": "prediction"})
    frame.to_csv(tmp_path / "cars.csv", index=False)
    done("fit", tmp_path / "cars.csv", "-t", "distance", "-o", tmp_path / "a", "--id", "prediction", "--model", "learned")
    found = rows_of(done("neighbors", tmp_path / "a", tmp_path / "cars.csv", "-k", 1))
    assert float(found[0]["distance"]) == 0
    assert found[0]["distance2"] == "usa"
    found = rows_of(done("predict", tmp_path / "a", tmp_path / "cars.csv"))
    assert found[0]["prediction"] == "car 0"
    assert found[0]["prediction2"] == "usa"


def test_whole_numbers_can_be_real_targets(folder, tmp_path):
    frame = cars().round({"weight": 0}).astype({"weight": int})
    frame.to_csv(tmp_path / "cars.csv", index=False)
    done("fit", tmp_path / "cars.csv", "-t", "weight", "-o", tmp_path / "a", "--leave-out", " name", "--real")
    predicted = [float(row["prediction"]) for row in rows_of(done("predict", tmp_path / "a", tmp_path / "cars.csv"))]
    assert np.corrcoef(predicted, frame["weight"])[0, 1] > 0.8
    code, _, talk = run("fit", tmp_path / "cars.csv", "-t", "origin", "-o", tmp_path / "b", "--leave-out", "name", "--real")
    assert (code, "holds no numbers" in talk) == (2, True)


def test_names_cannot_do_anything_to_a_terminal(tmp_path):
    frame = cars().rename(columns={"weight": "mass [kg]", "power": "x[/b]", "fuel": "a\x1b[31mred"})
    frame.to_csv(tmp_path / "cars.csv", index=False)
    done("fit", tmp_path / "cars.csv", "-t", "origin", "-o", tmp_path / "a", "--id", "name", "--model", "learned")
    text = done("inspect", tmp_path / "a")
    assert "mass [kg]" in text
    assert "x[/b]" in text
    assert "\x1b[31m" not in text


def test_nothing_that_is_read_is_overwritten(folder, tmp_path):
    before = (folder / "cars.csv").read_bytes()
    for arguments in (
        ("fit", folder / "cars.csv", "-t", "origin", "--leave-out", "name", "-o", folder / "cars.csv"),
        ("predict", folder / "cars.model", folder / "cars.csv", "-o", folder / "cars.csv"),
        ("fit", folder / "cars.csv", "-t", "origin", "--leave-out", "name", "-o", "-"),
        ("fit", folder / "cars.csv", "-t", "origin", "--leave-out", "name", "-o", "/dev/null"),
        ("predict", folder / "cars.model", folder / "new.csv", "-o", tmp_path / "a.csv", "--json"),
    ):
        code, _, talk = run(*arguments)
        assert code == 2
        assert talk.startswith("error: ")
    assert (folder / "cars.csv").read_bytes() == before
    assert not os.listdir(tmp_path)


def test_no_input_is_overwritten_under_any_name(folder, tmp_path):
    """Models and tables, by their own name, by a link, or through standard input."""
    (tmp_path / "m.csv").write_bytes((folder / "cars.model").read_bytes())
    (tmp_path / "new.csv").write_bytes((folder / "new.csv").read_bytes())
    (tmp_path / "link.csv").symlink_to("m.csv")
    os.link(tmp_path / "m.csv", tmp_path / "hard.onnx")
    os.link(tmp_path / "new.csv", tmp_path / "table.png")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments in (
        ("predict", tmp_path / "m.csv", tmp_path / "new.csv", "-o", tmp_path / "m.csv"),
        ("predict", tmp_path / "m.csv", tmp_path / "new.csv", "-o", tmp_path / "link.csv"),
        ("transform", tmp_path / "m.csv", tmp_path / "new.csv", "-o", tmp_path / "m.csv"),
        ("neighbors", tmp_path / "m.csv", tmp_path / "new.csv", "-o", tmp_path / "m.csv"),
        ("distance", tmp_path / "m.csv", "car 1", "car 2", "-o", tmp_path / "m.csv"),
        ("distance", tmp_path / "m.csv", "car 1", tmp_path / "new.csv", "-o", tmp_path / "new.csv"),
        ("export", tmp_path / "m.csv", "-o", tmp_path / "hard.onnx"),
        ("embed", tmp_path / "new.csv", "-t", "fuel", "--leave-out", "name", "-o", tmp_path / "new.csv"),
        ("evaluate", tmp_path / "new.csv", "-t", "fuel", "--picture", tmp_path / "table.png"),
    ):
        code, _, talk = run(*arguments)
        assert (code, "is what is read; give another name" in talk) == (2, True), (arguments, talk)
    command = f"predict '{tmp_path}/m.csv' - -o '{tmp_path}/new.csv' < '{tmp_path}/new.csv'"
    shell = f"'{sys.executable}' -c 'from outmetric.cli import main; main()' {command}"
    found = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (found.returncode, "is what is read" in found.stderr) == (2, True), found.stderr
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_disk_that_is_full(folder, tmp_path):
    arguments = f"fit '{folder}/cars.csv' -t origin --leave-out name -o '{tmp_path}/model' --model learned"
    command = f"ulimit -f 4; '{sys.executable}' -c 'from outmetric.cli import main; main()' {arguments}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert found.returncode == 2, found.stderr
    assert "cannot be written" in found.stderr
    assert not os.listdir(tmp_path)


def test_distances_that_do_not_make_pairs(folder):
    code, _, talk = run("distance", folder / "cars.model", folder / "new.csv", folder / "cars.csv")
    assert (code, "7 rows and" in talk, "has 90" in talk) == (2, True, True)
    code, _, talk = run("distance", folder / "cars.model", "car 3", "nothing")
    assert (code, "'nothing' is neither a file nor the name of a row" in talk) == (2, True)


def test_the_model_in_python(model):
    assert len(repr(model)) < 200
    assert "cross-validated log-likelihood per row" in model.summary()
    assert "duality gap" in model.summary()


def test_inspect(folder):
    facts = json.loads(done("inspect", folder / "cars.model", "--json"))
    assert facts["classes"] == {"europe": 30, "japan": 30, "usa": 30}
    assert facts["features"] == {"weight": "number", "power": "number", "fuel": "category"}
    assert facts["bytes"] == (folder / "cars.model").stat().st_size
    text = done("inspect", folder / "cars.model")
    assert "europe (30)" in text
    assert "maps vote" in text
    assert "left out" in text


# How many maps there is time for depends on the machine.
CHOSEN = r"(a map learned by LearnedKernelMetric|\d+ learned maps, averaged)"


@pytest.mark.parametrize(
    ("n_measures", "kind", "arguments"),
    [
        (2, f"classes, by distances and votes in {CHOSEN}", ("-t", "origin")),
        (
            2,
            "classes, by votes of nearest neighbours in a map learned by LearnedKernelMetric",
            ("-t", "origin", "--model", "learned"),
        ),
        (
            2,
            "nearest neighbours in a map learned by LearnedKernelMetric",
            ("-t", "origin", "--model", "learned", "--set", "n_landmarks=20"),
        ),
        (1, f"numbers in {CHOSEN}", ("-t", "weight", "--leave-out", "origin")),
    ],
)
def test_novelty_kind_and_scores_are_told(folder, tmp_path, n_measures, kind, arguments):
    done("fit", folder / "cars.csv", "-o", tmp_path / "model", "--id", "name", "--time-budget", 0.1, *arguments)
    new = cars()[:4].assign(power=[100.0, 120.0, 1e6, 110.0])
    new.to_csv(tmp_path / "new.csv", index=False)
    code, output, talk = run("predict", tmp_path / "model", tmp_path / "new.csv")
    assert code == 0
    found = [float(row["novelty"]) for row in rows_of(output)]
    assert found[2] == 1
    assert max(found[0], found[1], found[3]) < 1
    assert talk.strip().endswith("do not rely on it: name car 2.")
    code, _, talk = run("neighbors", tmp_path / "model", tmp_path / "new.csv", "-k", 2)
    assert code == 0
    assert talk.strip().endswith("do not rely on it: name car 2.")
    loaded = outmetric.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.novelty(pd.read_csv(tmp_path / "new.csv")), found)
    facts = json.loads(done("inspect", tmp_path / "model", "--json"))
    assert re.search(kind, facts["kind"])
    shown = done("inspect", tmp_path / "model")
    measures = {"cross-validated accuracy", "cross-validated log-likelihood per row", "cross-validated R2"} & set(facts)
    assert len(measures) == n_measures
    assert all(measure in shown for measure in measures)


def test_a_model_that_does_not_know_novelty_says_so(folder, model, tmp_path):
    forgetful = clone(model.estimator).fit(cars()[["weight", "power", "fuel"]], cars()["origin"])
    forgetful.novelty_ = None
    outmetric.save(replace(model, estimator=forgetful, mapping=forgetful), tmp_path / "model")
    code, output, talk = run("predict", tmp_path / "model", folder / "new.csv")
    assert code == 0
    assert "novelty" not in rows_of(output)[0]
    assert "earlier version" in talk


def test_export(folder, model, tmp_path):
    done("export", folder / "cars.model", "-o", tmp_path / "cars.onnx")
    new = pd.read_csv(folder / "new.csv")
    session = onnxruntime.InferenceSession(tmp_path / "cars.onnx")
    feeds = {name: new[[name]].to_numpy(np.float64) for name in ("weight", "power")}
    feeds["fuel"] = new[["fuel"]].astype(object).fillna("").to_numpy()
    label, shares = session.run(None, feeds)
    assert label.tolist() == model.predict(new).tolist()
    np.testing.assert_allclose(shares, model.predict_proba(new), atol=1e-6)


def test_settings_are_used(folder, tmp_path):
    settings = ("--set", "bandwidth=0.5*median", "--set", "regression_weight=7", "--set", "n_components=1", "--seed", 5)
    done("fit", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "a", "--leave-out", "name", "--model", "learned", *settings)
    search = outmetric.load(tmp_path / "a").estimator
    metric = search.best_estimator_[-1]
    assert isinstance(metric, outmetric.LearnedKernelMetric)
    assert (metric.bandwidth, metric.regression_weight, metric.n_components, metric.random_state) == ("0.5*median", 7, 1, 5)
    assert len({str(params) for params in search.cv_results_["params"]}) == 6  # numbers of neighbours only
    done("fit", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "b", "--leave-out", "name", "--model", "fixed")
    assert isinstance(outmetric.load(tmp_path / "b").estimator.best_estimator_[-1], outmetric.FixedKernelMetric)


def test_tuning_leaves_what_is_set_alone(folder, tmp_path):
    arguments = ("--leave-out", "name", "--model", "learned", "--tune", "--set", "regression_weight=7", "--json")
    facts = json.loads(done("fit", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "a", *arguments))
    search = outmetric.load(tmp_path / "a").estimator
    assert set(search.best_params_) == {"metric__bandwidth", "metric__collocation_weight", "n_neighbors"}
    assert search.best_estimator_[-1].regression_weight == 7
    assert facts["cross-validated log-likelihood per row"] == search.best_score_


def test_real_targets(folder, tmp_path):
    done("fit", folder / "cars.csv", "-t", "weight", "-o", tmp_path / "a", "--leave-out", "name")
    predicted = np.array([float(row["prediction"]) for row in rows_of(done("predict", tmp_path / "a", folder / "cars.csv"))])
    assert np.corrcoef(predicted, cars()["weight"])[0, 1] > 0.8
    assert rows_of(done("neighbors", tmp_path / "a", folder / "cars.csv", "-k", 1))[0]["weight"] == str(cars()["weight"][0])
    assert 0.5 < json.loads(done("inspect", tmp_path / "a", "--json"))["cross-validated R2"] < 1
    assert "LearnedKernelMetric" in done("inspect", tmp_path / "a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "bandwith=1", "--model", "learned"), "has no setting 'bandwith'"),
        (("--set", "bandwidth", "--model", "learned"), "must be NAME=VALUE"),
        (("--set", "bandwidth=-1", "--model", "learned"), "bandwidth must be a positive number"),
        (("--set", "bandwidth=1"), "chooses all settings itself"),
        (("--tune",), "chooses all settings itself"),
        (("--set", "prototypes=5", "--model", "learned"), "error: "),
        (("--set", "kernel=poly", "--set", 'kernel_params={"degre": 3}', "--model", "learned"), "a value of --set does not suit"),
    ],
)
def test_settings_that_cannot_be(folder, tmp_path, arguments, message):
    code, output, talk = run("fit", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "a", "--leave-out", "name", *arguments)
    assert (code, output) == (2, "")
    assert message in talk
    assert not os.listdir(tmp_path)


@pytest.mark.slow
def test_evaluate_agrees_with_scikit_learn(folder, tmp_path, monkeypatch):
    assert [METHODS[name].label for name in comparison.RIVALS] == ["Euclidean k-NN", "NCA", "RBF-SVM", "random forest"]
    monkeypatch.setattr(comparison, "RIVALS", {"knn": comparison.RIVALS["knn"]})  # the others take longer
    arguments = ("--leave-out", "name", "--time-budget", 0.1, "--folds", 3, "--repeats", 2, "--seed", 1)
    picture = tmp_path / "accuracy.png"
    found = json.loads(done("evaluate", folder / "cars.csv", "-t", "origin", *arguments, "--json", "--picture", picture))
    by_name = {record["method"]: record for record in found}
    assert list(by_name) == ["MetricClassifier", "Euclidean k-NN", "gradient boosting"]
    X, y = cars().drop(columns=["name", "origin"]), cars()["origin"].to_numpy()
    X["fuel"] = X["fuel"].astype(object).where(X["fuel"].notna(), np.nan)
    inner = comparison.StratifiedKFold(5, shuffle=True, random_state=1)
    method = make_pipeline(table_encoder(X), METHODS["knn"].build(3, inner, 1))
    right = np.zeros((2, ROWS))
    splits = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=1).split(X, y)
    for number, (train, test) in enumerate(splits):
        right[number // 3, test] = clone(method).fit(X.iloc[train], y[train]).predict(X.iloc[test]) == y[test]
    assert by_name["Euclidean k-NN"]["accuracy"] == pytest.approx(100 * right.mean())
    expected = 1.987 * 100 * right.mean(axis=0).std(ddof=1) / np.sqrt(ROWS)
    assert by_name["Euclidean k-NN"]["interval"] == pytest.approx(expected, rel=1e-3)
    assert by_name["MetricClassifier"]["lead"] == 0
    assert plt.imread(picture).shape[2] == 4


def test_evaluate_prints_a_table(folder, monkeypatch):
    def compared(X, y, **settings):
        return comparison.Comparison(
            {"MetricClassifier": np.array([100.0, 0, 100]), "NCA": np.array([0.0, 0, 100])}, {"NCA": 2, "MetricClassifier": 1}
        )

    monkeypatch.setattr("outmetric.automatic.compare", compared)
    text = done("evaluate", folder / "cars.csv", "-t", "origin", "--leave-out", "name")
    assert "66.7" in text
    assert "+33.3" in text


@pytest.mark.parametrize("arguments", [("--components", 3), ("--hold-out", 0.3)])
def test_maps_as_pictures(folder, tmp_path, arguments):
    code, output, talk = run("map", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "map.png", "--id", "name", *arguments)
    assert (code, output) == (0, "")
    assert plt.imread(tmp_path / "map.png").shape[2] == 4
    assert ("of 27 held-out rows" in talk) == ("--hold-out" in arguments)


def test_many_rows_are_learned_with_landmarks(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "EXACT_SEARCHED", 60)
    monkeypatch.setattr(fitting, "LANDMARKS", 20)
    cars().to_csv(tmp_path / "cars.csv", index=False)
    done("fit", tmp_path / "cars.csv", "-t", "origin", "-o", tmp_path / "a", "--leave-out", "name", "--model", "learned")
    assert outmetric.load(tmp_path / "a").estimator.best_estimator_[-1].n_landmarks_ == 20


def test_a_map_of_two_classes_and_of_real_targets(folder, tmp_path):
    two = cars()[cars()["origin"] != "usa"]
    two.to_csv(tmp_path / "two.csv", index=False)
    done("map", tmp_path / "two.csv", "-t", "origin", "-o", tmp_path / "a.png", "--id", "name")
    done("map", tmp_path / "two.csv", "-t", "weight", "-o", tmp_path / "b.png", "--leave-out", "name")
    done("map", tmp_path / "two.csv", "-t", "weight", "-o", tmp_path / "c.html", "--leave-out", "name")
    assert (tmp_path / "c.html").stat().st_size > 1e6


def test_an_interactive_map(folder, tmp_path, monkeypatch):
    given = {}

    class Page:
        def write(self, path):
            path.write_text("page")

    def drawn(found, X, labels, *, table, ids, title):
        given.update(found=found, labels=labels, table=table, ids=list(ids), title=title, X=X)
        return Page()

    monkeypatch.setattr("outmetric.maps.map_page", drawn)
    arguments = ("--id", "name", "--hold-out", 0.5, "--leave-out", "power")
    done("map", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "map.html", *arguments)
    found = given["found"]
    assert found.embedding_.shape == (ROWS, 2)
    assert given["labels"].name == "origin"
    assert given["labels"].tolist() == cars()["origin"].tolist()
    assert given["ids"] == cars()["name"].tolist()
    assert list(given["table"].columns) == ["weight", "fuel", "held out"]  # what is left out is not shown either
    assert given["table"]["held out"].sum() == ROWS // 2
    np.testing.assert_array_equal(found.labelled_, ~given["table"]["held out"])
    done("map", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "map.html", "--leave-out", "name,power")
    assert given["ids"] == list(range(1, ROWS + 1))  # as for all commands
    np.testing.assert_allclose(found.model_.transform(given["X"])[~found.labelled_], found.coordinates_[~found.labelled_])


def test_a_map_with_its_control(folder, tmp_path):
    arguments = ("map", folder / "cars.csv", "-t", "origin", "--leave-out", "name", "--control")
    code, _, talk = run(*arguments, "-o", tmp_path / "map.png")
    assert code == 0
    assert "of rows named right by 5 neighbours, out of fold" in talk
    assert "with permuted labels: " in talk
    wide = plt.imread(tmp_path / "map.png").shape
    assert wide[1] > 1.5 * wide[0]
    done(*arguments, "-o", tmp_path / "map.html")
    assert "labels permuted" in (tmp_path / "map-control.html").read_text()


def test_a_map_of_a_model(folder, tmp_path, monkeypatch):
    maps = []
    plain = outmetric.maps.map_page
    monkeypatch.setattr("outmetric.maps.map_page", lambda *args, **kwargs: maps.append(args) or plain(*args, **kwargs))
    done("map", folder / "cars.model", "-o", tmp_path / "map.html")
    (found, X, labels), model = maps[0], outmetric.load(folder / "cars.model")
    assert labels.tolist() == cars()["origin"].tolist()
    assert list(X.columns) == ["weight", "power", "fuel"]
    np.testing.assert_allclose(found.model_.transform(X), model.transform(cars()), atol=1e-6)  # its settings, not searched again
    code, _, talk = run("map", folder / "cars.model", "-t", "origin", "-o", tmp_path / "map.html")
    assert code == 2
    assert "a model knows its target" in talk
    code, _, talk = run("map", folder / "cars.csv", "-o", tmp_path / "map.html")
    assert code == 2
    assert "--target" in talk


def test_whole_numbers_can_be_real_targets_of_a_map(tmp_path):
    frame = cars().round({"weight": 0}).astype({"weight": int})[["weight", "power"]]
    frame.to_csv(tmp_path / "cars.csv", index=False)
    done("map", tmp_path / "cars.csv", "-t", "weight", "-o", tmp_path / "a.html", "--real")
    assert '"columns":[{"name":"weight","kind":"number"' in (tmp_path / "a.html").read_text()


NUMBERS = "".join(f"{number},{'ab'[number % 2]}\n" for number in range(40))
HOSTILE = {
    "wrong encoding": ("kind,wörd\na,1\nb,2\n".encode("latin-1"), "kind", "not UTF-8"),
    "missing target": (b"x,kind\n1,a\n2,b\n", "knid", "Perhaps 'kind'?"),
    "duplicate names": (b"x,x,kind\n1,2,a\n2,3,b\n", "kind", "'x'"),
    "no rows": (b"x,kind\n", "kind", "rows"),
    "nothing": (b"", "kind", "empty"),
    "one row": (b"x,kind\n1,a\n", "kind", "1 row"),
    "one class": (b"x,kind\n1,a\n2,a\n3,a\n", "kind", "one value only"),
    "text among numbers": (f"x,kind\n{NUMBERS}seven,a\n".encode(), "kind", "'seven' in row 41"),
    "target only": (b"kind\na\nb\n", "kind", "no columns to learn from"),
    "gaps in the target": (b"x,kind\n1,a\n2,\n3,b\n", "kind", "missing"),
    "a ragged row": (b"x,kind\n1,a\n2,b,c\n", "kind", "line 3"),
    "a binary file": (bytes(range(256)) * 20, "kind", "table.csv"),
    "a class of one": (b"x,kind\n1,a\n2,b\n3,b\n4,b\n", "kind", "the class a has one row only"),
}


@pytest.mark.parametrize("case", HOSTILE)
@pytest.mark.parametrize("command", ["fit", "evaluate", "map"])
def test_hostile_tables_end_in_a_clear_message(command, case, tmp_path):
    content, target, message = HOSTILE[case]
    (tmp_path / "table.csv").write_bytes(content)
    output = {"fit": ("-o", tmp_path / "out", "--model", "learned"), "evaluate": (), "map": ("-o", tmp_path / "out.png")}[command]
    code, printed, talk = run(command, tmp_path / "table.csv", "-t", target, *output)
    assert (code, printed) == (2, "")
    assert talk.startswith("error: ")
    assert message in talk
    assert "Traceback" not in talk
    assert os.listdir(tmp_path) == ["table.csv"]


def test_line_ends_of_all_kinds_and_within_quotes(tmp_path):
    ends = ["\n", "\r\n"]
    text = 'x,"long\nname",kind\r\n' + "".join(f'{k},"a\nb",{"uv"[k % 2]}' + ends[k % 2] for k in range(20))
    (tmp_path / "table.csv").write_bytes(text.encode())
    done("fit", tmp_path / "table.csv", "-t", "kind", "-o", tmp_path / "a", "--model", "learned")
    assert outmetric.load(tmp_path / "a").columns.features == ("x", "long\nname")
    assert len(rows_of(done("predict", tmp_path / "a", tmp_path / "table.csv"))) == 20


@pytest.mark.slow
def test_many_columns(tmp_path):
    rng = np.random.default_rng(0)
    names = ",".join(f"c{k}" for k in range(30_000))
    rows = [",".join(map(str, rng.integers(0, 9, 30_000))) + f",{'ab'[k % 2]}" for k in range(4)]
    (tmp_path / "wide.csv").write_text("\n".join([f"{names},kind", *rows]))
    done("fit", tmp_path / "wide.csv", "-t", "kind", "-o", tmp_path / "a", "--model", "learned")
    assert len(outmetric.load(tmp_path / "a").columns.features) == 30_000


def test_formulas_are_written_back_as_text(tmp_path):
    frame = cars()
    frame.loc[0, "name"] = "=cmd|' /C calc'!A0"
    frame["origin"] = "=" + frame["origin"]
    frame.to_csv(tmp_path / "cars.csv", index=False)
    done("fit", tmp_path / "cars.csv", "-t", "origin", "-o", tmp_path / "a", "--id", "name", "--model", "learned")
    first = rows_of(done("predict", tmp_path / "a", tmp_path / "cars.csv"))[0]
    assert first["name"] == "'=cmd|' /C calc'!A0"
    assert first["prediction"].startswith("'=")
    done("predict", tmp_path / "a", tmp_path / "cars.csv", "-o", tmp_path / "out.csv")
    assert "=cmd" not in (tmp_path / "out.csv").read_text().replace("'=cmd", "")


@pytest.mark.parametrize("output", ["nowhere/out.csv", "out.docx", "."])
def test_a_place_that_cannot_hold_the_output_is_refused_at_once(folder, output, tmp_path, monkeypatch):
    monkeypatch.setattr("outmetric.storage.load", None)  # is not reached
    code, _, talk = run("predict", folder / "cars.model", folder / "new.csv", "-o", tmp_path / output)
    assert code == 2
    assert talk.startswith("error: ")


def test_models_that_are_none(folder, tmp_path):
    (tmp_path / "a").write_bytes(b"\x80\x04something pickled")
    code, _, talk = run("predict", tmp_path / "a", folder / "new.csv")
    assert (code, "a pickle, which could run anything" in talk) == (2, True)
    outmetric.save(outmetric.LearnedKernelMetric(), tmp_path / "b")
    code, _, talk = run("inspect", tmp_path / "b")
    assert (code, "holds a LearnedKernelMetric without a table" in talk) == (2, True)
    assert run("inspect", tmp_path / "c")[0] == 2


def test_tables_that_lack_columns(folder):
    code, output, talk = run("predict", folder / "cars.model", "-", text="weight,fuel\n3000,petrol\n")
    assert (code, output) == (2, "")
    assert "'power'" in talk


REMEDIES = {
    "columns to leave out": ("x,id one,id2,kind", "{k},a{k},b{k},{c}", (), "leave it out: --leave-out 'id one,id2'\n"),
    "names that cannot be copied": ("x,it's,kind", "{k},a{k},{c}", (), "leave it out: --leave-out '...'\n"),
    "too many columns": (
        ",".join(f"c{k}" for k in range(11)) + ",kind",
        ",".join(["a{k}"] * 11) + ",{c}",
        (),
        "; and 1 more. Mend this, or leave it out: --leave-out '...'\n",
    ),
    "decimal commas": ("x,y,kind", '{k},"{k},5",{c}', (), "leave it out: --leave-out 'y' or --decimal ,\n"),
    "whole numbers": ("x,kind", "{k},{k}", (), "Take them for numbers: --real\n"),
    "whole numbers for another model": ("x,kind", "{k},{k}", ("--model", "learned"), "Take them for numbers: --real\n"),
    "a number that is alone": ("x,kind", "{k},{q}", ("--model", "learned"), "If the target is a number, say so: --real\n"),
    "an automatic model": ("x,kind", "{k},{c}", ("--tune",), "fixed model: --model learned or --model fixed\n"),
}


@pytest.mark.parametrize("case", REMEDIES)
def test_the_line_says_which_option_mends_it(case, tmp_path):
    header, row, arguments, message = REMEDIES[case]
    rows = [row.format(k=k, c="uv"[k % 2], q=k // 3) for k in range(40)]
    (tmp_path / "table.csv").write_text("\n".join([header, *rows]))
    code, _, talk = run("fit", tmp_path / "table.csv", "-t", "kind", "-o", tmp_path / "a", *arguments)
    assert code == 2
    assert talk.endswith(message), talk


def test_an_option_from_a_message_can_be_copied(tmp_path):
    rows = [f"{k},a{k},{'uv'[k % 2]}" for k in range(40)]
    (tmp_path / "table.csv").write_text("\n".join(["x,id one,kind", *rows]))
    arguments = ("fit", tmp_path / "table.csv", "-t", "kind", "-o", tmp_path / "a", "--model", "learned")
    _, _, talk = run(*arguments)
    done(*arguments, *shlex.split(talk.rpartition(": ")[2]))


def test_the_encoding_is_an_option(tmp_path):
    (tmp_path / "table.csv").write_bytes("wörd,kind\n1,a\n".encode("latin-1"))
    code, _, talk = run("evaluate", tmp_path / "table.csv", "-t", "kind")
    assert (code, talk.endswith("such as latin-1 or cp1252: --encoding latin-1\n")) == (2, True)


def test_a_table_that_is_too_large(tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_text("x,kind\n1,a\n")
    monkeypatch.setattr("outmetric.tables.sources.available_memory", lambda: 10)
    code, _, talk = run("evaluate", tmp_path / "table.csv", "-t", "kind")
    assert (code, talk.endswith("or read it in blocks: outmetric embed\n")) == (2, True)


INTERRUPTED = """
import os, signal, sys
from outmetric import MetricClassifier, cli
from outmetric.choosing.callbacks import Progress
from outmetric.choosing.search import MetricSearchCV

tell, advance = MetricClassifier._tell, Progress.advance

def stop_after_two(self, done, *rest):
    tell(self, done, *rest)
    if done == 2:
        os.kill(os.getpid(), signal.SIGINT)

def stop_after_a_kernel(self):
    advance(self)
    if self.done == self.tasks - 1:
        os.kill(os.getpid(), signal.SIGINT)

def stop_at_the_end(self, given):
    MetricSearchCV._make_voters = voters
    os.kill(os.getpid(), signal.SIGINT)
    return voters(self, given)

voters = MetricSearchCV._make_voters
if "--seed" in sys.argv:
    MetricSearchCV._make_voters = stop_at_the_end
elif "--tune" in sys.argv:
    Progress.advance = stop_after_a_kernel
else:
    MetricClassifier._tell = stop_after_two
cli.main()
"""


@pytest.mark.parametrize("keep", [(), ("--keep-best",)])
@pytest.mark.parametrize("way", [(), ("--model", "learned", "--tune"), ("--model", "learned", "--tune", "--seed", "1")])
def test_ctrl_c_keeps_the_best_model_so_far_if_asked(folder, way, keep, tmp_path):
    arguments = ["fit", folder / "cars.csv", "-t", "origin", "-o", tmp_path / "model", "--id", "name", *way, *keep]
    found = subprocess.run([sys.executable, "-c", INTERRUPTED, *arguments], capture_output=True, text=True, check=False)
    assert found.returncode == 128 + signal.SIGINT, found.stderr
    assert "Traceback" not in found.stderr
    assert os.listdir(tmp_path) == ["model"] * len(keep)
    predicted = [outmetric.load(path).predict(cars()) for path in tmp_path.iterdir()]
    assert all(np.mean(labels == cars()["origin"]) > 0.8 for labels in predicted)


def test_ctrl_c_during_imports(tmp_path):
    (tmp_path / "rich.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from outmetric.cli import main; main()"
    found = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (128 + signal.SIGINT, "stopped.\n")


def test_a_reader_that_goes_away(folder):
    command = f"'{sys.executable}' -c 'from outmetric.cli import main; main()' predict cars.model cars.csv | head -1"
    found = subprocess.run(["bash", "-c", f"cd '{folder}'; {command}"], capture_output=True, text=True, check=False)
    assert found.stdout.startswith('"name","prediction"')
    assert found.stderr == ""


@pytest.mark.parametrize(
    "command", ["fit", "transform", "predict", "neighbors", "distance", "inspect", "export", "evaluate", "map"]
)
def test_help_teaches_by_example(command):
    assert f"outmetric {command} " in " ".join(done(command, "--help").split()).split("Usage:")[1].split("Arguments")[0][20:]
