"""Settings chosen by cross-validation: votes, searches, and what the best candidate predicts and finds far or near."""

from outmetric.choosing.novelty import Novelty
from outmetric.choosing.prediction import BestMapMixin, committee_facts
from outmetric.choosing.reasons import (
    REFERENCES,
    beside,
    column_names,
    explain,
    importances_of,
    reasons_of_nearness,
    unnamed_rows,
    usual_contributions,
)
from outmetric.choosing.scores import CountedVotes, PredictedValues, scorer_of, smoothed_votes
from outmetric.choosing.scoring import Scoring, some_rows
from outmetric.choosing.search import MetricSearchCV
from outmetric.choosing.votes import (
    AverageVote,
    check_voters,
    counted_votes,
    neighbour_averages,
    neighbour_votes,
    neighbours_to_onnx,
)

__all__ = [
    "REFERENCES",
    "AverageVote",
    "BestMapMixin",
    "CountedVotes",
    "MetricSearchCV",
    "Novelty",
    "PredictedValues",
    "Scoring",
    "beside",
    "check_voters",
    "column_names",
    "committee_facts",
    "counted_votes",
    "explain",
    "importances_of",
    "neighbour_averages",
    "neighbour_votes",
    "neighbours_to_onnx",
    "reasons_of_nearness",
    "scorer_of",
    "smoothed_votes",
    "some_rows",
    "unnamed_rows",
    "usual_contributions",
]
