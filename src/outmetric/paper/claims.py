"""What the paper says of its results in words, and what this run says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from outmetric.paper.protocol import METHODS, PAPER_METHODS, PAPER_SETS
from outmetric.paper.statistics import LEVEL, Accuracies

OURS = ("method1", "method2")
RIVALS = tuple(name for name in PAPER_METHODS if name not in OURS)
LEARNED = tuple(name for name in PAPER_METHODS if name != "knn")
KERNEL = ("itml", "klmnn", *OURS)
# Differences in points that count as alike, and as slight.
ALIKE, SLIGHTLY = 2.0, 3.0


@dataclass(frozen=True)
class Verdict:
    """A claim, what the run shows of it, and one of "reproduced", "partly", "not reproduced", "not run"."""

    claim: str
    evidence: str
    verdict: str


class _NotRunError(Exception):
    """Something that the claim is about was not run."""


def judge(accuracies: Accuracies) -> list[Verdict]:
    """All claims of the paper on accuracies, in its order."""
    found = []
    for claim, check in CLAIMS.items():
        try:
            verdict, evidence = check(accuracies)
        except _NotRunError as missing:
            verdict, evidence = "not run", str(missing)
        found.append(Verdict(claim, evidence, verdict))
    return found


def _mean(accuracies: Accuracies, fraction: float, dataset: str, method: str) -> float:
    found = accuracies.mean(fraction, dataset, method)
    if found is None:
        raise _NotRunError(f"{METHODS[method].label} on {dataset} at {fraction:.0%}")
    return found.mean


def _best(accuracies: Accuracies, fraction: float, dataset: str, methods: tuple[str, ...]) -> tuple[str, float]:
    values = {method: _mean(accuracies, fraction, dataset, method) for method in methods}
    best = max(values, key=lambda method: values[method])
    return best, values[best]


def _sets(accuracies: Accuracies) -> list[str]:
    missing = [name for name in PAPER_SETS if name not in accuracies.datasets]
    if missing:
        raise _NotRunError(f"without {', '.join(missing)}")
    return list(PAPER_SETS)


def _share(part: int, whole: int, *, full: float, half: float) -> str:
    return "reproduced" if part >= full * whole else "partly" if part >= half * whole else "not reproduced"


def _all_beat_euclidean(accuracies: Accuracies) -> tuple[str, str]:
    sets = _sets(accuracies)
    beaten = {
        name: [method for method in LEARNED if _mean(accuracies, 0.1, name, method) > _mean(accuracies, 0.1, name, "knn")]
        for name in sets
    }
    everywhere = sum(len(methods) == len(LEARNED) for methods in beaten.values())
    pairs = sum(map(len, beaten.values()))
    text = f"all five are above k-NN on {everywhere} of {len(sets)} sets; {pairs} of {5 * len(sets)} pairs of method and set"
    return _share(everywhere, len(sets), full=0.875, half=0.5), text


def _both_beat_rivals(accuracies: Accuracies) -> tuple[str, str]:
    sets = _sets(accuracies)
    won = {one: sum(_mean(accuracies, 0.1, name, one) > _best(accuracies, 0.1, name, RIVALS)[1] for name in sets) for one in OURS}
    text = ", ".join(f"{METHODS[one].label} is above all four on {count} of {len(sets)} sets" for one, count in won.items())
    return _share(min(won.values()), len(sets), full=0.75, half=0.5), text


def _kernels_beat_lmnn(accuracies: Accuracies) -> tuple[str, str]:
    sets = _sets(accuracies)
    above = [_mean(accuracies, 0.1, name, method) > _mean(accuracies, 0.1, name, "lmnn") for name in sets for method in KERNEL]
    return _share(sum(above), len(above), full=2 / 3, half=0.5), f"{sum(above)} of {len(above)} pairs of kernel method and set"


def _ours_are_best(fraction: float, exceptions: tuple[str, ...], full: float) -> Callable[[Accuracies], tuple[str, str]]:
    def check(accuracies: Accuracies) -> tuple[str, str]:
        sets = [name for name in _sets(accuracies) if name not in exceptions]
        best = {name: _best(accuracies, fraction, name, PAPER_METHODS)[0] for name in sets}
        won = [name for name in sets if best[name] in OURS]
        lost = ", ".join(f"{name} ({METHODS[best[name]].label})" for name in sets if name not in won)
        text = f"one of the two is best of the six on {len(won)} of {len(sets)} sets" + (f"; not on {lost}" if lost else "")
        return _share(len(won), len(sets), full=full, half=0.5), text

    return check


def _vehicle(accuracies: Accuracies) -> tuple[str, str]:
    ours = _best(accuracies, 0.1, "vehicle", OURS)
    above = [_mean(accuracies, 0.1, "vehicle", name) - ours[1] for name in ("itml", "klmnn")]
    text = f"ITML {above[0]:+.1f}, KLMNN {above[1]:+.1f} points against the better of ours ({ours[1]:.1f} %)"
    slightly = all(0 < value <= SLIGHTLY for value in above)
    return "reproduced" if slightly else "partly" if max(above) > 0 else "not reproduced", text


def _pima(fraction: float) -> Callable[[Accuracies], tuple[str, str]]:
    def check(accuracies: Accuracies) -> tuple[str, str]:
        base = _mean(accuracies, fraction, "pima", "knn")
        gains = {name: _mean(accuracies, fraction, "pima", name) - base for name in LEARNED}
        others = [gains[name] for name in ("lmnn", "itml", "klmnn")]
        significant = [
            name
            for name in OURS
            if gains[name] > 0 and accuracies.paired_t(fraction, "pima", name, "knn", corrected=False)[1] < LEVEL
        ]
        text = "gain over k-NN: " + ", ".join(f"{METHODS[name].label} {gains[name]:+.1f}" for name in LEARNED)
        text += f"; significant (paired t): {', '.join(METHODS[name].label for name in significant) or 'none of ours'}"
        alone = max(others) <= 0 if fraction == 0.1 else min(gains[name] for name in OURS) - max(others) > ALIKE
        return "reproduced" if len(significant) == 2 and alone else "partly" if significant else "not reproduced", text

    return check


def _molecular(accuracies: Accuracies) -> tuple[str, str]:
    klmnn, ours = _mean(accuracies, 0.5, "molecular", "klmnn"), _best(accuracies, 0.5, "molecular", OURS)[1]
    return ("reproduced" if klmnn > ours else "not reproduced"), f"KLMNN {klmnn:.1f} %, the better of ours {ours:.1f} %"


def _alike(accuracies: Accuracies) -> tuple[str, str]:
    widths = {}
    for name in ("robot", "cardio"):
        values = [_mean(accuracies, 0.5, name, method) for method in PAPER_METHODS]
        widths[name] = max(values) - min(values)
    text = "; ".join(f"{name}: {width:.1f} points between best and worst" for name, width in widths.items())
    return _share(sum(width <= ALIKE for width in widths.values()), 2, full=1.0, half=0.5), text


def _method1_competes(accuracies: Accuracies) -> tuple[str, str]:
    sets = _sets(accuracies)
    behind = {name: _best(accuracies, 0.5, name, PAPER_METHODS)[1] - _mean(accuracies, 0.5, name, "method1") for name in sets}
    close = [name for name in sets if behind[name] <= ALIKE]
    worst = max(sets, key=lambda name: behind[name])
    text = f"within {ALIKE:g} points of the best of the six on {len(close)} of {len(sets)} sets"
    text += f"; furthest behind on {worst} ({behind[worst]:.1f})"
    return _share(len(close), len(sets), full=1.0, half=0.5), text


CLAIMS: Mapping[str, Callable[[Accuracies], tuple[str, str]]] = {
    "10 %: for almost all sets, all five learned metrics outperform Euclidean k-NN": _all_beat_euclidean,
    "10 %: kernel methods usually outperform LMNN": _kernels_beat_lmnn,
    "10 %: both models typically outperform the other four": _both_beat_rivals,
    "10 %: the two models are best on all sets except Vehicle": _ours_are_best(0.1, ("vehicle",), full=1.0),
    "10 %: on Vehicle, ITML and KLMNN are slightly better": _vehicle,
    "10 %: on Pima no other learned metric improves on k-NN, the two models do, significantly": _pima(0.1),
    "50 %: the two models outperform the other four on most sets": _ours_are_best(0.5, (), full=0.625),
    "50 %: on Molecular, KLMNN is better": _molecular,
    "50 %: on Robot and Cardio all methods perform similarly": _alike,
    "50 %: on Pima the two models are much better than all others": _pima(0.5),
    "50 %: Method 1 is very competitive on all sets": _method1_competes,
}


def judge_maps(names: list[str], accuracy: Mapping[str, float], silhouettes: Mapping[str, np.ndarray]) -> Verdict:
    """The claim on the maps, by neighbour accuracy in the plane and by how well each class keeps to itself."""
    apart = {name: int(np.sum(silhouettes[name] > 0)) for name in names}
    text = "; ".join(
        f"{name}: {accuracy[name]:.1f} % by 5 neighbours, silhouettes {', '.join(f'{value:.2f}' for value in silhouettes[name])}"
        for name in names
    )
    classes = len(silhouettes[names[0]])
    theirs, ours = apart[names[0]], min(apart[name] for name in names[1:])
    better = ours > theirs and min(accuracy[name] for name in names[1:]) > accuracy[names[0]]
    verdict = "reproduced" if theirs <= 1 and ours == classes else "partly" if better else "not reproduced"
    return Verdict("KPCA separates only one class of Robot in the plane, the two models all four", text, verdict)
