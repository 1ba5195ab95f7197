"""Rows in the plane: a layout that keeps near what is near in the learned metric, places of new rows in it, and how true it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.manifold import trustworthiness
from sklearn.metrics import r2_score
from sklearn.neighbors import NearestNeighbors

from outmetric.foundation import Array, storable

# Neighbours that vote, in the plane as in the metric; and those whose places decide on a new row's.
VOTERS, PLACED_BY = 5, 7
# Rows by which trustworthiness is judged: it takes all their pairs.
TRUSTED_ROWS = 2000
# From so many rows on neighbours are approximate, and forces are interpolated.
MANY_ROWS = 10_000
# Steps of the layout, while near rows are drawn together more strongly, and then.
EARLY_STEPS, STEPS = 250, 500
# The spread of layouts that begin with an earlier one, about as they end.
SPREAD = 10.0
# Classes overlap if so many of the rows of one are taken for the other.
OVERLAP = 0.05


def lay_out(
    coordinates: Array,
    n_components: int,
    n_neighbors: int,
    start: Array | None,
    seed: int,
    n_jobs: int | None,
    tell: Callable[[int, int], object] | None = None,
) -> Array:
    """t-SNE (openTSNE) of points whose Euclidean distance is the learned metric.

    Parameters
    ----------
    coordinates : array of shape (n, m)
    n_components : 2 or 3
    n_neighbors : int
        About how many neighbours each row is kept near to (the perplexity).
    start : array of shape (n, n_components), optional
        Where the rows begin. Default: at their principal components.
    seed : int
    n_jobs : int, optional
    tell : function (done, total), optional
    """
    try:
        from openTSNE import TSNE
    except ImportError as error:
        raise ImportError("the layout of a map needs openTSNE: pip install 'outmetric[map]'") from error
    many = len(coordinates) > MANY_ROWS
    early = EARLY_STEPS if start is None else 0  # in which islands would change their places
    done = 0

    def count(iteration: int, divergence: float, embedding: Any) -> None:
        nonlocal done
        done += 50
        if tell is not None:
            tell(min(done, early + STEPS), early + STEPS)

    layout = TSNE(
        n_components,
        perplexity=min(n_neighbors, max(1.0, (len(coordinates) - 1) / 3)),
        early_exaggeration_iter=early,
        n_iter=STEPS,
        initialization="pca" if start is None else SPREAD * start / max(float(np.std(start, axis=0).max()), 1e-300),
        neighbors="annoy" if many else "exact",
        negative_gradient_method="fft" if many and n_components == 2 else "bh",
        callbacks=count,
        random_state=seed,
        n_jobs=n_jobs or 1,
    )
    return np.array(layout.fit(_apart(coordinates, seed)), dtype=np.float64)


def _apart(coordinates: Array, seed: int) -> Array:
    """Points of which none coincide: what lies at one place would stay there for ever, and a start needs some spread."""
    spread = float(np.std(coordinates)) or 1.0
    noise = np.random.default_rng(seed).normal(size=coordinates.shape)
    return np.asarray(coordinates + 1e-6 * spread * noise)


def places(new: Array, known: Array, embedding: Array) -> Array:
    """Where new points belong in a layout of known ones: at the median of the places of those nearest to them.

    A mean would lie between islands where neighbours are on several.
    """
    if not len(new):
        return np.empty((0, embedding.shape[1]))
    nearest = NearestNeighbors(n_neighbors=min(PLACED_BY, len(known))).fit(known).kneighbors(new, return_distance=False)
    return np.asarray(np.median(embedding[nearest], axis=1))


@storable("MapQuality")
@dataclass(frozen=True, eq=False)
class MapQuality:
    """How far a map may be believed, told by rows whose targets the map did not know when it placed them.

    Attributes
    ----------
    in_map, in_metric : float
        The share of rows that their five nearest neighbours name right, or for real targets the R2 of the neighbours' mean: in the
        map, and in the learned metric that it shows.
    trustworthiness : float
        From 0 to 1: whether neighbours in the map are neighbours in the metric (Venna and Kaski 2001).
    classes : array of shape (c,), or None for real targets
    confusion : array of shape (c, c), or None
        How many rows of a class (row) the neighbours in the map take for another (column).
    """

    in_map: float
    in_metric: float
    trustworthiness: float
    classes: Array | None = field(default=None, repr=False)
    confusion: Array | None = field(default=None, repr=False)

    @property
    def recall(self) -> dict[Any, float]:
        """The share of each class that its neighbours in the map name right; empty for real targets."""
        if self.classes is None or self.confusion is None:
            return {}
        shares = np.diagonal(self.confusion) / np.maximum(self.confusion.sum(axis=1), 1)
        return dict(zip(self.classes.tolist(), shares.tolist(), strict=True))

    @property
    def overlaps(self) -> list[tuple[Any, Any, float]]:
        """(class, other class, share of the class that its neighbours in the map take for the other), the largest first."""
        if self.classes is None or self.confusion is None:
            return []
        shares = self.confusion / np.maximum(self.confusion.sum(axis=1, keepdims=True), 1)
        np.fill_diagonal(shares, 0)
        found = [(float(shares[one, other]), one, other) for one, other in np.argwhere(shares > OVERLAP)]
        names = self.classes.tolist()
        return [(names[one], names[other], share) for share, one, other in sorted(found, key=lambda given: -given[0])]

    def text(self) -> str:
        """One line for people."""
        if self.classes is None:
            return f"R2 of neighbours, out of fold: {self.in_map:.2f} in this map, {self.in_metric:.2f} in the metric"
        return (
            f"{100 * self.in_map:.1f} % of rows named right by {VOTERS} neighbours, out of fold; "
            f"{100 * self.in_metric:.1f} % in the metric itself"
        )


def quality(embedding: Array, coordinates: Array, y: Array, classes: Array | None) -> MapQuality:
    """Of a map of rows whose coordinates are out of fold; ``y`` holds places of classes, or real targets (n, q)."""
    count = min(VOTERS, len(y) - 1)
    near = [NearestNeighbors(n_neighbors=count).fit(part).kneighbors(return_distance=False) for part in (embedding, coordinates)]
    some = np.arange(len(y))[:: max(1, -(-len(y) // TRUSTED_ROWS))]
    trusted = trustworthiness(coordinates[some], embedding[some], n_neighbors=max(1, min(VOTERS, (len(some) - 1) // 2)))
    if classes is None:
        in_map, in_metric = (float(r2_score(y, y[part].mean(axis=1))) for part in near)
        return MapQuality(in_map, in_metric, float(trusted))
    votes = [np.array([np.bincount(row, minlength=len(classes)).argmax() for row in y[part]]) for part in near]
    confusion = np.zeros((len(classes), len(classes)), dtype=int)
    np.add.at(confusion, (y, votes[0]), 1)
    in_map, in_metric = (float(np.mean(named == y)) for named in votes)
    return MapQuality(in_map, in_metric, float(trusted), classes, confusion)
