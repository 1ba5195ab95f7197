"""Writes what the README says in numbers, from results/*.json, between its markers: nothing there is typed by hand."""

from __future__ import annotations

import json
import re
from pathlib import Path

FOLDER = Path(__file__).parent
README = FOLDER.parent / "README.md"
# Whom people would ask otherwise, in the words of the results, and what the README calls them.
METHODS = {
    "outmetric": "**outmetric**, nothing set",
    "SVM, tuned": "SVM, tuned",
    "CatBoost": "CatBoost",
    "extra trees": "extra trees, 500",
    "xRFM, tuned": "xRFM, tuned",
    "random forest": "random forest, 500 trees",
    "LightGBM": "LightGBM",
    "HistGradientBoosting": "HistGradientBoosting",
    "k-NN, tuned": "k nearest neighbours, tuned",
}


def results(name: str) -> list[dict[str, str]]:
    """The rows of a committed result."""
    return json.loads((FOLDER / "results" / f"{name}.json").read_text())


def methods() -> str:
    """Accuracy, R2, ranks and times beside what people use now.

    Of R2 the median: its mean is decided by the one table with targets of heavy tails.
    """
    classes, real = ({row["method"]: row for row in results(name)} for name in ("tables-classes", "tables-real"))
    (n_classes,), (n_real,) = ({row["sets"] for row in rows.values()} for rows in (classes, real))
    lines = [
        f"| | mean accuracy, {n_classes} tables | mean rank | median R², {n_real} tables | mean rank | time of fits, forest = 1 |",
        "|---|---|---|---|---|---|",
    ]
    for method, title in METHODS.items():
        one, other = classes[method], real[method]
        accuracy = f"{float(one['mean accuracy']):.1%}".replace("%", " %")
        times = f"{one['median time / forest']} and {other['median time / forest']}"
        cells = [title, accuracy, one["mean rank"], f"{float(other['median R2']):.3f}", other["mean rank"], times]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def caption() -> str:
    """What the map of digits is worth."""
    (row,) = (row for row in results("maps") if row["set"] == "digits")
    share, umap, nca, control = (row[method] for method in ("MetricMap", "UMAP, supervised", "NCA", "its control"))
    return (
        f"*Digits. In `MetricMap`, at the right, every row is where a model that has not seen it puts it: {share} % of new rows\n"
        f"fall among their like ({umap} % in supervised UMAP, {nca} % in NCA; means of five splits). Below, the same with\n"
        f"permuted labels: {control} %, and nothing to see.*"
    )


PARTS = {"methods": methods, "map": caption}


def filled(text: str) -> str:
    """A text with what the results say between its markers."""
    for name, part in PARTS.items():
        between = re.compile(rf"(?<=<!-- {name}: written by benchmarks/readme.py -->\n).*?(?=<!-- end -->)", flags=re.DOTALL)
        count = len(between.findall(text))
        if count != 1:
            raise ValueError(f"the README has {count} places for {name!r}, not one.")
        text = between.sub(f"{part()}\n".replace("\\", r"\\"), text)
    return text


if __name__ == "__main__":
    README.write_text(filled(README.read_text(encoding="utf-8")), encoding="utf-8")
