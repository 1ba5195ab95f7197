"""The two models of the paper as scikit-learn estimators: their parameters, and what sets them apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from numpy.typing import ArrayLike

from outmetric.estimators.fitting import Fit
from outmetric.estimators.kernel_metric import KernelMetric, as_used
from outmetric.estimators.metric import exportable_metric
from outmetric.estimators.summary import number
from outmetric.foundation import storable
from outmetric.problem import FixedKernelModel, LearnedKernelModel


@storable("FixedKernelMetric")
@exportable_metric
class FixedKernelMetric(KernelMetric):
    """Model 1 of the paper: a given matrix-valued kernel, and a Mahalanobis metric learned in the output space.

    Learns f(x) = sum_j K(x, x_j) c_j in R^m and L by minimising

        1/2 |f|^2 + gamma/2 sum_ij s_ij |L (f(x_i) - f(x_j))|^2 + lambda/2 sum_i |L (f(x_i) - y_i)|^2
                  + rho tr(L) + epsilon/2 |L|_F^2

    by alternating exact steps; the objective never rises. Distances are |L (f(x) - f(x'))|.

    Parameters
    ----------
    n_components : int, optional
        Dimension m of the output space, which bounds the rank of the metric. Default: classes - 1, the number of real targets,
        or the number of outputs of the kernel. Components beyond what the targets span stay zero.
    kernel : str, callable, Scalar or MatrixKernel
        "additive" (a Gaussian in each feature, averaged), a name of scikit-learn's pairwise kernels, a function of two points (any
        objects), "precomputed" (X has the values, perhaps sparse), or any kernel of `outmetric.kernels`.
    bandwidth : float, "median" or sequence of m of those
        For "rbf", exp(-|x-x'|_2^2 / (2 bandwidth^2)), and "laplacian", exp(-|x-x'|_1 / bandwidth). "median": the median distance
        between distinct training points, of which "0.5*median" is a multiple. A sequence makes the paper's diagonal kernel, one
        spread for each component.
    kernel_params : dict, optional
        Further arguments of the kernel function; a ``gamma`` here takes the place of the bandwidth.
    collocation_weight : float or "auto"
        gamma: how strongly similar points are drawn together. "auto": regression_weight / (2 * mean total similarity of a point).
    regression_weight : float
        lambda: how strongly points are drawn to their targets; reads like the inverse ridge of kernel regression.
    metric_penalty : float or "auto"
        rho: sets the size of L. "auto": L is about -I for the zero map.
    metric_ridge : float
        epsilon in units of tr(lambda Y'Y)/m. Towards 0 the metric is the paper's, whose objective has no minimum; towards
        infinity it is Euclidean. 0 runs the paper's own update and reports `Status.DIVERGED` where that diverges.
    prototypes : "simplex", "onehot" or array of shape (classes, m)
        Target of each class. "simplex": vertices of a regular simplex, or points spread on the sphere if m < classes - 1; in the
        latter case it matters which class gets which point, and they are given in the order of the labels.
    similarity : "class", array or sparse matrix of shape (n, n), or callable
        s_ij. "class": 1 within a class and 0 otherwise; for real targets a Gaussian of target distance. A callable gets y and
        returns the matrix. Must be symmetric with 0 <= s_ij <= s_ii.
    class_weight : None, "balanced" or dict
        How often the rows of each class count, beside ``sample_weight`` of `fit`; "balanced": all classes as much as one another.
    unlabeled : None, "graph" or "ignore"
        Rows may lack a label: -1 among whole numbers, NaN among real targets, None or NaN among words. None: -1 is a class like
        any other, and what is missing an error. "ignore": such rows are left out. "graph": they enter through the neighbour graph
        of all rows, along which the map is to be smooth. The map is then made of landmarks: of up to 2000 rows all, so that the
        fit is exact.
    graph_weight : float
        Of the graph: 1 pulls neighbours together about as much as classes are pulled together by default. 0 is "ignore".
    graph_neighbors : int
        How many of its nearest rows each row is joined to.
    input_metric : None, "diagonal" or "full"
        Whether the kernel learns how to compare inputs: the learned metric is pulled back to the inputs, as a weight for each
        feature or as a whole Mahalanobis metric, and the fit is repeated with it. Only kernels with gradients can; "laplacian" and
        "additive" learn weights only.
    n_rounds : int
        How many times, 0 to 5, if there is an ``input_metric``. Let validation choose: `MetricSearchCV` has all numbers of rounds
        for the price of the largest.
    solver : "auto", "spectral", "dense", "cg" or "nystroem"
        How the map for a given metric is computed. "spectral": one reduction of the kernel matrix for all iterations, separable
        kernels only. "dense": a Cholesky factorisation in each iteration, any kernel, few samples. "cg": conjugate gradients, any
        kernel; if the kernel matrix does not fit in memory it is evaluated in row blocks. "nystroem": the map is made of kernel
        functions at some landmarks only; one pass over the data in time linear in n, kernels k(x, x') B and diagonal ones. "auto":
        the first of these that suits; "nystroem" with more than 10,000 samples, or fewer where memory is short.
    n_landmarks : int, optional
        For "nystroem", which a number here asks for; at most as many as there are samples. Default: 1000.
    landmarks : "kmeans++", "uniform", "leverage", or array of points
        How they are chosen: far apart in the kernel's space, at random, or by ridge leverage scores; or the landmarks themselves.
    max_iter : int
        At most this many alternations.
    tol : float
        Stop when the gradient in L, relative to rho, is below. With "cg" coordinates are exact to about a tenth of its square root.
    random_state : int, RandomState or None
        For landmarks, and to draw points for the median distance of more than 2000 points.
    verbose : bool
        Report every iteration on stderr.

    Attributes
    ----------
    coefficients_ : array of shape (n, m)
        With landmarks (n_landmarks_, m).
    metric_factor_, metric_matrix_ : arrays of shape (m, m)
        L, which is negative definite, and A = L'L.
    metric_penalty_, metric_ridge_, collocation_weight_ : float
        rho, epsilon and gamma as used, in absolute terms.
    prototypes_, classes_ : arrays, or None for real targets
    target_scales_ : array of shape (n_targets,), or None for classes
        Several real targets are divided by their standard deviations, these, so that none decides because of its unit; `map`
        multiplies by them again.
    bandwidth_ : float, array or None
    n_samples_fit_ : int
        Samples learned from.
    objective_ : float
    objective_terms_ : Terms
        Its four terms.
    history_ : tuple of Record
        One record for each iteration.
    n_iter_ : int
    status_ : Status
        How the fit ended; its value is advice.
    solver_, solver_reason_ : str
        The solver used, and why.
    input_metric_ : array of shape (d,) or (d, d)
        With an input metric: T T' of the transformed inputs x T, its largest entry about 1; a (d,) array is its diagonal.
    feature_importances_ : array of shape (d,)
        Its diagonal, times the variance of each feature; they sum to 1.
    rounds_ : tuple of Round
        Input metric, bandwidth, objective, optimality and status of each round, the first without input metric.
    landmarks_, landmark_indices_, n_landmarks_, landmark_rank_
        With landmarks: the points; which rows of X they are (None if they were given, or came in blocks); their number; and how
        many directions of them are above round-off.
    n_unlabeled_ : int
        Rows without labels or targets, if there were such, which ``n_samples_fit_`` does not count.
    transduction_ : array
        Then: y of all rows, where it was missing the class whose prototype is nearest, or the target that the map gives (unless
        ``n_components`` reduced the targets).
    metric_ : OutputMetric
        The fitted model without the estimator.

    Examples
    --------
    >>> from outmetric import FixedKernelMetric
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), FixedKernelMetric(bandwidth=[1.0, 3.0]), KNeighborsClassifier())
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    """

    model = FixedKernelModel

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str | Sequence[float | str] | ArrayLike = "median",
        kernel_params: Mapping[str, Any] | None = None,
        collocation_weight: float | Literal["auto"] = "auto",
        regression_weight: float = 3.0,
        metric_penalty: float | Literal["auto"] = "auto",
        metric_ridge: float = 3.0,
        prototypes: str | ArrayLike = "simplex",
        similarity: Any = "class",
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        unlabeled: Literal["graph", "ignore"] | None = None,
        graph_weight: float = 1.0,
        graph_neighbors: int = 7,
        input_metric: Literal["diagonal", "full"] | None = None,
        n_rounds: int = 2,
        solver: str = "auto",
        n_landmarks: int | None = None,
        landmarks: str | ArrayLike = "kmeans++",
        max_iter: int = 1000,
        tol: float = 1e-8,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.kernel_params = kernel_params
        self.collocation_weight = collocation_weight
        self.regression_weight = regression_weight
        self.metric_penalty = metric_penalty
        self.metric_ridge = metric_ridge
        self.prototypes = prototypes
        self.similarity = similarity
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.graph_weight = graph_weight
        self.graph_neighbors = graph_neighbors
        self.input_metric = input_metric
        self.n_rounds = n_rounds
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _weights(self) -> list[str]:
        penalty = as_used("metric penalty", self.metric_penalty, self.metric_penalty_)
        return [*super()._weights(), penalty, f"metric ridge {number(self.metric_ridge_)} (absolute)"]

    def _certificate(self) -> str:
        return f"gradient in the metric {self.history_[-1].optimality:.1e}, relatively: a stationary point, if it is small"


@storable("LearnedKernelMetric")
@exportable_metric
class LearnedKernelMetric(KernelMetric):
    """Model 2 of the paper: the kernel k(x, x') B with a learned matrix B, which determines the metric.

    Learns f(x) = sum_j k(x, x_j) B c_j in R^m and B by minimising

        1/2 |f|^2 + gamma/2 sum_ij s_ij |f(x_i) - f(x_j)|^2 + lambda/2 sum_i |f(x_i) - y_i|^2 + rho/2 |B|_F^2,   B >= 0.

    The problem is jointly convex in (f, B) and is solved to a certified duality gap. Distances are |f(x) - f(x')|.

    Parameters
    ----------
    n_components : int, optional
        Dimension m of the output space, which bounds the rank of the metric. Default: classes - 1, or the number of real targets.
        Components beyond what the targets span stay zero.
    kernel : str, callable or Scalar
        "additive" (a Gaussian in each feature, averaged), a name of scikit-learn's pairwise kernels, a function of two points (any
        objects), "precomputed" (X has the values, perhaps sparse), or of `outmetric.kernels` a `Scalar` or a kernel on strings.
    bandwidth : float or "median"
        For "rbf", exp(-|x-x'|_2^2 / (2 bandwidth^2)), and "laplacian", exp(-|x-x'|_1 / bandwidth). "median": the median distance
        between distinct training points, of which "0.5*median" is a multiple.
    kernel_params : dict, optional
        Further arguments of the kernel function; a ``gamma`` here takes the place of the bandwidth.
    collocation_weight : float or "auto"
        gamma: how strongly similar points are drawn together. "auto": regression_weight / (2 * mean total similarity of a point).
    regression_weight : float
        lambda: how strongly points are drawn to their targets; reads like the inverse ridge of kernel regression.
    output_penalty : float or "auto"
        rho: sets the size of B. "auto": tr(C'K C)/(2 m) for the map with B = I, so that B has about the size of the identity.
    prototypes : "simplex", "onehot" or array of shape (classes, m)
        Target of each class. "simplex": vertices of a regular simplex, or points spread on the sphere if m < classes - 1; in the
        latter case it matters which class gets which point, and they are given in the order of the labels.
    similarity : "class", array or sparse matrix of shape (n, n), or callable
        s_ij. "class": 1 within a class and 0 otherwise; for real targets a Gaussian of target distance. A callable gets y and
        returns the matrix. Must be symmetric with 0 <= s_ij <= s_ii.
    class_weight : None, "balanced" or dict
        How often the rows of each class count, beside ``sample_weight`` of `fit`; "balanced": all classes as much as one another.
    unlabeled : None, "graph" or "ignore"
        Rows may lack a label: -1 among whole numbers, NaN among real targets, None or NaN among words. None: -1 is a class like
        any other, and what is missing an error. "ignore": such rows are left out. "graph": they enter through the neighbour graph
        of all rows, along which the map is to be smooth. The map is then made of landmarks: of up to 2000 rows all, so that the
        fit is exact.
    graph_weight : float
        Of the graph: 1 pulls neighbours together about as much as classes are pulled together by default. 0 is "ignore".
    graph_neighbors : int
        How many of its nearest rows each row is joined to.
    input_metric : None, "diagonal" or "full"
        Whether the kernel learns how to compare inputs: the learned metric is pulled back to the inputs, as a weight for each
        feature or as a whole Mahalanobis metric, and the fit is repeated with it. Only kernels with gradients can; "laplacian" and
        "additive" learn weights only.
    n_rounds : int
        How many times, 0 to 5, if there is an ``input_metric``. Let validation choose: `MetricSearchCV` has all numbers of rounds
        for the price of the largest.
    solver : "auto", "spectral", "dense", "cg" or "nystroem"
        How the map for a given metric is computed. "spectral": one reduction of the kernel matrix for all iterations, separable
        kernels only. "dense": a Cholesky factorisation in each iteration, any kernel, few samples. "cg": conjugate gradients, any
        kernel; if the kernel matrix does not fit in memory it is evaluated in row blocks. "nystroem": the map is made of kernel
        functions at some landmarks only; one pass over the data in time linear in n, kernels k(x, x') B and diagonal ones. "auto":
        the first of these that suits; "nystroem" with more than 10,000 samples, or fewer where memory is short.
    n_landmarks : int, optional
        For "nystroem", which a number here asks for; at most as many as there are samples. Default: 1000.
    landmarks : "kmeans++", "uniform", "leverage", or array of points
        How they are chosen: far apart in the kernel's space, at random, or by ridge leverage scores; or the landmarks themselves.
    max_iter : int
        At most this many alternations.
    tol : float
        Stop when the duality gap, relative to the objective, is below. The map is then exact to about its square root: coordinates
        differ from the optimum by some 1e-6 of their size with the default, and by less than 1e-4 with 1e-8.
    random_state : int, RandomState or None
        For landmarks, and to draw points for the median distance of more than 2000 points.
    verbose : bool
        Report every iteration on stderr.

    Attributes
    ----------
    coefficients_ : array of shape (n, m)
        With landmarks (n_landmarks_, m).
    output_matrix_ : array of shape (m, m)
        B; at the optimum B = C'K C / (2 rho).
    dual_gap_ : float
        The certificate: objective - lower bound, relative to the objective or to what the map takes off that of the zero map,
        lambda <Y, F> / 2, whichever is smaller. The map is then right to about its root.
    metric_factor_, metric_matrix_ : arrays of shape (m, m)
        The identity: distances are Euclidean in `map`. (The paper's A = B^2 belongs to the coordinates C'k(x).)
    output_penalty_, collocation_weight_ : float
        rho and gamma as used.
    prototypes_, classes_ : arrays, or None for real targets
    target_scales_ : array of shape (n_targets,), or None for classes
        Several real targets are divided by their standard deviations, these, so that none decides because of its unit; `map`
        multiplies by them again.
    bandwidth_ : float or None
    n_samples_fit_ : int
        Samples learned from.
    objective_ : float
    objective_terms_ : Terms
        Its four terms.
    history_ : tuple of Record
        One record for each iteration.
    n_iter_ : int
    status_ : Status
        How the fit ended; its value is advice.
    solver_, solver_reason_ : str
        The solver used, and why.
    input_metric_ : array of shape (d,) or (d, d)
        With an input metric: T T' of the transformed inputs x T, its largest entry about 1; a (d,) array is its diagonal.
    feature_importances_ : array of shape (d,)
        Its diagonal, times the variance of each feature; they sum to 1.
    rounds_ : tuple of Round
        Input metric, bandwidth, objective, optimality and status of each round, the first without input metric.
    landmarks_, landmark_indices_, n_landmarks_, landmark_rank_
        With landmarks: the points; which rows of X they are (None if they were given, or came in blocks); their number; and how
        many directions of them are above round-off.
    n_unlabeled_ : int
        Rows without labels or targets, if there were such, which ``n_samples_fit_`` does not count.
    transduction_ : array
        Then: y of all rows, where it was missing the class whose prototype is nearest, or the target that the map gives (unless
        ``n_components`` reduced the targets).
    metric_ : OutputMetric
        The fitted model without the estimator.

    Examples
    --------
    >>> from outmetric import LearnedKernelMetric
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = make_pipeline(StandardScaler(), LearnedKernelMetric(), KNeighborsClassifier())
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.9
    True
    >>> model[1].dual_gap_ < 1e-10
    True
    """

    model = LearnedKernelModel

    def __init__(
        self,
        n_components: int | None = None,
        *,
        kernel: Any = "rbf",
        bandwidth: float | str = "median",
        kernel_params: Mapping[str, Any] | None = None,
        collocation_weight: float | Literal["auto"] = "auto",
        regression_weight: float = 3.0,
        output_penalty: float | Literal["auto"] = "auto",
        prototypes: str | ArrayLike = "simplex",
        similarity: Any = "class",
        class_weight: Literal["balanced"] | Mapping[Any, float] | None = None,
        unlabeled: Literal["graph", "ignore"] | None = None,
        graph_weight: float = 1.0,
        graph_neighbors: int = 7,
        input_metric: Literal["diagonal", "full"] | None = None,
        n_rounds: int = 2,
        solver: str = "auto",
        n_landmarks: int | None = None,
        landmarks: str | ArrayLike = "kmeans++",
        max_iter: int = 1000,
        tol: float = 1e-12,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.kernel_params = kernel_params
        self.collocation_weight = collocation_weight
        self.regression_weight = regression_weight
        self.output_penalty = output_penalty
        self.prototypes = prototypes
        self.similarity = similarity
        self.class_weight = class_weight
        self.unlabeled = unlabeled
        self.graph_weight = graph_weight
        self.graph_neighbors = graph_neighbors
        self.input_metric = input_metric
        self.n_rounds = n_rounds
        self.solver = solver
        self.n_landmarks = n_landmarks
        self.landmarks = landmarks
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def _store(self, fit: Fit) -> None:
        super()._store(fit)
        self.output_matrix_ = fit.trained.factors.output_matrix
        self.dual_gap_ = fit.trained.history[-1].gap

    def _weights(self) -> list[str]:
        return [*super()._weights(), as_used("output penalty", self.output_penalty, self.output_penalty_)]

    def _certificate(self) -> str:
        return f"duality gap {self.dual_gap_:.1e}: no better map exists but for this, relative to what this one gains"
