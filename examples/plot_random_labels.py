"""
Random labels
=============

Give a supervised method labels that mean nothing, and look at the rows that it was fitted on: it will find them well apart. This
is why a map of training rows proves nothing. `MetricMap.control` fits the same map on permuted labels, and shows what "nothing"
looks like.
"""

import numpy as np
from sklearn.datasets import load_digits

from outmetric import LearnedKernelMetric, MetricMap, plots

X, y = load_digits(return_X_y=True)
X, y = X[:500] / 16, y[:500] % 3  # three labels, which have room in the plane
permuted = np.random.default_rng(0).permutation(y)

# %%
# At the left the fitted map, where every row lies at its label's corner. In the middle the same labels, but each row is where a
# model that has not seen it puts it: nothing to see. At the right the true labels, drawn as honestly.

metric = LearnedKernelMetric(bandwidth="0.5*median", regression_weight=100.0)
figure, axes = plots.grid(1, 3, size=4.2)
fitted = metric.fit(X, permuted).transform(X)
plots.honest_map(fitted, permuted, title="permuted labels, where the model was told", ax=axes[0, 0])

control = MetricMap(metric, random_state=0).control(X, y)
honest = MetricMap(metric, random_state=0).fit(X, y)
for ax, found, kind in ((axes[0, 1], control, "permuted"), (axes[0, 2], honest, "true")):
    share = found.quality_.in_map
    plots.honest_map(found.embedding_, found.y_, title=f"{kind} labels, honestly: {share:.0%} right", ax=ax)

# %%
# What the map says of itself:

print(honest.quality_.text())
