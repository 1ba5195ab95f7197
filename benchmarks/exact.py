"""What does an exact fit cost beside its kernel matrix and the products that it used, and what does a kernel matrix cost?"""

import numpy as np
from measure import is_quick, peak_arrays, publish, seconds
from scipy.spatial.distance import cdist
from sklearn.datasets import make_classification
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.svm import SVC

from outmetric import FixedKernelMetric, LearnedKernelMetric
from outmetric.datasets import make_waveform
from outmetric.kernels import Scalar, symmetric_product
from outmetric.solvers import krylov

SAMPLES, TOL = (2000, 4000, 8000, 16000), 1e-8
# Beyond, a reduction of the kernel matrix takes long.
COMPARED = 4000


def data_sets(n: int) -> dict:
    waveforms = make_waveform(n, random_state=0)
    generated = make_classification(n, 60, n_informative=12, n_classes=5, random_state=0)
    return {
        name: ((X - X.mean(axis=0)) / X.std(axis=0), y) for name, (X, y) in (("waveforms", waveforms), ("generated", generated))
    }


def counted(model, X, y) -> int:
    """Products with the kernel matrix in a fit: those of the solver, and one for the certificate."""
    plain, count = krylov.symmetric_product, [1]

    def product(*arguments):
        count[0] += 1
        return plain(*arguments)

    krylov.symmetric_product = product
    model.fit(X, y)
    krylov.symmetric_product = plain
    return count[0]


def measure(name: str, model, X, y, name_of_data: str, repeats: int) -> dict:
    n = len(X)
    products = counted(model, X, y)
    kernel = Scalar("rbf", bandwidth=model.bandwidth_).resolve(X, np.random.default_rng(0))
    gram, vectors = kernel.gram(X), np.ones(model.coefficients_.shape)
    taken = seconds(
        {
            "fit": lambda: model.fit(X, y),
            "kernel": lambda: kernel.gram(X),
            "product": lambda: symmetric_product(gram, vectors),
            "SVC": lambda: SVC(gamma=0.5 / model.bandwidth_**2).fit(X, y),
        },
        repeats,
    )
    floor = taken["kernel"] + products * taken["product"]
    row = {
        "data": name_of_data,
        "n": n,
        "fit": name,
        "seconds": taken["fit"],
        "kernel matrix": taken["kernel"],
        "product": taken["product"],
        "products": products,
        "times matrix + products": taken["fit"] / floor,
        "SVC": taken["SVC"],
        "times SVC": taken["fit"] / taken["SVC"],
        "n x n arrays": peak_arrays(model, X, y),
        "gap or gradient": model.history_[-1].optimality,
        "objectives differ by": "",
        "coordinates by": "",
    }
    if n <= COMPARED:
        other = type(model)(solver="spectral", random_state=0).fit(X, y)
        ours, theirs = model.transform(X[:500]), other.transform(X[:500])
        row["objectives differ by"] = abs(model.objective_ / other.objective_ - 1)
        row["coordinates by"] = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return row


def kernel_matrices(n: int) -> list:
    rows = []
    for name, (X, _) in data_sets(n).items():
        for word in ("rbf", "exponential", "laplacian"):
            kernel = Scalar(word).resolve(X, np.random.default_rng(0))
            width = kernel.kernel.bandwidth
            others = {
                "rbf": ("rbf_kernel", lambda X=X, width=width: rbf_kernel(X, gamma=0.5 / width**2)),
                "exponential": ("cdist and exp", lambda X=X, width=width: np.exp(-cdist(X, X) / width)),
                "laplacian": ("laplacian_kernel", lambda X=X, width=width: laplacian_kernel(X, gamma=1 / width)),
            }
            beside, other = others[word]
            tasks = {
                "ours": lambda kernel=kernel, X=X: kernel.gram(X),
                "other": other,
                "cdist": lambda X=X, norm=kernel.kernel.norm: cdist(X, X, norm),
            }
            taken = seconds(tasks, 3)
            rows.append(
                {
                    "data": name,
                    "n": n,
                    "kernel": word,
                    "seconds": taken["ours"],
                    "beside": beside,
                    "its seconds": taken["other"],
                    "times faster": taken["other"] / taken["ours"],
                    "cdist alone": taken["cdist"],
                }
            )
    return rows


def main() -> None:
    samples = SAMPLES[:1] if is_quick() else SAMPLES
    publish("exact-kernels", kernel_matrices(2000 if is_quick() else 4000))
    rows = []
    for n in samples:
        for name_of_data, (X, y) in data_sets(n).items():
            for name, kind in (("model 2", LearnedKernelMetric), ("model 1", FixedKernelMetric)):
                model = kind(solver="cg", tol=TOL, random_state=0)
                rows.append(measure(name, model, X, y, name_of_data, 3 if n <= 4000 else 1))
    publish("exact", rows)


if __name__ == "__main__":
    main()
