"""
Your own similarity
===================

What is alike need not be what has the same label. Here points lie on a ring, and are alike as far as their angles are near: the
metric is learned from a matrix of similarities, and what comes out is the ring itself, though the inputs are eight distorted and
noisy readings.
"""

import numpy as np

from outmetric import LearnedKernelMetric, plots

rng = np.random.default_rng(0)
angles = rng.uniform(0, 2 * np.pi, 400)
ring = np.column_stack([np.cos(angles), np.sin(angles)])
readings = np.tanh(2 * ring @ rng.normal(size=(2, 8))) + 0.3 * rng.normal(size=(400, 8))


def alike(targets):
    """Near 1 for directions that differ by little, and 0 from a sixth of a turn on."""
    between = np.arccos(np.clip(targets @ targets.T, -1, 1))
    return np.maximum(0, 1 - between / (np.pi / 3))


model = LearnedKernelMetric(similarity=alike, regression_weight=1.0, collocation_weight=0.05, bandwidth="2*median")
model.fit(readings[:200], ring[:200])
places = model.transform(readings[200:])

# %%
# Left, the first two readings of rows that the model has not seen; right, where it puts them. Colours are the angles, which the
# picture knows and the model does not.

figure, axes = plots.grid(1, 2, size=4.5)
for ax, points, name in ((axes[0, 0], readings[200:, :2], "two of eight readings"), (axes[0, 1], places, "in the learned metric")):
    ax.scatter(*points.T, c=angles[200:], cmap="twilight", s=18)
    ax.set(title=name, aspect="equal")
errors = np.angle(np.exp(1j * (np.arctan2(places[:, 1], places[:, 0]) - angles[200:])))
print(f"angles of new rows are right to {np.degrees(np.median(np.abs(errors))):.0f} degrees in the median")
