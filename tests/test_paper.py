"""Do the experiments of the paper run as promised: fairly, resumably, and with a report that says what was found?"""

import contextlib
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from scipy import stats
from sklearn import config_context
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from outmetric import cli
from outmetric.datasets import DataError
from outmetric.paper import claims, maps, protocol, report, runner
from outmetric.paper.protocol import METHODS, PAPER_METHODS, PAPER_SETS, Trial, plan, split
from outmetric.paper.runner import Store
from outmetric.paper.runner import TrialResult as Result
from outmetric.paper.statistics import Accuracies, critical_difference

mpl.use("Agg")

CHEAP = plan(["iris"], ["knn", "svm"], (0.1, 0.5), 2)
SEEDED = plan(["iris"], ["itml", "forest"], (0.1,), 2)
# The maps of the report, with a single spread, are made in a second.
QUICKLY = "from outmetric.paper import maps; maps.FACTORS = (1.0,); from outmetric.cli import main; main()"
COMMAND = [sys.executable, "-c", QUICKLY, "paper", "run"]


def table_of(store, trials=CHEAP):
    return {result.trial: result.accuracy for result in store.results(trials)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The cheap trials, run without interruption."""
    store = Store(tmp_path_factory.mktemp("whole"))
    runner.run(CHEAP, store)
    return store


def members(group):
    """The processes of a group that still run."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, own = path.read_text().rpartition(")")[2].split()[:3]
            found += [path.parent.name] if int(own) == group and state != "Z" else []
    return found


class TestProtocol:
    def test_splits_are_balanced_and_apart(self):
        rng = np.random.default_rng(0)
        y = rng.permutation(np.repeat(["a", "b", "c"], [900, 400, 500]))
        X = np.arange(len(y), dtype=float)[:, None]
        data = split(X, y, Trial(0, 0.1, "iris", "knn"))
        assert np.unique(data.y_train, return_counts=True)[1].tolist() == [33, 33, 33]
        assert np.unique(data.y_test, return_counts=True)[1].tolist() == [300, 300, 300]
        rows = np.concatenate([data.X_train, data.X_test]).ravel().astype(int)
        assert len(set(rows)) == 999
        np.testing.assert_array_equal(y[rows], np.concatenate([data.y_train, data.y_test]))

    def test_splits_depend_on_everything_but_the_method(self):
        X, y = load_iris(return_X_y=True)
        X = np.arange(len(y), dtype=float)[:, None]
        base = Trial(0, 0.1, "iris", "knn")
        same = split(X, y, dataclasses.replace(base, method="svm"))
        np.testing.assert_array_equal(split(X, y, base).X_train, same.X_train)
        for change in ({"repeat": 1}, {"dataset": "cancer"}):
            other = split(X, y, dataclasses.replace(base, **change))
            assert not np.array_equal(np.sort(split(X, y, base).X_train, axis=0), np.sort(other.X_train, axis=0))
        assert base.seed != dataclasses.replace(base, method="svm").seed

    def test_the_digest_follows_the_protocol(self, monkeypatch):
        before = {method: protocol.digest(method) for method in METHODS}
        assert len(set(before.values())) == len(METHODS)
        assert before == {method: protocol.digest(method) for method in METHODS}
        monkeypatch.setattr(protocol, "NEIGHBOURS", (1, 3))
        assert protocol.digest("method2") != before["method2"]
        assert protocol.digest("forest") == before["forest"]
        monkeypatch.setattr(protocol, "ROWS", 500)
        assert protocol.digest("forest") != before["forest"]

    def test_the_digest_does_not_follow_how_things_are_printed(self):
        before = protocol.digest("itml")
        with config_context(print_changed_only=False):
            assert protocol.digest("itml") == before

    def test_generated_waves_are_refused(self, tmp_path, monkeypatch):
        monkeypatch.setenv("OUTMETRIC_CACHE", str(tmp_path))
        with pytest.raises(DataError, match="no substitute"):
            PAPER_SETS["wave"](tmp_path)

    def test_the_plan_has_every_trial_once(self):
        trials = plan(list(PAPER_SETS), list(METHODS))
        assert len(set(trials)) == len(trials) == 8 * 10 * 2 * 20
        assert len({trial.name for trial in trials}) == len(trials)
        assert [trial.repeat for trial in trials] == sorted(trial.repeat for trial in trials)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((["no such"], ["knn"]), "not known: no such"),
            ((["iris"], ["no such"]), "not known: no such"),
            ((["iris"], ["knn"], (1.5,)), "between 0 and 1"),
            ((["iris"], ["knn"], (0.1, 0.104)), "whole per cent"),
            ((["iris"], ["knn"], (0.1,), 0), "at least 1"),
        ],
    )
    def test_bad_plans(self, arguments, message):
        with pytest.raises(ValueError, match=message):
            plan(*arguments)

    @pytest.mark.parametrize("method", sorted(set(METHODS) - {"automatic"}))
    @pytest.mark.parametrize("classes", [2, 3, 4])
    def test_every_method_learns(self, method, classes):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(classes), 60)
        X = rng.normal(size=(len(y), 4)) + 3 * rng.normal(size=(classes, 4))[y]
        result = runner.run_trial(Trial(0, 0.2, "iris", method), split(X, y, Trial(0, 0.2, "iris", method)))
        assert result.error == ""
        assert result.accuracy > 1.4 / classes
        assert (result.n_train, result.n_test) == (12 * classes, 48 * classes)

    @pytest.mark.parametrize("classes", [2, 3, 4])
    def test_grids_are_of_comparable_size(self, classes):
        sizes = {}
        for method in ("lmnn", "itml", "klmnn", "method1", "method2"):
            search = protocol.classifier(Trial(0, 0.1, "iris", method), classes)
            sizes[method] = sum(int(np.prod([len(values) for values in grid.values()])) for grid in search.param_grid)
        assert max(sizes.values()) <= 4 * min(sizes.values())


class TestStore:
    result = Result(CHEAP[0], protocol.digest("knn"), 0.5, 1.0, 15, 135, "{}", "")

    def test_what_is_written_is_read(self, tmp_path):
        store = Store(tmp_path)
        assert store.read(CHEAP[0]) == ("missing", None)
        store.write(self.result)
        assert store.read(CHEAP[0]) == ("done", self.result)
        assert [path.name for path in (tmp_path / "trials").iterdir()] == [f"{CHEAP[0].name}.json"]

    @pytest.mark.parametrize(
        "change",
        [
            lambda text: text[: len(text) // 2],
            lambda text: "",
            lambda text: text.replace("0.5", "0.9"),
            lambda text: text.replace('"repeat": 0', '"repeat": 1'),
            lambda text: "[]",
            lambda text: json.dumps({**json.loads(text), "more": 1}),
            lambda text: "\x00" * 10,
            lambda text: "[" * 100_000,
        ],
    )
    def test_damaged_files_are_noticed(self, tmp_path, change):
        store = Store(tmp_path)
        store.write(self.result)
        path = store.path(CHEAP[0])
        path.write_text(change(path.read_text()))
        assert store.read(CHEAP[0]) == ("damaged", None)

    def test_other_protocols_are_noticed(self, tmp_path):
        store = Store(tmp_path)
        store.write(dataclasses.replace(self.result, protocol="another"))
        assert store.read(CHEAP[0])[0] == "outdated"

    def test_tables_stand_for_results(self, tmp_path, whole):
        runner.write_table(whole.results(CHEAP), tmp_path / "results.csv")
        again = Store(tmp_path / "empty", tmp_path / "results.csv")
        assert table_of(again) == table_of(whole)
        ran = []
        runner.run(CHEAP, again, on_result=ran.append)
        assert ran == []

    @pytest.mark.parametrize(
        "rows",
        ["a,b\n1,2\n", "iris,knn", "iris,knn,0.1,0,nan,1,15,135,x", "iris,knn,0.1,0,17,1,15,135,x", "iris,knn,0.1,0,0.5,1,0,135,x"],
    )
    def test_a_table_must_be_one(self, tmp_path, rows):
        header = "" if rows.startswith("a,b") else ",".join(runner.COLUMNS) + "\n"
        (tmp_path / "other.csv").write_text(header + rows + "\n")
        with pytest.raises(ValueError, match="not a table of results"):
            Store(tmp_path, tmp_path / "other.csv")

    def test_everything_is_kept_in_the_table(self, tmp_path, whole):
        known = tmp_path / "results.csv"
        runner.write_table(whole.results(CHEAP), known)
        store = Store(tmp_path, known)
        report.write(store.results(CHEAP[:2]), tmp_path, others=store.everything())
        assert {result.trial for result in runner.read_table(known)} == set(CHEAP)


class TestRun:
    def test_jobs_and_order_change_nothing(self, tmp_path, whole):
        store = Store(tmp_path)
        runner.run(CHEAP[::-1], store, jobs=2)
        assert len(table_of(store)) == len(CHEAP)
        assert table_of(store) == table_of(whole)
        runner.run(SEEDED, store)
        other = Store(tmp_path / "other")
        runner.run(SEEDED[::-1], other, jobs=2)
        assert len(table_of(store, SEEDED)) == len(SEEDED)
        assert table_of(store, SEEDED) == table_of(other, SEEDED)

    def test_only_what_is_missing_runs(self, tmp_path, whole):
        store = Store(tmp_path)
        for result in whole.results(CHEAP)[:-2]:
            store.write(result)
        path = store.path(CHEAP[0])
        path.write_text(path.read_text()[:-30])
        ran = []
        runner.run(CHEAP, store, on_result=lambda result: ran.append(result.trial))
        assert sorted(ran) == sorted([CHEAP[0], *sorted(CHEAP)[-2:]])
        assert table_of(store) == table_of(whole)

    def test_failures_are_recorded_and_tried_again(self, tmp_path, monkeypatch, whole):
        def fail(n_classes, folds, seed):
            raise RuntimeError("deliberately")

        store = Store(tmp_path)
        with monkeypatch.context() as broken:
            broken.setitem(protocol.METHODS, "svm", dataclasses.replace(METHODS["svm"], build=fail))
            broken.setattr(protocol, "digest", lambda method: {"knn": runner._digest("knn"), "svm": runner._digest("svm")}[method])
            runner.run(CHEAP, store)
        states = [store.read(trial)[0] for trial in CHEAP]
        assert states == [{"knn": "done", "svm": "failed"}[trial.method] for trial in CHEAP]
        assert "deliberately" in store.read(CHEAP[1])[1].error
        assert len(store.results(CHEAP)) == len(CHEAP) // 2
        runner.run(CHEAP, store)
        assert table_of(store) == table_of(whole)

    def test_killed_and_resumed(self, tmp_path):
        """By SIGKILL, with two jobs, a few times; then the same table, bit for bit, as in one go."""
        arguments = ["--datasets", "iris,cancer", "--methods", "knn,svm,method2", "--fractions", "0.1,0.2", "--repeats", "1"]
        arguments += ["--jobs", "2"]
        whole, broken = tmp_path / "whole", tmp_path / "broken"
        subprocess.run([*COMMAND, *arguments, "-f", str(whole)], check=True, capture_output=True)
        for enough in (2, 6):
            process = subprocess.Popen(
                [*COMMAND, *arguments, "-f", str(broken)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            while len(list(broken.glob("trials/*.json"))) < enough and process.poll() is None:
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            assert enough <= len(list(broken.glob("trials/*.json"))) < 12
        subprocess.run([*COMMAND, *arguments, "-f", str(broken)], check=True, capture_output=True)
        seconds = re.compile(r",[0-9.]+(?=,\d+,\d+,\w+$)", re.MULTILINE)
        tables = [seconds.sub("", (folder / "results.csv").read_text()) for folder in (whole, broken)]
        assert tables[0] == tables[1]
        assert tables[0].count("\n") == 1 + 2 * 3 * 2

    @pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are counted where Linux lists them")
    @pytest.mark.parametrize("trials", [0, 1])
    def test_workers_end_with_the_run_that_is_killed(self, tmp_path, trials):
        arguments = ["--datasets", "cancer", "--methods", "method2", "--repeats", "9", "--jobs", "2", "-f", str(tmp_path)]
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        # The run, what counts its resources, and two workers: with no trial done, some have never had one.
        while process.poll() is None and (len(list(tmp_path.glob("trials/*.json"))) < trials or len(members(process.pid)) < 4):
            time.sleep(0.02)
        assert process.poll() is None
        process.kill()
        process.wait()
        end = time.monotonic() + 20
        while members(process.pid) and time.monotonic() < end:
            time.sleep(0.1)
        left = members(process.pid)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        assert not left

    def test_a_result_that_is_a_folder(self, tmp_path):
        arguments = ["--datasets", "iris", "--methods", "knn", "--repeats", "1", "-f", str(tmp_path)]
        folder = tmp_path / "results.csv"
        folder.mkdir()
        found = CliRunner().invoke(cli.app, ["paper", "run", *arguments])
        assert found.exit_code == 2
        assert "is a folder, where a result must go; move it away" in " ".join(re.sub("[│╭╮╰╯─]", " ", found.stderr).split())
        assert not list(tmp_path.glob("trials/*.json"))

    def test_two_runs_in_one_folder(self, tmp_path, whole):
        arguments = ["--datasets", "iris", "--methods", "knn,svm", "--repeats", "2", "-f", str(tmp_path)]
        processes = [subprocess.Popen([*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
        for process in processes:
            assert process.communicate()[1].count(b"Traceback") == 0
            assert process.returncode == 0
        assert table_of(Store(tmp_path)) == table_of(whole)

    def test_on_a_dask_cluster(self, tmp_path, whole):
        distributed = pytest.importorskip("distributed")
        store = Store(tmp_path)
        with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
            runner.run(CHEAP, store, dask=cluster.scheduler_address)
        assert table_of(store) == table_of(whole)


def results_of(table, runs=4, noise=1.0, n_train=50, n_test=450):
    """Results whose means over the runs are those of {(fraction, dataset, method): mean}, the same noise for all."""
    wiggle = np.tile([noise, -noise], runs)[:runs] / 100
    return [
        Result(Trial(k, f, d, m), "", mean / 100 + wiggle[k], 1.0, n_train, n_test, "", "")
        for (f, d, m), mean in table.items()
        for k in range(runs)
    ]


class TestStatistics:
    def test_means_and_intervals(self):
        values = [0.5, 0.6, 0.9]
        results = [Result(Trial(k, 0.1, "iris", "knn"), "", value, 1.0, 10, 90, "", "") for k, value in enumerate(values)]
        found = Accuracies(results).mean(0.1, "iris", "knn")
        low, high = stats.t.interval(0.95, 2, 100 * np.mean(values), 100 * stats.sem(values))
        assert found.mean == pytest.approx(200 / 3)
        assert found.mean - found.half == pytest.approx(low)
        assert found.mean + found.half == pytest.approx(high)

    def test_corrected_t(self):
        rng = np.random.default_rng(0)
        one, other = rng.uniform(0.5, 0.6, 10), rng.uniform(0.45, 0.55, 10)
        results = [
            Result(Trial(k, 0.1, "iris", name), "", float(values[k]), 1.0, 100, 900, "", "")
            for name, values in (("knn", one), ("svm", other))
            for k in range(10)
        ]
        difference, p = Accuracies(results).paired_t(0.1, "iris", "knn", "svm", corrected=True)
        t = np.mean(one - other) / np.sqrt((1 / 10 + 900 / 100) * np.var(one - other, ddof=1))
        assert difference == pytest.approx(100 * np.mean(one - other))
        assert p == pytest.approx(2 * (1 - stats.t.cdf(t, 9)))
        plain = Accuracies(results).paired_t(0.1, "iris", "knn", "svm", corrected=False)[1]
        assert plain == pytest.approx(stats.ttest_rel(one, other).pvalue)

    def test_ranks_share_ties(self):
        table = {(0.1, "iris", "knn"): 90, (0.1, "iris", "svm"): 90, (0.1, "iris", "lmnn"): 80}
        methods, ranks = Accuracies(results_of(table)).ranks(0.1)
        assert dict(zip(methods, ranks, strict=True)) == {"knn": 1.5, "svm": 1.5, "lmnn": 3.0}

    def test_sets_that_lack_a_method_do_not_count(self):
        table = {(0.1, "iris", "knn"): 90, (0.1, "iris", "svm"): 80, (0.1, "cancer", "knn"): 70}
        datasets, methods, means = Accuracies(results_of(table)).table(0.1)
        assert (datasets, methods) == (["iris"], ["knn", "svm"])
        np.testing.assert_allclose(means, [[90, 80]])

    def test_methods_are_compared_on_common_splits(self):
        runs = {"knn": {0: 0.9, 1: 0.5}, "svm": {0: 0.89}}
        results = [
            Result(Trial(k, 0.1, "iris", name), "", value, 1.0, 10, 90, "", "") for name in runs for k, value in runs[name].items()
        ]
        np.testing.assert_allclose(Accuracies(results).table(0.1)[2], [[90, 89]])

    def test_wilcoxon_is_over_the_sets_of_both(self):
        sets = list(PAPER_SETS)
        table = {(0.1, name, "knn"): 60 for name in sets} | {(0.1, name, "svm"): 61 + k for k, name in enumerate(sets)}
        table[0.1, "wine", "forest"] = 50
        found = Accuracies(results_of(table)).wilcoxon(0.1, "svm", "knn")
        assert found == pytest.approx(stats.wilcoxon(np.arange(1, 9)).pvalue)

    def test_critical_difference_is_that_of_the_tables(self):
        # Demsar (2006): q = 2.569 for four methods at the level 0.05, and 1.25 for 14 data sets.
        assert critical_difference(4, 14) == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)


def like_the_paper():
    """Accuracies for which every claim of the paper holds."""
    table = {}
    for dataset in PAPER_SETS:
        for fraction in (0.1, 0.5):
            values = {"knn": 60, "lmnn": 62, "itml": 64, "klmnn": 66, "method1": 69.5, "method2": 70}
            if dataset in ("robot", "cardio") and fraction == 0.5:
                values = {name: 80 + k / 10 for k, name in enumerate(values)}
            table |= {(fraction, dataset, name): value for name, value in values.items()}
    table |= {(0.1, "vehicle", "itml"): 71, (0.1, "vehicle", "klmnn"): 72, (0.5, "molecular", "klmnn"): 71}
    for fraction in (0.1, 0.5):
        table |= {(fraction, "pima", name): 60 for name in ("knn", "lmnn", "itml", "klmnn")}
    return table


def verdicts(table):
    return [one.verdict for one in claims.judge(Accuracies(results_of(table, noise=0.0)))]


class TestClaims:
    def test_all_hold_in_the_papers_world(self):
        assert verdicts(like_the_paper()) == ["reproduced"] * len(claims.CLAIMS)

    @pytest.mark.parametrize(
        ("position", "change"),
        [
            (0, {(0.1, name, "lmnn"): 50 for name in PAPER_SETS}),
            (1, {(0.1, name, "lmnn"): 75 for name in PAPER_SETS}),
            (2, {(0.1, name, "method1"): 20 for name in PAPER_SETS}),
            (3, {(0.1, name, "itml"): 75 for name in PAPER_SETS}),
            (4, {(0.1, "vehicle", "method2"): 80}),
            (5, {(0.1, "pima", "method1"): 55, (0.1, "pima", "method2"): 55}),
            (6, {(0.5, name, "lmnn"): 85 for name in PAPER_SETS}),
            (7, {(0.5, "molecular", "method1"): 90}),
            (8, {(0.5, name, "knn"): 60 for name in ("robot", "cardio")}),
            (9, {(0.5, "pima", "method1"): 59, (0.5, "pima", "method2"): 59, (0.5, "pima", "lmnn"): 50}),
            (10, {(0.5, name, "method1"): 50 for name in PAPER_SETS}),
        ],
    )
    def test_each_can_fail(self, position, change):
        assert verdicts({**like_the_paper(), **change})[position] == "not reproduced"

    def test_what_was_not_run_is_not_judged(self):
        table = {key: value for key, value in like_the_paper().items() if key[1] != "pima"}
        found = verdicts(table)
        # Of the others only those about single sets can be judged.
        assert [position for position, verdict in enumerate(found) if verdict != "not run"] == [4, 7, 8]
        assert verdicts({}) == ["not run"] * len(claims.CLAIMS)

    @pytest.mark.parametrize(
        ("kpca", "ours", "verdict"),
        [
            ([0.5, -0.1, -0.1], [0.2, 0.3, 0.4], "reproduced"),
            ([0.5, -0.1, -0.1], [0.2, 0.3, -0.4], "partly"),
            ([0.5, 0.1, 0.1], [0.2, -0.3, 0.4], "not reproduced"),
            ([-0.5, -0.1, -0.1], [-0.2, -0.3, -0.4], "not reproduced"),
        ],
    )
    def test_maps(self, kpca, ours, verdict):
        names = ["KPCA", "Method 1", "Method 2"]
        silhouettes = dict(zip(names, map(np.array, (kpca, ours, ours)), strict=True))
        assert claims.judge_maps(names, dict(zip(names, (50.0, 60.0, 60.0), strict=True)), silhouettes).verdict == verdict


class TestReport:
    def test_it_has_everything(self, tmp_path, monkeypatch):
        labels = np.repeat(["a", "b"], 10)
        points = np.random.default_rng(0).normal(size=(20, 2))
        drawn = [maps.PlaneMap(name, points, points, 50.0, np.array([0.1, 0.2])) for name in ("KPCA", "Method 1", "Method 2")]
        monkeypatch.setattr(report, "plane_maps", lambda *arguments: (drawn, labels, labels))
        results = results_of(like_the_paper())
        written = report.write(results, tmp_path)
        assert {path.name for path in tmp_path.iterdir()} == {
            *("report.html", "report.md", "results.csv", "maps-robot.png", "ranks-10.png", "ranks-50.png"),
            *(f"accuracy-{share}-{part}.png" for share in (10, 50) for part in (1, 2)),
        }
        page, text = (tmp_path / "report.html").read_text(), (tmp_path / "report.md").read_text()
        assert not re.search(r'(src|href)="(?!data:)', page)
        assert page.count("<img") == len(written.pictures) == 7
        assert text.count("| reproduced |") == len(claims.CLAIMS)
        assert "**70.0 +- 1.8**" in text
        assert "<b>70.0&nbsp;&plusmn;&nbsp;1.8</b>" in page
        assert "**" not in page
        assert "70.0 +- 1.8" in written.summary
        assert table_of(Store(tmp_path / "none", tmp_path / "results.csv"), []) == {}
        assert len(runner.read_table(tmp_path / "results.csv")) == len(results)

    @pytest.mark.parametrize("methods", [["svm"], ["knn"]])
    @pytest.mark.parametrize("datasets", [["cancer"], ["iris", "cancer"]])
    def test_little_is_enough(self, tmp_path, methods, datasets):
        table = {(0.5, dataset, method): 80 for dataset in datasets for method in methods}
        before = plt.get_fignums()
        written = report.write(results_of(table, runs=1, noise=0.0), tmp_path)
        assert "80.0" in written.summary
        assert plt.get_fignums() == before

    def test_maps_of_embedded_data(self):
        found, y_train, y_test = maps.plane_maps("iris")
        assert [one.name for one in found] == ["KPCA", "Method 1", "Method 2"]
        assert len(y_train) == 15
        assert len(y_test) == 135
        for one in found:
            assert one.train.shape == (15, 2)
            assert one.test.shape == (135, 2)
            assert one.accuracy > 60


class TestCommand:
    arguments = ("--datasets", "iris", "--methods", "knn,method2", "--repeats", "2")

    def invoke(self, *arguments):
        return CliRunner().invoke(cli.app, ["paper", *arguments])

    def test_run_status_report(self, tmp_path, monkeypatch):
        monkeypatch.setattr(maps, "FACTORS", (1.0,))
        missing = self.invoke("status", *self.arguments, "-f", str(tmp_path))
        assert re.search(r"knn\s+\S\s+0\s+\S\s+0\s+\S\s+4", missing.stdout)
        nothing = self.invoke("report", *self.arguments, "-f", str(tmp_path))
        assert nothing.exit_code == 1
        ran = self.invoke("run", *self.arguments, "-f", str(tmp_path))
        assert ran.exit_code == 0, ran.output
        assert "Method 2" in ran.stdout
        assert str(tmp_path / "report.html") in ran.stdout.replace("\n", "")
        assert "0 of 8 trials are done" in ran.stderr
        again = self.invoke("run", *self.arguments, "-f", str(tmp_path))
        assert "8 of 8 trials are done" in again.stderr
        path = Store(tmp_path).path(plan(["iris"], ["knn"], repeats=1)[0])
        path.write_text(path.read_text()[:-9])
        assert "1 trials are damaged or edited and run again: knn-iris-10-00" in self.invoke(
            "run", *self.arguments, "-f", str(tmp_path)
        ).stderr.replace("\n", " ")
        done = self.invoke("status", *self.arguments, "-f", str(tmp_path))
        assert re.search(r"knn\s+\S\s+4\s+\S\s+0\s+\S\s+0", done.stdout)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("--datasets", "nothing"), "not known"),
            (("--methods", "nothing"), "not known"),
            (("--fractions", "2"), "between 0 and 1"),
            (("--fractions", "much"), "could not convert"),
            (("--known", "nowhere.csv"), "nowhere.csv"),
            (("--jobs", "0"), "jobs"),
            (("-f", "/proc/nowhere"), "cannot be kept"),
            (("--data-dir", "nowhere", "--datasets", "iono", "--methods", "knn"), "does not exist"),
        ],
    )
    def test_bad_arguments(self, tmp_path, arguments, message):
        found = self.invoke("run", "-f", str(tmp_path), *arguments)
        assert found.exit_code == 2
        assert message in found.output.replace("\n", " ")
        assert "Traceback" not in found.output

    def test_the_quick_run_needs_no_files(self):
        trials = cli.paper._plan(None, None, None, None, True)
        assert {trial.method for trial in trials} == set(PAPER_METHODS)
        assert not {trial.dataset for trial in trials} & set(PAPER_SETS)
