"""What fitted estimators say of themselves: a short text, and the same as a table below scikit-learn's diagram in notebooks."""

from __future__ import annotations

import html
import reprlib
import textwrap
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from outmetric.foundation import Array

WIDTH = 120
# How many names are told before the rest is left out, and how long one may be.
NAMES, NAME = 6, 24
# Features that a summary names.
SHOWN_FEATURES = 5
# Colours come from the page, light or dark; notebooks align cells to the right and stripe rows unless told otherwise.
STYLE = """
.outmetric-summary { margin: 0.4em 0; font-size: 0.9em; }
.outmetric-summary .outmetric-summary { font-size: inherit; }
.outmetric-summary summary { cursor: pointer; }
.outmetric-summary table { border-collapse: collapse; margin: 0.3em 0 0 0; max-width: 60em; font-size: inherit; }
.outmetric-summary table tr { background: none !important; border-top: 1px solid rgba(128, 128, 128, 0.3); }
.outmetric-summary table :is(th, td) {
  padding: 0.2em 0.8em 0.2em 0; text-align: left !important; vertical-align: top; white-space: normal; border: none;
}
.outmetric-summary table th { font-weight: 600; white-space: nowrap; }
.outmetric-summary svg { vertical-align: middle; margin-left: 0.8em; }
"""


@dataclass(frozen=True)
class Fact:
    """A line of a summary.

    ``course`` holds positive numbers, one for each iteration, of which pages show a small curve on a logarithmic scale.
    """

    name: str
    text: str
    course: Sequence[float] = ()


class Described(BaseEstimator):
    """An estimator that states `_facts` about what it has learned."""

    @abstractmethod
    def _facts(self) -> list[Fact]:
        """What there is to say once it is fitted."""

    def summary(self) -> str:
        """What was learned, from what and how, as a short text."""
        check_is_fitted(self)
        facts = self._facts()
        width = max(len(fact.name) for fact in facts) + 4
        lines = [
            textwrap.fill(fact.text, WIDTH, initial_indent=f"  {fact.name}".ljust(width), subsequent_indent=" " * width)
            for fact in facts
        ]
        return "\n".join([type(self).__name__, *lines])

    def _repr_html_inner(self) -> str:
        return str(estimator_html_repr(self)) + _below(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in shown:  # not with set_config(display="text")
            shown["text/html"] = self._repr_html_inner()
        return shown


def number(value: float) -> str:
    """A number with four digits."""
    return f"{value:.4g}"


def setting(value: Any) -> str:
    """The value of a parameter, shortened."""
    if isinstance(value, np.generic):  # whose repr names its type
        value = value.item()
    if isinstance(value, str):
        return value
    return number(value) if isinstance(value, float) else reprlib.repr(value)


def settings_text(values: Mapping[str, Any]) -> str:
    """Parameters with their values."""
    return ", ".join(f"{name} {setting(value)}" for name, value in values.items())


def shortened(name: Any, length: int = NAME) -> str:
    """A name, with its middle left out if it is long."""
    text = str(name)
    return text if len(text) <= length else f"{text[: length * 2 // 3 - 1]}…{text[-(length // 3) :]}"


def leading_features(names: Sequence[Any], importances: Array) -> str:
    """The most important features, with their shares."""
    leading = [place for place in np.argsort(-importances, kind="stable")[:SHOWN_FEATURES] if importances[place] > 0]
    return ", ".join(f"{shortened(names[place])} {100 * importances[place]:.3g} %" for place in leading)


def listed(names: Iterable[Any], length: int = NAME) -> str:
    """The first few of many names."""
    texts = [shortened(name, length) for name in names]
    return ", ".join(texts if len(texts) <= NAMES else [*texts[: NAMES - 1], "…"])


def data(n_samples: int, n_features: int | None, classes: Any, target_scales: Array | None = None) -> str:
    """How much was learned from; ``classes`` is None for real targets, and empty for pairs; ``target_scales`` were divided by."""
    parts = [f"{n_samples} samples"]
    if n_features is not None:
        parts.append(f"{n_features} features")
    if classes is None:
        parts.append("real targets")
        if target_scales is not None and len(target_scales) > 1:
            parts.append(f"each divided by its standard deviation ({listed(number(scale) for scale in target_scales)})")
    elif len(classes):
        parts.append(f"{len(classes)} classes ({listed(classes)})")
    return ", ".join(parts)


def _below(estimator: Described) -> str:
    """What stands below the diagram: nothing before the fit; then the facts, and what was chosen, if anything was."""
    table = _table(estimator)
    best = getattr(estimator, "best_estimator_", None)
    if not table or best is None:
        return table
    last = best[-1] if isinstance(best, Pipeline) else best
    inner = str(estimator_html_repr(best)) + (_table(last) if isinstance(last, Described) else "")
    return f'{table}<details class="outmetric-summary"><summary>The best map</summary>{inner}</details>'


def _table(estimator: Described) -> str:
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return ""
    rows = "".join(
        f'<tr><th scope="row">{html.escape(fact.name)}</th><td>{html.escape(fact.text)}{_curve(fact.course)}</td></tr>'
        for fact in estimator._facts()
    )
    return (
        f'<style>{STYLE}</style><details class="outmetric-summary" open><summary>What {html.escape(type(estimator).__name__)} '
        f"learned</summary><table><tbody>{rows}</tbody></table></details>"
    )


def _curve(course: Sequence[float], width: int = 120, height: int = 18) -> str:
    values = np.asarray(course, dtype=float)
    values = values[np.isfinite(values) & (values > 0)]
    if len(values) < 3:
        return ""
    heights = np.log10(values)
    rise = (heights - heights.min()) / max(np.ptp(heights), 1e-9)
    across = np.linspace(1, width - 1, len(values))
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in zip(across, height - 1 - rise * (height - 2), strict=True))
    label = f"from {values[0]:.1e} to {values[-1]:.1e} in {len(values)} iterations, on a logarithmic scale"
    return (
        f'<svg role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}"><title>{label}</title>'
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )
