r"""
The paper's Method 1 diverges, and the cure
===========================================

The objective of the paper's first model has no minimum: where the kernel can fit the targets, the residual scatter M tends to
zero, and the metric step L = -rho M^-1 grows without bound. A ridge, epsilon/2 \|L\|^2, bounds the objective from below, and
every step descends. ``metric_ridge=0`` runs the paper's own update, for the record, and says how it ended. :doc:`The notes
</notes-on-the-paper>` have more.
"""

import warnings

import numpy as np
from sklearn.datasets import load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from outmetric import FixedKernelMetric, plots

X, y = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
settings = {"bandwidth": 1.0, "regression_weight": 100.0}
ridges = [0.0, 0.01, 0.1, 1.0]

# %%
# (Fits that are stopped early, or diverge, say so by a warning.) The size of L after one iteration, two, three, and so on: left
# to itself it explodes at once; with a ridge it settles.

warnings.simplefilter("ignore", ConvergenceWarning)
figure, axes = plots.grid(1, 2, size=4.8)
sizes, status = {}, {}
for ridge, mark in zip(ridges, ("o--", "s-", "^-", "d-"), strict=True):
    sizes[ridge] = []
    for iterations in range(1, 8):
        model = FixedKernelMetric(metric_ridge=ridge, max_iter=iterations, **settings).fit(X, y)
        sizes[ridge].append(np.linalg.norm(model.metric_factor_))
    status[ridge] = model.status_
    name = "no ridge, as in the paper" if ridge == 0 else f"metric_ridge={ridge:g}"
    axes[0, 0].semilogy(range(1, 8), sizes[ridge], mark, label=name)
    print(f"{name}: {model.status_.name}")
axes[0, 0].set(xlabel="iterations", ylabel="size of L")
axes[0, 0].legend(loc=(0.42, 0.62))

model = FixedKernelMetric(metric_ridge=0.1, **settings).fit(X, y)
ax = plots.history(model, ax=axes[0, 1])  # until it has converged
