"""A preparation of one's own, which goes into pipelines, searches and model files."""

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

import outmetric.storage


class Clipper(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Cut off what lies beyond the outer percentiles of the training rows."""

    def __init__(self, percent=1.0):
        self.percent = percent

    def fit(self, X, y=None):
        """Learn the bounds of each feature."""
        X = validate_data(self, X)
        self.low_, self.high_ = np.percentile(X, [self.percent, 100 - self.percent], axis=0)
        return self

    def transform(self, X):
        """Values within the bounds."""
        check_is_fitted(self)
        return np.clip(validate_data(self, X, reset=False), self.low_, self.high_)


def check(clipper, file_size):
    """Whether the parts of what a file holds fit together."""
    if hasattr(clipper, "low_") and not clipper.low_.shape == clipper.high_.shape == (clipper.n_features_in_,):
        raise ValueError("a Clipper needs a lower and an upper bound for each feature")


outmetric.storage.register(Clipper, "mylab.Clipper", check=check)
