"""
Digits, mapped honestly
=======================

A map in the plane should say how well classes can be told apart, also for rows that nobody has seen. Principal components do not
know the labels; NCA knows them, but two linear directions are few for ten digits. `MetricMap` puts each row where a model that
has *not* seen it would put it, and lays these places out in the plane.
"""

from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis

from outmetric import LearnedKernelMetric, MetricMap, plots

X, y = load_digits(return_X_y=True)
X, X_new, y, y_new = train_test_split(X / 16, y, train_size=600, stratify=y, random_state=0)

methods = {
    "principal components": PCA(2),
    "NCA": NeighborhoodComponentsAnalysis(2, max_iter=50, random_state=0),
    "MetricMap": MetricMap(LearnedKernelMetric(bandwidth="0.5*median", regression_weight=100.0), random_state=0),
}

# %%
# Above each picture stands what counts: how many *new* rows have neighbours of their own kind in the plane.

figure, axes = plots.grid(1, 3, size=4.2)
right = {}
for ax, (name, method) in zip(axes[0], methods.items(), strict=True):
    places = method.fit_transform(X, y)
    right[name] = KNeighborsClassifier(5).fit(places, y).score(method.transform(X_new), y_new)
    plots.honest_map(places, y, title=f"{name}: {right[name]:.0%} of new rows right", legend=False, ax=ax)

# %%
# Supervised UMAP is not installed where this page is built. ``examples/honest_map.py`` draws it where it is, as in the picture
# below; its second row has permuted labels, of which only a map that is fair to unseen rows shows that they mean nothing.
#
# .. image:: ../honest-map.png
#    :alt: Digits by principal components, NCA, supervised UMAP and MetricMap; below, with permuted labels
