"""
A million rows
==============

Beyond 10,000 rows the map is made of kernel functions at landmarks, and all that the data have to say is gathered in one pass.
Then every weight, and cross-validation too, costs next to nothing. This page is built with a tenth of a million rows; give it
``1_000_000``, and it takes at most ten times as long.
"""

import time

import numpy as np

from outmetric import LearnedKernelMetric, MetricSearchCV, plots
from outmetric.datasets import make_waveform

ROWS = 100_000
X, y = make_waveform(ROWS + 5_000, random_state=0)
X = X.astype(np.float32)

numbers = [300, 1_000, 3_000, 10_000, 30_000, ROWS]
grid = {"regression_weight": [0.3, 3.0, 30.0, 300.0], "collocation_weight": ["auto", 0.0]}
seconds, right = [], []
for number in numbers:
    began = time.perf_counter()
    metric = LearnedKernelMetric(n_landmarks=200, random_state=0)
    search = MetricSearchCV(metric, grid, n_neighbors=[15, 31, 63]).fit(X[:number], y[:number])
    seconds.append(time.perf_counter() - began)
    right.append(np.mean(search.predict(X[ROWS:]) == y[ROWS:]))

# %%
# Eight settings with three numbers of neighbours, in five folds. The best possible accuracy on these waves is about 86 %.

figure, axes = plots.grid(1, 2, size=4.5)
axes[0, 0].loglog(numbers, seconds, "o-")
axes[0, 0].set(xlabel="rows", ylabel="seconds for the whole search", ylim=(0.1, 100))
axes[0, 1].semilogx(numbers, 100 * np.array(right), "o-")
axes[0, 1].set(xlabel="rows", ylabel="new rows named right, in %", ylim=(80, 90))
print(search.best_estimator_.solver_reason_)
