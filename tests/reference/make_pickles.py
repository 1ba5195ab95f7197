"""Makes pickles-0.1.pickle with version 0.1, for the test that later versions read it."""

import pickle
import sys
import warnings

import numpy as np
import sklearn
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outmetric import FixedKernelMetric, LearnedKernelMetric, MetricClassifier, MetricSearchCV, kernels
from outmetric.baselines import ITML, LMNN, KernelITML, KernelLMNN

X, y = load_iris(return_X_y=True)
X, y = X[::3], y[::3]
words = np.array([f"{'ab' * (k % 3)}c{k % 5}" for k in range(len(y))], dtype=object)
warnings.simplefilter("ignore")
grid = {"learnedkernelmetric__bandwidth": [0.5, 2.0]}
MODELS = {
    "fixed": (FixedKernelMetric(bandwidth=[1.0, 2.0]), X),
    "learned": (LearnedKernelMetric(), X),
    "landmarks": (LearnedKernelMetric(n_landmarks=20, random_state=0), X),
    "strings": (LearnedKernelMetric(kernel=kernels.Spectrum(2)), words),
    "matrix": (FixedKernelMetric(kernel=kernels.Separable("rbf", np.eye(2)) + kernels.Separable("linear", np.eye(2))), X),
    "search": (MetricSearchCV(make_pipeline(StandardScaler(), LearnedKernelMetric()), grid, cv=3), X),
    "classifier": (MetricClassifier(time_budget=0.1, random_state=0), X),
    "lmnn": (LMNN(), X),
    "kernel lmnn": (KernelLMNN(), X),
    "itml": (ITML(random_state=0), X),
    "kernel itml": (KernelITML(0.9, random_state=0), X),
}

if __name__ == "__main__":
    found = {"scikit-learn": sklearn.__version__}
    for name, (model, data) in MODELS.items():
        coordinates = np.asarray(model.fit(data, y).transform(data[:5]))
        found[name] = (pickle.dumps(model, protocol=4), data[:5], coordinates)
    with open(sys.argv[1], "wb") as file:
        pickle.dump(found, file, protocol=4)
