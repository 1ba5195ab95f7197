"""The best candidates of a search, fitted on all data, that vote together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier

from outmetric.choosing.votes import counted_votes, smoothed_votes
from outmetric.foundation import Array, storable
from outmetric.rows import EXACT_MEMBERS, LANDMARKS

COMMITTEE = 25
# With more than this, fewer maps vote; with more than EXACT_MEMBERS they are made of landmarks, at half a point of accuracy.
MANY_SAMPLES, LARGE_COMMITTEE = 2000, 5


@storable("Candidate", holds_models=True)
@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to map the data that was scored, with the number of neighbours that vote, and its cross-validated score.

    The map is ``pipeline`` with ``params``; ``description`` says the same for people.
    """

    pipeline: Any
    params: dict[str, Any]
    n_neighbors: int
    score: float
    description: dict[str, Any]

    @property
    def preparation(self) -> tuple[Any, ...]:
        """Scaling, kernel and power of the feature weights."""
        return tuple(self.description[name] for name in ("scaling", "kernel", "power"))


@storable("Member", holds_models=True)
@dataclass(frozen=True, eq=False)
class Member:
    """A candidate fitted on all training data, with its voters."""

    candidate: Candidate
    pipeline: Any
    voters: KNeighborsClassifier

    def probabilities(self, X: Any) -> Array:
        return smoothed_votes(counted_votes(self.voters, self.pipeline.transform(X)), self.candidate.n_neighbors)


def fit_committee(candidates: list[Candidate], size: int, X: Any, labels: Array) -> list[Member]:
    """The best candidates fitted on all data, each map once: with the number of neighbours that serves it best."""
    members: dict[Any, Member] = {}
    failure = None
    for candidate in candidates:
        key = tuple(sorted((name, str(value)) for name, value in candidate.description.items()))
        if key in members:
            continue
        try:
            chosen = clone(candidate.pipeline).set_params(**candidate.params)
            if len(labels) > EXACT_MEMBERS:
                chosen.set_params(metric__n_landmarks=LANDMARKS)
            fitted = chosen.fit(X, labels)
        except ValueError as error:  # sound in the folds, but not with all data
            failure = error
            continue
        voters = KNeighborsClassifier(candidate.n_neighbors).fit(fitted.transform(X), labels)
        members[key] = Member(candidate, fitted, voters)
        if len(members) == size:
            break
    if not members and failure is not None:
        raise failure
    return list(members.values())
