"""
What B tells about classes
==========================

Model 2 learns a matrix B of the output space. With one target direction for each class, a difference of classes is a direction c
in that space, and c'Bc / c'c says how much of the map B grants it: much where the data support the difference, little where they
hardly show it.
"""

import numpy as np

from outmetric import LearnedKernelMetric, plots

rng = np.random.default_rng(0)
names = np.array(["cat", "dog", "lynx", "trout", "wolf"])
centres = np.array([[0.0, 0.0], [6.0, 0.0], [0.9, 0.0], [3.0, 6.0], [6.0, 0.9]])  # two pairs are hard to tell apart
label = np.arange(500) % 5
X = centres[label] + rng.normal(size=(500, 2))

model = LearnedKernelMetric(prototypes="onehot", n_components=5, regression_weight=0.1).fit(X, names[label])
contrasts = {
    "trout or not": [-1, -1, -1, 4, -1],
    "cats or dogs": [1, -1, 1, 0, -1],
    "dog or wolf": [0, 1, 0, 0, -1],
    "cat or lynx": [1, 0, -1, 0, 0],
}
shares = {name: c @ model.output_matrix_ @ c / (c @ c) for name, c in ((n, np.array(c)) for n, c in contrasts.items())}

# %%
# This holds for small regression weights. With large ones even noisy differences are fitted, and B follows what is hard to fit.

figure, axes = plots.grid(1, 3, size=4)
for name in names:
    axes[0, 0].plot(*X[names[label] == name].T, ".", markersize=4, label=name)
axes[0, 0].set(title="the rows", aspect="equal")
axes[0, 0].legend(fontsize=8)
ax = plots.metric_matrix(model, "B", ax=axes[0, 1])
ax.set_xticks(range(1, 6), model.classes_)
ax.set_yticks(range(1, 6), model.classes_)
ax.set_title("B")
axes[0, 2].barh(list(shares), list(shares.values()), color="#3f8fdd")
axes[0, 2].set(title="B along differences of classes")
