"""How much faster than a reduction of the kernel matrix is an exact fit by conjugate gradients from landmarks?"""

import numpy as np
from measure import publish, seconds

from outmetric import FixedKernelMetric, LearnedKernelMetric
from outmetric.datasets import make_waveform

SAMPLES, TOL = 8000, 1e-6


def main() -> None:
    X, y = make_waveform(SAMPLES, random_state=0)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    rows = []
    for name, model in (("model 1", FixedKernelMetric), ("model 2", LearnedKernelMetric)):
        fits = {}

        def fit(solver: str, model: type = model, fits: dict = fits) -> None:
            fits[solver] = model(solver=solver, tol=TOL, random_state=0).fit(X, y)

        taken = seconds({"cg": lambda: fit("cg"), "spectral": lambda: fit("spectral")}, repeats=1)
        one, other = fits["cg"], fits["spectral"]
        rows.append(
            {
                "fit": name,
                "n": SAMPLES,
                "cg": taken["cg"],
                "spectral": taken["spectral"],
                "times faster": taken["spectral"] / taken["cg"],
                "products with K": sum(record.solver_iterations + 1 for record in one.history_),
                "gap or gradient": one.history_[-1].optimality,
                "objectives differ by": abs(one.objective_ / other.objective_ - 1),
                "coordinates by": float(np.abs(one.transform(X[:500]) - other.transform(X[:500])).max()),
            }
        )
    publish("exact", rows)


if __name__ == "__main__":
    main()
