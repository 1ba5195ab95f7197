"""Does `outmetric verify` tell of pairs what it says?"""

import csv
import io
import json

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import outmetric
from outmetric import cli, tables
from outmetric.columns import check_columns
from outmetric.verification import draw_pairs


def run(*arguments, text=None):
    """The command's (exit code, stdout, stderr)."""
    result = CliRunner().invoke(cli.app, [str(argument) for argument in arguments], input=text)
    trouble = result.exception
    assert trouble is None or isinstance(trouble, SystemExit), repr(trouble)
    return result.exit_code, result.stdout, result.stderr


def rows_of(output):
    return list(csv.DictReader(io.StringIO(output)))


def people(first, count, seed):
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(first, first + count), 6)
    features = rng.normal(size=(first + count, 4))[who] + 0.3 * rng.normal(size=(len(who), 4))
    frame = pd.DataFrame(features, columns=list("abcd"))
    frame["who"] = [f"person {one}" for one in who]
    frame["photo"] = [f"{one:03}" for one in range(len(who))]
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model of 12 people, a table of 20 others, and pairs of these: all columns, without `same`, and with gaps in it."""
    folder = tmp_path_factory.mktemp("verify")
    known, new = people(0, 12, seed=0), people(12, 20, seed=1)
    columns = check_columns(known, "who", identifier="photo")
    outmetric.save(tables.fit_table(known, columns, kind="learned").model, folder / "faces.model")
    known.to_csv(folder / "known.csv", index=False)
    new.drop(columns="who").to_csv(folder / "new.csv", index=False)
    pairs = draw_pairs(new["who"], "all")
    frame = pd.DataFrame(new["photo"].to_numpy()[pairs.rows], columns=["first", "second"])
    frame.to_csv(folder / "unknown.csv", index=False)
    frame["same"] = (pairs.y == 1).astype(int)
    frame.to_csv(folder / "pairs.csv", index=False)
    frame.assign(same=np.where(np.arange(len(frame)) % 2, frame["same"].astype(str), "")).to_csv(folder / "some.csv", index=False)
    return folder


def distances(folder, pairs):
    """By what `transform` gives."""
    model = outmetric.load(folder / "faces.model")
    new = pd.read_csv(folder / "new.csv", dtype={"photo": str})
    places = pd.DataFrame(model.transform(new), index=new["photo"])
    return np.linalg.norm(places.loc[pairs["first"]].to_numpy() - places.loc[pairs["second"]].to_numpy(), axis=1)


def read(folder, name):
    return pd.read_csv(folder / name, dtype={"first": str, "second": str})


def test_all_that_is_told(folder):
    code, output, talk = run("verify", folder / "faces.model", folder / "pairs.csv", "--rows", folder / "new.csv", "--json")
    assert code == 0, talk
    found, pairs = json.loads(output), read(folder, "pairs.csv")
    lengths, same = distances(folder, pairs), pairs["same"] == 1
    assert [row["distance"] for row in found["pairs"]] == pytest.approx(lengths)
    assert [(row["first"], row["second"]) for row in found["pairs"][:2]] == [("000", "001"), ("000", "002")]
    assert found["auc"] == pytest.approx(roc_auc_score(same, -lengths))
    accepted = lengths <= found["threshold"] * (1 + 1e-9)
    assert accepted[~same].mean() == pytest.approx(found["false accepts"])
    assert 0.008 < found["false accepts"] <= 0.01
    assert found["true accepts"] == pytest.approx(accepted[same].mean())
    assert found["true accepts"] == found["true accepts at 0.01"] >= found["true accepts at 0.001"]
    assert [row["decision"] == "same" for row in found["pairs"]] == accepted.tolist()
    by_distance = np.array([row["probability"] for row in found["pairs"]])[np.argsort(lengths)]
    assert (np.diff(by_distance) <= 0).all()
    assert f"area under the curve {found['auc']:.4f}" in talk
    assert f"true accepts at 1.0% false accepts: {found['true accepts at 0.01']:.1%}" in talk
    assert "too good" not in talk


def test_the_rate_that_was_asked_for(folder):
    arguments = ("verify", folder / "faces.model", folder / "pairs.csv", "--rows", folder / "new.csv", "--json")
    strict, lax = (json.loads(run(*arguments, "--far", far)[1]) for far in ("0.01", "0.2"))
    assert lax["threshold"] > strict["threshold"]
    assert 0.19 < lax["false accepts"] <= 0.2


def test_the_table(folder, tmp_path):
    arguments = ("verify", folder / "faces.model", folder / "pairs.csv", "--rows", folder / "new.csv")
    code, _, talk = run(*arguments, "-o", tmp_path / "decided.csv")
    assert code == 0, talk
    rows = rows_of((tmp_path / "decided.csv").read_text())
    assert list(rows[0]) == ["first", "second", "distance", "probability", "decision"]
    assert {row["decision"] for row in rows} == {"same", "different"}
    assert rows == rows_of(run(*arguments)[1])


def test_pairs_that_are_not_known_are_decided_by_the_others(folder):
    arguments = ("verify", folder / "faces.model", folder / "some.csv", "--rows", folder / "new.csv")
    found = json.loads(run(*arguments, "--json")[1])
    pairs = read(folder, "some.csv")
    assert found["same"] + found["different"] == pairs["same"].notna().sum() < len(pairs) == len(found["pairs"])
    lengths = distances(folder, pairs)
    assert [row["decision"] == "same" for row in found["pairs"]] == (lengths <= found["threshold"] * (1 + 1e-9)).tolist()


def test_without_knowledge_there_are_distances_only(folder):
    code, output, talk = run("verify", folder / "faces.model", folder / "unknown.csv", "--rows", folder / "new.csv")
    assert code == 0, talk
    assert list(rows_of(output)[0]) == ["first", "second", "distance"]
    assert "no threshold: the pairs have no column same" in talk


def test_rows_of_the_model_itself(folder):
    text = "first,second,same\n000,001,yes\n000,070,no\n006,007,TRUE\n006,040,false\n"
    code, output, talk = run("verify", folder / "faces.model", "-", text=text)
    assert code == 0, talk
    assert "learned from these rows, so all of this is too good" in talk
    assert "not to be told of fewer than 1000 different pairs" in talk
    assert "of 2 different pairs none may be accepted" in talk
    (expected,) = rows_of(run("distance", folder / "faces.model", "000", "070")[1])
    assert float(rows_of(output)[1]["distance"]) == pytest.approx(float(expected["distance"]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("first,other\n000,001\n", "standard input has no column second"),
        ("first,second\n", "no pairs"),
        ("first,second\n000,\n", "column second: row 1 is empty"),
        ("first,second\n000,999\n", "pair 1, column second: the model has no row '999'; --rows gives another table"),
        ("first,second\n0,001\n", "no row '0'"),
        ("first,second,same\n000,001,1\n000,002,perhaps\n", "column same: 'perhaps' in row 2 is neither 1 nor 0"),
        ("first,second,same\n000,001,1\n", "no pair is different"),
        ("first,second,same\n000,001,0\n", "no pair is the same"),
    ],
)
def test_pairs_that_cannot_be(folder, text, message):
    code, output, talk = run("verify", folder / "faces.model", "-", text=text)
    assert (code, output) == (2, "")
    assert message in talk


def test_other_mistakes(folder, tmp_path):
    model, pairs = folder / "faces.model", folder / "pairs.csv"
    for arguments, message in [
        (("--far", "1"), "--far 1 is no rate between 0 and 1"),
        (("--rows", folder / "nothing.csv"), "there is no file"),
        (("-o", pairs), "is what is read"),
    ]:
        code, _, talk = run("verify", model, pairs, *arguments)
        assert code == 2
        assert message in talk
    code, _, talk = run("verify", model, "-", "--rows", "-", text="first,second\n1,2\n")
    assert (code, "one table" in talk) == (2, True)
    twice = pd.concat([pd.read_csv(folder / "new.csv", dtype={"photo": str})] * 2)
    twice.to_csv(tmp_path / "twice.csv", index=False)
    code, _, talk = run("verify", model, pairs, "--rows", tmp_path / "twice.csv")
    assert code == 2
    assert "has several rows '000'" in talk
