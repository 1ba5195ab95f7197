"""
Few labels
==========

Labels are dear, rows are cheap. With ``unlabeled="graph"`` rows without a label (-1) take part through the graph of their
neighbours, along which the map should change little. That helps where classes are clusters, as digits are, and labels are very
few; elsewhere it may not, so let a search choose among graph weights with 0 among them (:doc:`how </supervision>`).
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import shuffle

from outmetric import LearnedKernelMetric, plots

X, y = shuffle(*load_digits(return_X_y=True), n_samples=800, random_state=0)
numbers = [40, 80, 160]
kinds = {"labelled rows only": "ignore", "all rows": "graph"}
right = {name: [] for name in kinds}
for number in numbers:
    known = np.arange(len(y)) < number
    for name, kind in kinds.items():
        metric = LearnedKernelMetric(bandwidth="0.5*median", regression_weight=100.0, unlabeled=kind, graph_weight=0.3)
        places = metric.fit(X, np.where(known, y, -1)).transform(X)
        voters = KNeighborsClassifier(3).fit(places[known], y[known])
        right[name].append(voters.score(places[~known], y[~known]))

# %%
# All rows have taken part in one of the two fits, with few labels:

figure, axes = plots.grid(1, 1, size=5)
ax = axes[0, 0]
for (name, shares), mark in zip(right.items(), ("o--", "s-"), strict=True):
    ax.plot(numbers, 100 * np.array(shares), mark, label=name)
ax.set(xlabel="rows with a label", ylabel="rows without a label named right, in %", xticks=numbers)
ax.legend()
