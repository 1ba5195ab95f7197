"""
Real targets, with intervals
============================

`MetricRegressor` learns numbers, with nothing to set. Its intervals come from the errors that its committee makes on rows it was
fitted without, so they hold about as often as they say, whatever the noise looks like; here it is skewed.
"""

import numpy as np
from sklearn.datasets import make_friedman1

from outmetric import MetricRegressor, plots

X, y = make_friedman1(1250, n_features=8, random_state=0)
y += np.random.default_rng(0).exponential(2.0, size=len(y))
X, y, X_new, y_new = X[:250], y[:250], X[250:], y[250:]
model = MetricRegressor(random_state=0).fit(X, y)

# %%
# Intervals for 80 % of the rows. All have the same width: what is promised holds on average over rows, not for each of them.

lower, upper = model.predict_interval(X_new, coverage=0.8).T
held = (lower <= y_new) & (y_new <= upper)
r2 = model.score(X_new, y_new)
print(f"R2 {r2:.2f}, intervals hold {held.mean():.0%} of 1000 new rows")

order = np.argsort(model.predict(X_new))
figure, axes = plots.grid(1, 1, size=5.5)
ax = axes[0, 0]
ax.fill_between(range(len(order)), lower[order], upper[order], color="#cfe3f5", label="interval for 80 %")
for inside, colour, name in ((True, "#0072b2", "inside"), (False, "#d55e00", "outside")):
    shown = held[order] == inside
    ax.plot(np.flatnonzero(shown), y_new[order][shown], ".", markersize=3, color=colour, label=f"{name}: {shown.mean():.0%}")
ax.set(xlabel="new rows, by what is predicted", ylabel="target")
ax.legend()
