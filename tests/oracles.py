"""Naive transcriptions of the paper, to compare with. Imports nothing of outmetric; loops and inverses are welcome here.

Samples are rows: ``C`` and ``Y`` are the transposes of the paper's. ``blocks[i, j]`` is K(x_i, x_j), an (m, m) matrix.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy.linalg
import scipy.optimize


def gaussian(x, z, bandwidth):
    """k(x, x') = exp(-|x - x'|^2 / (2 bandwidth^2))."""
    return float(np.exp(-np.sum((np.asarray(x) - np.asarray(z)) ** 2) / (2 * bandwidth**2)))


def laplacian(x, z, bandwidth):
    return float(np.exp(-np.sum(np.abs(np.asarray(x) - np.asarray(z))) / bandwidth))


def spectrum(s, t, length, blended=False):
    """How many pairs of places have the same substring of this length (or of all lengths up to it)."""
    lengths = range(1, length + 1) if blended else [length]
    return float(sum(_same(s, i, t, j, d) for d in lengths for i in range(len(s)) for j in range(len(t))))


def weighted_degree(s, t, degree, shift=0, weights=None):
    """Raetsch, Sonnenburg and Schoelkopf 2005, with weights of positions that keep it symmetric."""
    weights = np.ones(len(s)) if weights is None else weights
    total = 0.0
    for d in range(1, degree + 1):
        beta = 2 * (degree - d + 1) / (degree * (degree + 1))
        for i in range(len(s)):
            for step in range(shift + 1):
                if i + step < len(s):
                    agree = _same(s, i + step, t, i, d) + _same(s, i, t, i + step, d)
                    total += beta * np.sqrt(weights[i] * weights[i + step]) * agree / (2 * (step + 1))
    return total


def _same(s, i, t, j, d):
    return i + d <= len(s) and j + d <= len(t) and s[i : i + d] == t[j : j + d]


def normalised(kernel):
    """k(x, x') / sqrt(k(x, x) k(x', x')), or 0 where that is 0 / 0."""

    def value(x, z):
        size = np.sqrt(kernel(x, x) * kernel(z, z))
        return kernel(x, z) / size if size > 0 else 0.0

    return value


def gaussian_of(kernel, bandwidth):
    """A Gaussian of the distance in a kernel's feature space."""
    return lambda x, z: float(np.exp(-(kernel(x, x) - 2 * kernel(x, z) + kernel(z, z)) / (2 * bandwidth**2)))


def gram_matrix(kernel, X, Z):
    return np.array([[kernel(x, z) for z in Z] for x in X])


def separable_blocks(K, B):
    return np.array([[k * B for k in row] for row in K])


def diagonal_blocks(grams):
    n, p = grams[0].shape
    return np.array([[np.diag([gram[i, j] for gram in grams]) for j in range(p)] for i in range(n)])


def block_matrix(blocks):
    """The paper's Kbar, (nm, nm)."""
    return np.block([[blocks[i, j] for j in range(blocks.shape[1])] for i in range(blocks.shape[0])])


def outputs(blocks, C):
    """f(x_i) = sum_j K(x_i, x_j) c_j, eq:mapping."""
    return np.array([sum(blocks[i, j] @ C[j] for j in range(blocks.shape[1])) for i in range(blocks.shape[0])])


def similarity_of_classes(labels):
    return np.array([[float(a == b) for b in labels] for a in labels])


def delta(S):
    return np.diag(S.sum(axis=1)) - S


def squared_norm(blocks, C):
    """|f|^2 in the RKHS, by eq:reproducing_property."""
    n = len(C)
    return sum(C[i] @ blocks[i, j] @ C[j] for i in range(n) for j in range(n))


def model1(C, L, blocks, Y, S, gamma, lam, rho, epsilon=0.0):
    """eq:formulation_general, plus epsilon/2 |L|^2."""
    F, n = outputs(blocks, C), len(C)
    value = 0.5 * squared_norm(blocks, C) + rho * np.trace(L) + 0.5 * epsilon * np.sum(L**2)
    value += gamma / 2 * sum(S[i, j] * np.sum((L @ (F[i] - F[j])) ** 2) for i in range(n) for j in range(n))
    return value + lam / 2 * sum(np.sum((L @ (F[i] - Y[i])) ** 2) for i in range(n))


def model2(C, B, K, Y, S, gamma, lam, rho):
    """eq:formulation_specialized_B."""
    blocks, n = separable_blocks(K, B), len(C)
    F = outputs(blocks, C)
    value = 0.5 * squared_norm(blocks, C) + 0.5 * rho * np.sum(B**2)
    value += gamma / 2 * sum(S[i, j] * np.sum((F[i] - F[j]) ** 2) for i in range(n) for j in range(n))
    return value + lam / 2 * sum(np.sum((F[i] - Y[i]) ** 2) for i in range(n))


def residual_scatter(F, Y, S, gamma, lam):
    """The bracket of eq:solution_L_general."""
    n = len(F)
    scatter = gamma * sum(S[i, j] * np.outer(F[i] - F[j], F[i] - F[j]) for i in range(n) for j in range(n))
    return scatter + lam * sum(np.outer(F[i] - Y[i], F[i] - Y[i]) for i in range(n))


def coefficient_step(blocks, L, Y, S, gamma, lam):
    """The minimiser of model 1 in C from its normal equations, C + P F A = lambda Y A, as one dense system in ravel(C)."""
    n, m = Y.shape
    P = lam * np.eye(n) + 2 * gamma * delta(S)
    A = L.T @ L
    system = np.eye(n * m) + np.kron(P, A) @ block_matrix(blocks)
    return np.linalg.solve(system, lam * (Y @ A).ravel()).reshape(n, m)


# The paper's algorithms, as printed.


def paper_coefficients_1(Kbar, L, Y, S, gamma, lam, *, by_pairs=True):
    """eq:solution_c_general with the Hessian of eq:convex_c_hessian and a pseudo-inverse.

    ``by_pairs=False`` takes the Hessian's sums over samples and pairs in closed form, which the paper does not give.
    """
    n, m = Y.shape
    A = L.T @ L
    if not by_pairs:
        hessian = Kbar + Kbar @ np.kron(lam * np.eye(n) + 2 * gamma * delta(S), A) @ Kbar
        return (lam * np.linalg.pinv(hessian, hermitian=True) @ Kbar @ (Y @ A).ravel()).reshape(n, m)
    rows = [Kbar[i * m : (i + 1) * m] for i in range(n)]
    hessian = Kbar.copy()
    for i in range(n):
        hessian += lam * rows[i].T @ L.T @ L @ rows[i]
        for j in np.flatnonzero(S[i]):
            Gamma = rows[i] - rows[j]
            hessian += gamma * S[i, j] * Gamma.T @ L.T @ L @ Gamma
    right = sum(rows[i].T @ L.T @ L @ Y[i] for i in range(n))
    return (lam * np.linalg.pinv(hessian, hermitian=True) @ right).reshape(n, m)


def paper_metric(F, Y, S, gamma, lam, rho):
    """eq:solution_L_general."""
    return -rho * np.linalg.pinv(residual_scatter(F, Y, S, gamma, lam), hermitian=True)


def paper_model1(blocks, Y, S, gamma, lam, rho, iterations, L=None):
    """The alternation of the paper; returns C, L and the norms of L on the way."""
    L = np.eye(Y.shape[1]) if L is None else L
    Kbar, sizes = block_matrix(blocks), []
    for _ in range(iterations):
        C = paper_coefficients_1(Kbar, L, Y, S, gamma, lam)
        L = paper_metric(outputs(blocks, C), Y, S, gamma, lam, rho)
        sizes.append(np.linalg.norm(L))
    return C, L, sizes


def paper_coefficients_2(K, B, Y, S, gamma, lam, *, corrected):
    """eq:specialized_form_solve_C_2: as printed, or with its missing transpose and with the functional's factor 2."""
    n, m = Y.shape
    right = K @ delta(S) @ K @ np.linalg.inv(K)
    weight = 2 * gamma if corrected else gamma
    coupling = right.T if corrected else right
    system = np.eye(n * m) + weight * np.kron(coupling, B) + lam * np.kron(K, B)
    return lam * np.linalg.solve(system, Y.ravel()).reshape(n, m)  # the paper's vec(C) stacks its columns, our rows


def paper_gradient_2(C, B, K, Y, S, gamma, lam, rho, *, corrected):
    """The gradient in B: G + G' - G.I as printed, or (G + G')/2 with the functional's factor 2."""
    KDelta = K @ delta(S) @ K
    weight = 2 * gamma if corrected else gamma
    G = B @ (C.T @ (weight * KDelta + lam * K @ K) @ C + rho * np.eye(len(B))) - (lam * Y - 0.5 * C).T @ K @ C
    return (G + G.T) / 2 if corrected else G + G.T - G * np.eye(len(B))


def project_psd(B):
    values, vectors = np.linalg.eigh((B + B.T) / 2)
    return (vectors * values.clip(min=0)) @ vectors.T


def paper_model2(K, Y, S, gamma, lam, rho, iterations, *, corrected, inner=200, stop=None):
    """The alternation of the paper: C by the Kronecker solve, B by projected gradient descent with C held fixed.

    The step length is 1 / Lipschitz constant. ``stop(C, B)`` may end it early. Returns C, B.
    """
    B = np.eye(Y.shape[1])
    weight = 2 * gamma if corrected else gamma
    for _ in range(iterations):
        C = paper_coefficients_2(K, B, Y, S, gamma, lam, corrected=corrected)
        curvature = C.T @ (weight * K @ delta(S) @ K + lam * K @ K) @ C
        step = 1 / (np.linalg.eigvalsh(curvature)[-1] + rho)
        for _ in range(inner):
            B = project_psd(B - step * paper_gradient_2(C, B, K, Y, S, gamma, lam, rho, corrected=corrected))
        if stop is not None and stop(C, B):
            break
    return C, B


# Independent ways to the optimum of model 2.


def dual_value(C, K, Y, S, gamma, lam, rho):
    P = lam * np.eye(len(Y)) + 2 * gamma * delta(S)
    rest = lam * Y - C
    return lam / 2 * np.sum(Y**2) - 0.5 * np.trace(rest.T @ np.linalg.inv(P) @ rest) - np.sum((C.T @ K @ C) ** 2) / (8 * rho)


def model2_by_dual(K, Y, S, gamma, lam, rho):
    """The optimal value of model 2 and C, by L-BFGS on the concave dual."""
    inverse = np.linalg.inv(lam * np.eye(len(Y)) + 2 * gamma * delta(S))

    def negative(flat):
        C = flat.reshape(Y.shape)
        rest = lam * Y - C
        gradient = inverse @ rest - K @ C @ (C.T @ K @ C) / (2 * rho)
        return -dual_value(C, K, Y, S, gamma, lam, rho), -gradient.ravel()

    options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 0, "gtol": 1e-12, "maxcor": 50}
    found = scipy.optimize.minimize(negative, np.zeros(Y.size), jac=True, method="L-BFGS-B", options=options)
    return -found.fun, found.x.reshape(Y.shape)


def model2_by_cvxpy(K, Y, S, gamma, lam, rho):
    """The optimal value of model 2 and its map F, by a generic conic solver on the jointly convex form in (F, B)."""
    import cvxpy

    n, m = Y.shape
    root = np.linalg.inv(scipy.linalg.sqrtm(K).real)
    factor = np.linalg.cholesky(delta(S) + 1e-14 * np.eye(n)).T
    # tr(B^-1 F'K^-1 F) is the least tr(T) for which [[B, F'K^(-1/2)], [K^(-1/2) F, T]] is positive semi-definite.
    whole = cvxpy.Variable((m + n, m + n), PSD=True)
    B, T = whole[:m, :m], whole[m:, m:]
    F = np.linalg.inv(root) @ whole[m:, :m]
    value = 0.5 * cvxpy.trace(T) + gamma * cvxpy.sum_squares(factor @ F)
    value += lam / 2 * cvxpy.sum_squares(F - Y) + rho / 2 * cvxpy.sum_squares(B)
    problem = cvxpy.Problem(cvxpy.Minimize(value))
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return problem.value, F.value


def output_kernel_learning(K, Y, regularisation, iterations):
    """Dinuzzo et al. (2011): min over C, L >= 0 of |Y - K C L|^2 / (2 r) + <C'K C, L>/2 + |L|^2/2, by their block descent.

    C solves the Sylvester equation K C L + r C = Y; L, for fixed E = K C, a Lyapunov equation.
    """
    L = np.eye(Y.shape[1])
    for _ in range(iterations):
        # K C L + r C = Y in the eigenbases of K and L.
        a, U = np.linalg.eigh(K)
        b, V = np.linalg.eigh(L)
        C = U @ ((U.T @ Y @ V) / (np.outer(a, b) + regularisation)) @ V.T
        E = K @ C
        H = E.T @ E / regularisation + np.eye(len(L))
        Q = E.T @ Y / regularisation - 0.5 * C.T @ E
        L = project_psd(scipy.linalg.solve_continuous_lyapunov(H, Q + Q.T))
    return C, L


def numerical_gradient(function, x, step=1e-5):
    """Central differences by every entry."""
    gradient = np.zeros_like(x)
    for index in np.ndindex(*x.shape):
        forward, backward = x.copy(), x.copy()
        forward[index] += step
        backward[index] -= step
        gradient[index] = (function(forward) - function(backward)) / (2 * step)
    return gradient


def target_neighbours(X, y, count):
    """The nearest points of the same class; fewer if it has no more."""
    found = []
    for i in range(len(X)):
        others = [j for j in range(len(X)) if j != i and y[j] == y[i]]
        found.append(sorted(others, key=lambda j, i=i: np.sum((X[i] - X[j]) ** 2))[:count])
    return found


def lmnn(L, X, y, neighbours, mu, weights=None):
    """(1 - mu) sum_ij w_i d_ij + mu sum_ijl w_i [1 + d_ij - d_il]_+ by its definition (Weinberger & Saul 2009, eq. 13)."""
    weights = np.ones(len(X)) if weights is None else weights
    pull = push = 0.0
    for i in range(len(X)):
        for j in neighbours[i]:
            near = np.sum((L @ (X[i] - X[j])) ** 2)
            pull += weights[i] * near
            for other in range(len(X)):
                if y[other] != y[i]:
                    push += weights[i] * max(0.0, 1 + near - np.sum((L @ (X[i] - X[other])) ** 2))
    return (1 - mu) * pull + mu * push


def lmnn_by_cvxpy(X, y, neighbours, mu, weights=None):
    """The optimum over all metrics, as a semi-definite program."""
    import cvxpy

    weights = np.ones(len(X)) if weights is None else weights
    d = X.shape[1]
    M = cvxpy.Variable((d, d), PSD=True)
    pull, triplets, importance = np.zeros((d, d)), [], []
    for i in range(len(X)):
        for j in neighbours[i]:
            near = np.outer(X[i] - X[j], X[i] - X[j])
            pull += weights[i] * near
            impostors = [X[i] - X[other] for other in range(len(X)) if y[other] != y[i]]
            triplets += [(near - np.outer(v, v)).ravel() for v in impostors]
            importance += [weights[i]] * len(impostors)
    violations = cvxpy.pos(1 + np.array(triplets) @ cvxpy.vec(M, order="C"))
    objective = (1 - mu) * cvxpy.trace(pull @ M) + mu * cvxpy.sum(cvxpy.multiply(importance, violations))
    return cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver="CLARABEL")


def comparisons(L, X, quadruplets, mu):
    """(1 - mu) sum_(a,b) d_ab + mu sum_t [1 + d_ab - d_ce]_+ with each near pair once, and each quadruplet as often as given."""

    def distance(i, j):
        return np.sum((L @ (X[i] - X[j])) ** 2)

    pull = sum(distance(a, b) for a, b in {(a, b) for a, b, _, _ in quadruplets})
    push = sum(max(0.0, 1 + distance(a, b) - distance(c, e)) for a, b, c, e in quadruplets)
    return (1 - mu) * pull + mu * push


def comparisons_by_cvxpy(X, quadruplets, mu):
    """The optimum over all metrics, as a semi-definite program."""
    import cvxpy

    d = X.shape[1]
    M = cvxpy.Variable((d, d), PSD=True)
    near = [np.outer(X[a] - X[b], X[a] - X[b]) for a, b, _, _ in quadruplets]
    far = [np.outer(X[c] - X[e], X[c] - X[e]) for _, _, c, e in quadruplets]
    pull = sum(np.outer(X[a] - X[b], X[a] - X[b]) for a, b in {(a, b) for a, b, _, _ in quadruplets})
    excess = np.array([(one - other).ravel() for one, other in zip(near, far, strict=True)])
    violations = cvxpy.pos(1 + excess @ cvxpy.vec(M, order="C"))
    objective = (1 - mu) * cvxpy.trace(pull @ M) + mu * cvxpy.sum(violations)
    return cvxpy.Problem(cvxpy.Minimize(objective)).solve(solver="CLARABEL")


def log_det_divergence(A, prior):
    ratio = A @ np.linalg.inv(prior)
    return float(np.trace(ratio) - np.linalg.slogdet(ratio)[1] - len(A))


def itml(A, differences, signs, bounds, prior, gamma):
    """The objective of ITML with the best relaxation of each bound: none where it is kept, else the distance itself."""
    distances = np.array([v @ A @ v for v in differences])
    relaxed = np.where(signs * (distances - bounds) <= 0, bounds, distances)
    return log_det_divergence(A, prior) + gamma * float(np.sum(relaxed / bounds - np.log(relaxed / bounds) - 1))


def itml_dual(multipliers, differences, signs, bounds, prior, gamma):
    weights = signs * multipliers
    inverse = np.linalg.inv(prior) + sum(w * np.outer(v, v) for w, v in zip(weights, differences, strict=True))
    relaxation = np.sum(np.log(1 - signs * multipliers * bounds / gamma))
    return float(np.linalg.slogdet(inverse @ prior)[1] + gamma * relaxation)


def itml_sweep(differences, signs, bounds, prior, gamma):
    """One sweep of algorithm 1 of Davis et al. (2007), from the prior: (A, multipliers, xi)."""
    A, multipliers, relaxed = prior.copy(), np.zeros(len(signs)), bounds.astype(float).copy()
    for c, (v, sign) in enumerate(zip(differences, signs, strict=True)):
        p = v @ A @ v
        alpha = min(multipliers[c], sign * gamma / (gamma + 1) * (1 / p - 1 / relaxed[c]))
        beta = sign * alpha / (1 - sign * alpha * p)
        relaxed[c] = gamma * relaxed[c] / (gamma + sign * alpha * relaxed[c])
        multipliers[c] -= alpha
        A = A + beta * A @ np.outer(v, v) @ A
    return A, multipliers, relaxed


def itml_by_cvxpy(differences, signs, bounds, prior, gamma):
    import cvxpy

    d = differences.shape[1]
    A = cvxpy.Variable((d, d), PSD=True)
    relaxed = cvxpy.Variable(len(signs))
    distances = np.array([np.outer(v, v).ravel() for v in differences]) @ cvxpy.vec(A, order="C")
    objective = cvxpy.trace(np.linalg.inv(prior) @ A) - cvxpy.log_det(A) + np.linalg.slogdet(prior)[1] - d
    objective += gamma * cvxpy.sum(cvxpy.multiply(1 / bounds, relaxed) - cvxpy.log(relaxed) + np.log(bounds) - 1)
    problem = cvxpy.Problem(cvxpy.Minimize(objective), [cvxpy.multiply(signs, distances - relaxed) <= 0])
    problem.solve(solver="CLARABEL")
    return A.value, problem.value


def contributions_along_segment(coordinates, x, other, nodes=4000, step=1e-6):
    """Of each feature to |g(x) - g(x')|^2: the midpoint rule on the segment, with finite differences for gradients."""
    difference = coordinates(x[None])[0] - coordinates(other[None])[0]
    rows = other + (np.arange(nodes)[:, None] + 0.5) / nodes * (x - other)
    slopes = [(coordinates(rows + step * e) - coordinates(rows - step * e)) / (2 * step) for e in np.eye(len(x))]
    return np.array([(x - other)[f] * difference @ slopes[f].mean(axis=0) for f in range(len(x))])


def shapley_values(value, n_players):
    """By their definition, from the value of each set of players."""
    players, found = range(n_players), np.zeros(n_players)
    for player in players:
        rest = [one for one in players if one != player]
        for size in range(n_players):
            weight = math.factorial(size) * math.factorial(n_players - size - 1) / math.factorial(n_players)
            for others in itertools.combinations(rest, size):
                found[player] += weight * (value({*others, player}) - value({*others}))
    return found


def verification_rates(distances, same, threshold):
    """(true accepts, false accepts) as counts: pairs whose distance is at most the threshold."""
    accepted = [distance <= threshold for distance in distances]
    hits = sum(1 for one, alike in zip(accepted, same, strict=True) if one and alike)
    return hits, sum(accepted) - hits


def best_threshold(distances, same, strategy, min_rate=None, beta=1.0, far=None):
    """The distance up to which pairs are best accepted, by trying all of them; None: accept no pair.

    Of several that are as good the smallest; but for "max_tnr" that with the most hits, and for a false-accept rate the largest.
    """
    n_same = sum(same)
    n_different = len(same) - n_same
    best, most, chosen = -math.inf, -math.inf, None
    for threshold in [None, *sorted(set(distances))]:
        hits, alarms = (0, 0) if threshold is None else verification_rates(distances, same, threshold)
        rejected = n_different - alarms
        if strategy == "accuracy":
            value, other = hits + rejected, 0
        elif strategy == "f_beta":
            precision, recall = hits / max(hits + alarms, 1), hits / max(n_same, 1)
            total = beta**2 * precision + recall
            value, other = (1 + beta**2) * precision * recall / total if total else 0.0, 0
        elif strategy == "max_tpr":
            value, other = hits if rejected / n_different >= min_rate else -math.inf, rejected
        elif strategy == "max_tnr":
            value, other = rejected if hits / n_same >= min_rate else -math.inf, hits
        else:
            value, other = alarms + hits if alarms / n_different <= far else -math.inf, 0
        if value > best + 1e-12 or (value > best - 1e-12 and other > most):
            best, most, chosen = value, other, threshold
    return chosen


def midway(distances, chosen):
    """Between a distance and the next larger one; at the last it ends, and below zero no pair is accepted."""
    larger = [one for one in distances if chosen is not None and one > chosen]
    if chosen is None:
        return -1.0
    return (chosen + min(larger)) / 2 if larger else chosen


def equal_error_rate(distances, same):
    """Where the polygon of (false accepts, false rejects) meets the diagonal, segment by segment."""
    n_same = sum(same)
    corners = [(0.0, 1.0)]
    for threshold in sorted(set(distances)):
        hits, alarms = verification_rates(distances, same, threshold)
        corners.append((alarms / (len(same) - n_same), 1 - hits / n_same))
    for (x0, y0), (x1, y1) in itertools.pairwise(corners):
        if x0 <= y0 and x1 >= y1:
            # x0 + s (x1 - x0) = y0 + s (y1 - y0)
            slope = (x1 - x0) - (y1 - y0)
            return x0 + (y0 - x0) / slope * (x1 - x0)
    raise AssertionError("the polygon ends at (1, 0)")


def weighted_rates_by_copies(distances, same, identities, counts, far):
    """True accepts at a false-accept rate after identity i was drawn counts[i] times: pairs are copied so often."""
    copies, kinds = [], []
    for distance, alike, (one, other) in zip(distances, same, identities, strict=True):
        times = counts[one] if one == other else counts[one] * counts[other]
        copies += [distance] * times
        kinds += [alike] * times
    found = 0.0
    for threshold in set(copies):
        hits, alarms = verification_rates(copies, kinds, threshold)
        if alarms / (len(kinds) - sum(kinds)) <= far:
            found = max(found, hits / sum(kinds))
    return found


def retrieval(distances, hits, k):
    """(average precision, R-precision, precision at k) of a ranking; over all orders of ties the mean of the latter two."""
    relevant = sum(hits)
    average = 0.0
    for distance in sorted(set(distances)):
        above = [hit for one, hit in zip(distances, hits, strict=True) if one <= distance]
        new = [hit for one, hit in zip(distances, hits, strict=True) if one == distance]
        average += sum(new) / relevant * sum(above) / len(above)
    shares = []
    for rank in (relevant, k):
        found = []
        for order in itertools.permutations(range(len(distances))):
            lengths = [distances[place] for place in order]
            if lengths == sorted(lengths):
                found.append(sum(hits[place] for place in order[:rank]) / rank)
        shares.append(sum(found) / len(found))
    return average, *shares
