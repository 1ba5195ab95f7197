"""The report on a run: tables, tests, figures, and what became of the paper's claims.

It is put together once, from headings, texts, tables and pictures, and written twice: as a self-contained HTML page, and as
Markdown with the pictures beside it.
"""

from __future__ import annotations

import base64
import html
import io
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from outmetric import plots
from outmetric.datasets import DataError
from outmetric.foundation import write_whole
from outmetric.paper import protocol, runner
from outmetric.paper.claims import OURS, judge, judge_maps
from outmetric.paper.maps import plane_maps
from outmetric.paper.protocol import METHODS, PAPER_METHODS, PAPER_SETS
from outmetric.paper.runner import TrialResult
from outmetric.paper.statistics import LEVEL, Accuracies, critical_difference

SETS_PER_CHART = 4
# Their maps are lines.
TWO_CLASSES = ("iono", "pima", "cancer")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 0.9rem; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #ddd; text-align: left; vertical-align: top; }
th { border-bottom: 2px solid #888; }
img { max-width: 100%; }
"""


@dataclass(frozen=True)
class Written:
    """Where a report is, and its main table as text."""

    page: Path
    pictures: tuple[Path, ...]
    summary: str


@dataclass
class Document:
    """Blocks in order: ("heading", text), ("text", text), ("table", rows, header first) and ("picture", (name, what, bytes))."""

    title: str
    blocks: list[tuple[str, Any]] = field(default_factory=list)

    def heading(self, text: str) -> None:
        self.blocks.append(("heading", text))

    def text(self, text: str) -> None:
        self.blocks.append(("text", text))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        self.blocks.append(("table", [list(header), *map(list, rows)]))

    def picture(self, name: str, what: str, figure: Any) -> None:
        content = io.BytesIO()
        figure.savefig(content, dpi=110, format="png", metadata={"Software": None})
        plots.close(figure)
        self.blocks.append(("picture", (name, what, content.getvalue())))

    def markdown(self) -> str:
        parts = [f"# {self.title}"]
        for kind, content in self.blocks:
            if kind == "heading":
                parts.append(f"## {content}")
            elif kind == "text":
                parts.append(content)
            elif kind == "table":
                parts.append(_markdown_table(content))
            else:
                parts.append(f"![{content[1]}]({content[0]}.png)")
        return "\n\n".join(parts) + "\n"

    def page(self) -> str:
        parts = [f"<h1>{html.escape(self.title)}</h1>"]
        for kind, content in self.blocks:
            if kind == "heading":
                parts.append(f"<h2>{html.escape(content)}</h2>")
            elif kind == "text":
                parts.append(f"<p>{html.escape(content)}</p>")
            elif kind == "table":
                parts.append(_html_table(content))
            else:
                data = base64.b64encode(content[2]).decode()
                parts.append(f'<img alt="{html.escape(content[1])}" src="data:image/png;base64,{data}">')
        head = f'<meta charset="utf-8"><title>{html.escape(self.title)}</title><style>{STYLE}</style>'
        return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n' + "\n".join(parts) + "\n</body></html>\n"


def _markdown_table(rows: list[list[str]]) -> str:
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _html_table(rows: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{_html_cell(cell)}</{tag}>" for cell in cells) + "</tr>"

    return "<table>" + line(rows[0], "th") + "".join(line(row, "td") for row in rows[1:]) + "</table>"


def _html_cell(cell: str) -> str:
    """Markdown's bold, and numbers that stay on one line."""
    text = html.escape(cell.strip("*")).replace(" +- ", "&nbsp;&plusmn;&nbsp;")
    return f"<b>{text}</b>" if cell.startswith("**") else text


def write(
    results: Sequence[TrialResult], folder: str | os.PathLike[str], data_dir: Any = None, others: Sequence[TrialResult] = ()
) -> Written:
    """Write report.html, report.md and the pictures into the folder, and results.csv, in which all others are kept as well."""
    accuracies = Accuracies(results)
    document = Document("The experiments of the paper, repeated")
    _opening(document, accuracies)
    summary = _accuracy(document, accuracies)
    _charts(document, accuracies)
    mapped = _maps(document, accuracies, data_dir)
    _claims(document, accuracies, mapped)
    _tests(document, accuracies)
    _times(document, accuracies)
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    runner.write_table({result.trial: result for result in (*others, *results)}.values(), target / "results.csv")
    pictures = {target / f"{content[0]}.png": content[2] for kind, content in document.blocks if kind == "picture"}
    for path, content in [
        *pictures.items(),
        (target / "report.md", document.markdown().encode()),
        (target / "report.html", document.page().encode()),
    ]:
        write_whole(path, content)
    return Written(target / "report.html", tuple(pictures), summary)


def _opening(document: Document, accuracies: Accuracies) -> None:
    runs = {len(accuracies.runs(f, d, m)) for f in accuracies.fractions for d in accuracies.datasets for m in accuracies.methods}
    between = f"{min(runs)}" if len(runs) == 1 else f"{min(runs)} to {max(runs)}"
    document.text(
        f"{len(accuracies.results)} trials: {len(accuracies.datasets)} data sets, {len(accuracies.methods)} methods, "
        f"{between} random splits of each. Classes are balanced, at most {protocol.ROWS} rows are used, features are scaled by the "
        "training part, and every choice (grids in outmetric/paper/protocol.py) is made by five-fold cross-validation on it. "
        f"Protocol version {protocol.VERSION}; intervals are 95 % confidence intervals of the mean."
    )


def _accuracy(document: Document, accuracies: Accuracies) -> str:
    summary = []
    for fraction in accuracies.fractions:
        document.heading(f"Accuracy in %, {fraction:.0%} for training")
        header = ["set", *(METHODS[method].label for method in accuracies.methods)]
        rows = []
        for dataset in accuracies.datasets:
            means = [accuracies.mean(fraction, dataset, method) for method in accuracies.methods]
            best = max((one.mean for one in means if one is not None), default=np.nan)
            cells = ["" if one is None else f"**{one.text}**" if one.mean == best else one.text for one in means]
            rows.append([dataset, *cells])
        datasets, methods, table = accuracies.table(fraction)
        averages = dict(zip(methods, table.mean(axis=0), strict=True)) if datasets else {}
        ranks = dict(zip(*accuracies.ranks(fraction), strict=True))
        rows.append([f"mean of {len(datasets)} sets", *_cells(averages, accuracies.methods, ".1f")])
        rows.append(["mean rank", *_cells(ranks, accuracies.methods, ".2f")])
        document.table(header, rows)
        summary.append(f"{fraction:.0%} for training\n" + _aligned([header, *rows]))
    return "\n\n".join(summary)


def _cells(values: dict[str, Any], methods: Sequence[str], form: str) -> list[str]:
    return [f"{values[method]:{form}}" if method in values and np.isfinite(values[method]) else "" for method in methods]


def _aligned(rows: list[list[str]]) -> str:
    plain = [[cell.replace("*", "") for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in plain) for column in range(len(plain[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in plain)


def _charts(document: Document, accuracies: Accuracies) -> None:
    document.heading("The paper's charts")
    for fraction in accuracies.fractions:
        for start in range(0, len(accuracies.datasets), SETS_PER_CHART):
            some = accuracies.datasets[start : start + SETS_PER_CHART]
            methods = [method for method in PAPER_METHODS if method in accuracies.methods] or accuracies.methods
            means = [[accuracies.mean(fraction, dataset, method) for dataset in some] for method in methods]
            values, halves = (
                np.array([[np.nan if one is None else getattr(one, name) for one in row] for row in means])
                for name in ("mean", "half")
            )
            if not np.isfinite(values).any():
                continue
            what = f"Accuracy with {fraction:.0%} for training on {', '.join(some)}"
            ax = plots.accuracy_bars(some, [METHODS[method].label for method in methods], values, halves)
            ax.set_title(what, fontsize=10)
            document.picture(f"accuracy-{round(100 * fraction)}-{start // SETS_PER_CHART + 1}", what, ax.figure)


def _maps(document: Document, accuracies: Accuracies, data_dir: Any) -> Any:
    """The maps of Robot, or of the first set with several classes in a run without it; what `claims.judge_maps` needs."""
    several = [name for name in ("robot", *accuracies.datasets) if name in accuracies.datasets and name not in TWO_CLASSES]
    if not several:
        return None
    dataset = several[0]
    document.heading(f"Maps of {dataset} in the plane")
    try:
        found, y_train, y_test = plane_maps(dataset, data_dir)
    except DataError as error:
        document.text(f"Not drawn, for want of the data: {error}")
        return None
    figure, axes = plots.grid(1, len(found))
    for ax, one in zip(axes.ravel(), found, strict=True):
        legend = "auto" if one is found[-1] else False
        plots.point_map(one.test, y_test, train=one.train, y_train=y_train, legend=legend, ax=ax)
        ax.set_title(f"{one.name}: {one.accuracy:.1f} % by 5 neighbours", fontsize=10)
    what = f"{len(y_train)} training points (pale) and {len(y_test)} test points of {dataset}, by kernel PCA, Method 1 and Method 2"
    document.picture(f"maps-{dataset}", what, figure)
    document.text(what + ".")
    classes = [str(label) for label in np.unique(y_test)]
    document.table(
        ["map", "neighbour accuracy", *(f"silhouette of {label}" for label in classes)],
        [[one.name, f"{one.accuracy:.1f} %", *(f"{value:.2f}" for value in one.silhouettes)] for one in found],
    )
    return found if dataset == "robot" else None


def _claims(document: Document, accuracies: Accuracies, mapped: Any) -> None:
    if not set(accuracies.datasets) & set(PAPER_SETS):
        return
    document.heading("What the paper says, and what this run shows")
    verdicts = judge(accuracies)
    if mapped is not None:
        names = [one.name for one in mapped]
        verdicts.append(
            judge_maps(names, {one.name: one.accuracy for one in mapped}, {one.name: one.silhouettes for one in mapped})
        )
    document.table(["claim", "evidence", "verdict"], [[one.claim, one.evidence, one.verdict] for one in verdicts])


def _tests(document: Document, accuracies: Accuracies) -> None:
    document.heading("Differences that are more than chance")
    document.text(
        "For each of our methods and each rival: the data sets on which it is significantly better, undecided, and significantly "
        f"worse (level {LEVEL}), by a paired t test over common splits and by the one corrected for their dependence (Nadeau and "
        "Bengio 2003); with a tenth for training the latter has next to no power. Last, the p-value of Wilcoxon's signed-rank test "
        "over the means of all data sets."
    )
    rows = []
    for fraction in accuracies.fractions:
        for one in (*OURS, "automatic"):
            for other in accuracies.methods:
                if one == other or one not in accuracies.methods:
                    continue
                counts = [_decided(accuracies, fraction, one, other, corrected=corrected) for corrected in (False, True)]
                p = accuracies.wilcoxon(fraction, one, other)
                labels = METHODS[one].label, METHODS[other].label
                rows.append([f"{fraction:.0%}", *labels, *counts, f"{p:.3f}" if np.isfinite(p) else ""])
    document.table(["training", "method", "against", "better / undecided / worse", "corrected", "Wilcoxon p"], rows)
    for fraction in accuracies.fractions:
        methods, ranks = accuracies.ranks(fraction)
        datasets, _ = accuracies.complete(fraction)
        if len(datasets) < 2 or len(methods) < 3:
            continue
        difference = critical_difference(len(methods), len(datasets))
        what = (
            f"Mean ranks over {len(datasets)} data sets, {fraction:.0%} for training; joined: no significant difference (Nemenyi)"
        )
        ax = plots.critical_difference([METHODS[method].label for method in methods], ranks, difference)
        document.picture(f"ranks-{round(100 * fraction)}", what, ax.figure)
        document.text(f"{what}. Friedman's test that all are alike: p = {accuracies.friedman(fraction):.2g}.")


def _decided(accuracies: Accuracies, fraction: float, one: str, other: str, *, corrected: bool) -> str:
    tested = [accuracies.paired_t(fraction, dataset, one, other, corrected=corrected) for dataset in accuracies.datasets]
    tested = [pair for pair in tested if np.isfinite(pair[1])]
    better = sum(difference > 0 and p < LEVEL for difference, p in tested)
    worse = sum(difference < 0 and p < LEVEL for difference, p in tested)
    return f"{better} / {len(tested) - better - worse} / {worse}"


def _times(document: Document, accuracies: Accuracies) -> None:
    document.heading("Time")
    document.text("Median seconds of a trial on one core, tuning included.")
    header = ["training", *(METHODS[method].label for method in accuracies.methods)]
    rows = [
        [f"{fraction:.0%}", *(f"{accuracies.seconds(fraction, method):.2g}" for method in accuracies.methods)]
        for fraction in accuracies.fractions
    ]
    document.table(header, rows)
