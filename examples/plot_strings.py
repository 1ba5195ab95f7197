"""
Strings
=======

Strings have no columns, but they have kernels. `WeightedDegree` compares substrings where they are, `Spectrum` wherever they are.
In these windows of 60 letters one of two motifs stands near the middle, or neither, with every fifth letter of it replaced.
"""

import numpy as np

from outmetric import LearnedKernelMetric, MetricSearchCV, plots
from outmetric.kernels import Spectrum, WeightedDegree

LENGTH = 60
rng = np.random.default_rng(0)
letters = rng.choice(list("ACGT"), (600, LENGTH))
classes = np.array(["donor", "acceptor", "neither"])[np.arange(600) % 3]
for row, name in zip(letters, classes, strict=True):
    motif = np.array(list({"donor": "GGTAAGTA", "acceptor": "TTTCCAGG", "neither": ""}[name]), dtype=row.dtype)
    kept = np.flatnonzero(rng.random(len(motif)) < 0.8)
    row[LENGTH // 2 - 4 + rng.integers(-1, 2) + kept] = motif[kept]
windows = ["".join(row) for row in letters]

# %%
# To know that positions matter, and where to look, is worth more than anything that could be tuned. Pictures and shares are
# those of new strings.

near_the_middle = np.exp(-np.abs(np.arange(LENGTH) - (LENGTH - 1) / 2) / 5)
kernels = {
    "substrings anywhere": [Spectrum(length) for length in (2, 3, 4)],
    "substrings at their places": [WeightedDegree(degree) for degree in (2, 4, 8)],
    "the same, near the middle": [WeightedDegree(degree, position_weights=near_the_middle) for degree in (2, 4, 8)],
}
train, new = windows[:200], windows[200:]
figure, axes = plots.grid(1, 3, size=4.2)
right = {}
for ax, (name, choices) in zip(axes[0], kernels.items(), strict=True):
    grid = {"kernel": choices, "regression_weight": [1.0, 10.0, 100.0]}
    search = MetricSearchCV(LearnedKernelMetric(n_components=2), grid, n_neighbors=[5, 15, 25]).fit(train, classes[:200])
    right[name] = np.mean(search.predict(new) == classes[200:])
    plots.output_map(search, new, classes[200:], ax=ax)
    ax.set_title(f"{name}: {right[name]:.0%}", fontsize=10)
