"""
Tuning
======

`MetricSearchCV` gives the scores of scikit-learn's `GridSearchCV` over the metric and a vote of neighbours, but all candidates
that share a kernel are trained on one decomposition, and one sorted list of neighbours serves every number of them.
"""

from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, MetricSearchCV, plots

X, y = load_wine(return_X_y=True)
grid = {
    "learnedkernelmetric__bandwidth": [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0],
    "learnedkernelmetric__regression_weight": [0.01, 0.1, 1.0, 10.0, 100.0, 1000.0],
    "learnedkernelmetric__collocation_weight": ["auto", 0.0],
}
search = MetricSearchCV(make_pipeline(StandardScaler(), LearnedKernelMetric()), grid, n_neighbors=[1, 3, 5, 9, 15]).fit(X, y)
tried, decompositions = len(search.cv_results_["params"]), search.n_decompositions_
print(f"{tried} candidates in five folds, {decompositions} decompositions; best: {search.best_params_}")

# %%
# Bandwidth and regression weight decide; neighbours come third.

figure, axes = plots.grid(1, 2, size=4.8)
plots.search_map(search, ax=axes[0, 0])
ax = plots.search_path(search, "n_neighbors", ax=axes[0, 1])
