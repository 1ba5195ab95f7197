"""
Same or different
=================

Are two rows of the same person? The metric learns from sixty people, the threshold is chosen on thirty others, and what is told
of it is measured on thirty more: nobody is in two of the three groups.
"""

import numpy as np

from outmetric import LearnedKernelMetric, plots
from outmetric.verification import PairVerifier, draw_pairs, split_identities

rng = np.random.default_rng(0)
people = np.repeat(np.arange(120), 8)  # eight rows of each; the last features are mostly noise
X = rng.normal(size=(120, 10))[people] + 0.6 * np.linspace(0.2, 1.5, 10) * rng.normal(size=(960, 10))

train, rest = split_identities(people, test_size=0.5, random_state=0)
known, new = (rest[part] for part in split_identities(people[rest], test_size=0.5, random_state=0))
metric = LearnedKernelMetric(kernel="linear").fit(X[train], people[train])

# %%
# At most 1 % of different pairs are to be taken for the same. The ring is where the threshold lies on people that it does not
# know.

pairs = draw_pairs(people[known], "all")
verifier = PairVerifier(metric).calibrate(X[known][pairs.rows], pairs.y, strategy="far", far=0.01)
pairs = draw_pairs(people[new], "all")
shown = X[new][pairs.rows]
areas = {"learned": verifier.score(shown, pairs.y), "Euclidean": PairVerifier(None).score(shown, pairs.y)}
axes = plots.verification({"learned": verifier, "Euclidean": None}, shown, pairs.y)

# %%
# With an interval that resamples *people*, since pairs that share one err together:

print(verifier.equal_error_rate(shown, pairs.y, pairs.identities, n_bootstrap=200, random_state=0))
