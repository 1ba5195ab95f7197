"""Graphs by a precomputed kernel: four families of random graphs, told apart by a learned metric.

All graphs have 30 to 50 nodes and (nearly) two edges for each node, so that size and density tell nothing. The Weisfeiler-Lehman
subtree kernel counts what two graphs have in common: labels of nodes, at first their degree and number of triangles, then in each
round the label together with those of the neighbours. Its matrix is all that the metric sees: a square one to fit, then one with a
row for each new graph. Cross-validation takes rows and columns of it. Needs networkx.

    python examples/graphs.py
"""

from __future__ import annotations

import argparse

import networkx as nx
import numpy as np
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.preprocessing import normalize
from sklearn.svm import SVC

from outmetric import LearnedKernelMetric, MetricSearchCV, plots

ROUNDS = (1, 2, 3)
NEIGHBOURS = (1, 3, 5, 9, 15, 25)


def groups(n, seed):
    """Four groups of nodes; an edge between groups is a tenth as likely as one inside."""
    rng = np.random.default_rng(seed)
    member = rng.permutation(n) % 4
    graph = nx.empty_graph(n)
    while graph.number_of_edges() < 2 * n:
        one, other = rng.choice(n, 2, replace=False).tolist()
        if member[one] == member[other] or rng.random() < 0.1:
            graph.add_edge(one, other)
    return graph


FAMILIES = {
    "uniform": lambda n, seed: nx.gnm_random_graph(n, 2 * n, seed=seed),
    "hubs": lambda n, seed: nx.barabasi_albert_graph(n, 2, initial_graph=nx.complete_graph(4), seed=seed),
    "ring": lambda n, seed: nx.watts_strogatz_graph(n, 4, 0.5, seed=seed),
    "groups": groups,
}


def subtrees(graph):
    """For each node its label after 0, 1, 2, ... rounds."""
    triangles = nx.triangles(graph)
    nx.set_node_attributes(graph, {node: f"{degree}, {triangles[node]}" for node, degree in graph.degree()}, "label")
    hashes = nx.weisfeiler_lehman_subgraph_hashes(graph, node_attr="label", iterations=max(ROUNDS), include_initial_labels=True)
    return list(hashes.values())


def kernel_values(train, new, rounds):
    """The normalised kernel between the training graphs, and between new graphs and these."""
    counter = CountVectorizer(analyzer=lambda nodes: [label for labels in nodes for label in labels[: rounds + 1]])
    known, others = normalize(counter.fit_transform(train)), normalize(counter.transform(new))
    return (known @ known.T).toarray(), (others @ known.T).toarray()


def distances(values):
    """In the kernel's feature space, where all graphs have length one."""
    return np.sqrt(np.maximum(0, 2 - 2 * values))


# Each with what it takes, and each chosen by accuracy.
METHODS = {
    "neighbours": (GridSearchCV(KNeighborsClassifier(metric="precomputed"), {"n_neighbors": NEIGHBOURS}), distances),
    "SVM": (GridSearchCV(SVC(kernel="precomputed"), {"C": [0.1, 1.0, 10.0, 100.0]}), np.asarray),
    "learned metric": (
        MetricSearchCV(
            LearnedKernelMetric(kernel="precomputed"),
            {"regression_weight": [0.1, 1.0, 10.0, 100.0]},
            n_neighbors=NEIGHBOURS,
            scoring="accuracy",
        ),
        np.asarray,
    ),
}


def main(arguments=None):
    """Compare on held-out graphs, print their neighbours, draw the map."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=480, help="how many graphs, half of them for training")
    parser.add_argument("--seed", type=int, default=0, help="of the division")
    parser.add_argument("--picture", default="graphs.png", help="where the map goes")
    options = parser.parse_args(arguments)
    sizes = np.random.default_rng(0).integers(30, 51, size=options.graphs)
    families = np.array([list(FAMILIES)[number % len(FAMILIES)] for number in range(options.graphs)])
    graphs = [FAMILIES[family](int(n), seed) for seed, (family, n) in enumerate(zip(families, sizes, strict=True))]
    found = [subtrees(graph) for graph in graphs]
    train, new = train_test_split(np.arange(len(graphs)), test_size=0.5, stratify=families, random_state=options.seed)
    matrices = {rounds: kernel_values([found[k] for k in train], [found[k] for k in new], rounds) for rounds in ROUNDS}

    print(f"{len(train)} graphs for training, {len(new)} for testing\n\n| method | rounds | accuracy |\n| --- | --- | --- |")
    for name, (search, prepare) in METHODS.items():
        tried = {rounds: clone(search).fit(prepare(square), families[train]) for rounds, (square, _) in matrices.items()}
        rounds = max(ROUNDS, key=lambda rounds: tried[rounds].best_score_)
        best, (square, cross) = tried[rounds], matrices[rounds]
        print(f"| {name} | {rounds} | {best.score(prepare(cross), families[new]):.1%} |")

    # Neighbours in the learned metric, which came last; Euclidean distance of coordinates is the metric.
    metric = best.best_estimator_
    voters = NearestNeighbors(n_neighbors=5).fit(metric.transform(square))
    print("\nfamilies of the nearest training graphs:")
    for k, nearest in enumerate(voters.kneighbors(metric.transform(cross[:4]), return_distance=False)):
        print(f"  {families[new[k]]:8} {', '.join(families[train[nearest]])}")
    flat = clone(metric).set_params(n_components=2).fit(square, families[train])
    ax = plots.output_map(flat, cross, families[new], X_train=square, y_train=families[train])
    ax.set_title("held-out graphs, and training graphs (pale)")
    ax.figure.savefig(options.picture, dpi=110)
    plots.close(ax.figure)
    print(f"\nmap: {options.picture}")


if __name__ == "__main__":
    main()
