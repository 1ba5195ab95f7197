"""
What the model looks at
=======================

The learned metric, pulled back to the inputs, says which features matter, and its contributions say why two rows are far apart.
Five of the ten features below decide, and the model finds out which.
"""

import pandas as pd
from sklearn.datasets import load_wine, make_friedman1
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import LearnedKernelMetric, MetricSearchCV, plots

X, y = make_friedman1(500, n_features=10, noise=1.0, random_state=0)
names = [f"feature {k}{' (decides)' if k < 5 else ''}" for k in range(10)]
model = LearnedKernelMetric(regression_weight=30.0, collocation_weight=0.0, input_metric="diagonal")
model.fit(pd.DataFrame(X, columns=names), y[:, None])
ax = plots.importances(model)

# %%
# Why is one wine far from another? The contributions add up to the squared distance.

wines = load_wine(as_frame=True)
metric = make_pipeline(StandardScaler(), LearnedKernelMetric(kernel="exponential", input_metric="full"))
search = MetricSearchCV(metric, {"learnedkernelmetric__n_rounds": [0, 1, 2]}).fit(wines.data, wines.target)
reasons = search.explain(wines.data[:1], wines.data[60:61])
print(f"sum of contributions {reasons.contributions.sum():.3f}, squared distance {reasons.squared_distances[0]:.3f}")
ax = plots.reasons(search, wines.data.iloc[0], wines.data.iloc[60], most=8)
