"""
Forest kernels
==============

Where classes follow thresholds of single features, smooth kernels lose to forests. But a forest is a kernel, too: the share of
its trees in which two rows fall into the same leaf. The metric is then learned on top of it. Here a chessboard is hidden among
eight features.
"""

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from outmetric import LearnedKernelMetric, kernels, plots

rng = np.random.default_rng(0)
X = rng.uniform(size=(1500, 8))
y = (np.floor(3 * X[:, 0]) + np.floor(3 * X[:, 1])) % 3  # nine fields, three classes
train = np.arange(1500) < 500

forest = kernels.Forest(n_estimators=300)
methods = {
    "Gaussian kernel": make_pipeline(LearnedKernelMetric(regression_weight=10.0), KNeighborsClassifier(15)),
    "random forest": RandomForestClassifier(300, random_state=0),
    "metric on a forest kernel": make_pipeline(LearnedKernelMetric(kernel=forest, random_state=0), KNeighborsClassifier(15)),
}

# %%
# What each of them says in the plane of the two features that matter, all others at their middle, and how many new rows each
# names right:

ticks = np.linspace(0.005, 0.995, 60)
plane = np.full((60 * 60, 8), 0.5)
plane[:, :2] = np.array(np.meshgrid(ticks, ticks)).reshape(2, -1).T
figure, axes = plots.grid(1, 3, size=4)
right = {}
for ax, (name, method) in zip(axes[0], methods.items(), strict=True):
    right[name] = method.fit(X[train], y[train]).score(X[~train], y[~train])
    ax.imshow(method.predict(plane).reshape(60, 60), origin="lower", extent=(0, 1, 0, 1), cmap="Pastel1")
    ax.scatter(*X[train, :2].T, c=y[train], s=6, cmap="Set1")
    ax.set(title=f"{name}: {right[name]:.0%}", xticks=[0, 1 / 3, 2 / 3, 1], yticks=[0, 1 / 3, 2 / 3, 1])
    ax.set_xticklabels(["0", "1/3", "2/3", "1"])
    ax.set_yticklabels(["0", "1/3", "2/3", "1"])
