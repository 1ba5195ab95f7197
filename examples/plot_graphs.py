"""
Graphs
======

Graphs of equal size and density, grown by different rules: can a metric tell which? Their kernel counts what the neighbourhoods
of nodes look like (Weisfeiler-Lehman); its values go in as a matrix, square to fit, and with a row for each new graph afterwards.
Needs networkx.
"""

import networkx as nx
import numpy as np
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.preprocessing import normalize

from outmetric import LearnedKernelMetric, MetricSearchCV, plots

RULES = {
    "uniform": lambda seed: nx.gnm_random_graph(40, 76, seed=seed),
    "hubs": lambda seed: nx.barabasi_albert_graph(40, 2, seed=seed),
    "ring": lambda seed: nx.watts_strogatz_graph(40, 4, 0.4, seed=seed),
}


def subtrees(graph):
    """What the surroundings of each node look like, as words."""
    nx.set_node_attributes(graph, {node: str(degree) for node, degree in graph.degree()}, "label")
    hashes = nx.weisfeiler_lehman_subgraph_hashes(graph, node_attr="label", iterations=2, include_initial_labels=True)
    return [label for labels in hashes.values() for label in labels]


rules = np.array(list(RULES))[np.arange(240) % 3]
graphs = [RULES[rule](seed) for seed, rule in enumerate(rules)]
counter = CountVectorizer(analyzer=subtrees)
train, new = normalize(counter.fit_transform(graphs[:120])), normalize(counter.transform(graphs[120:]))
square, cross = (train @ train.T).toarray(), (new @ train.T).toarray()

# %%
# Graphs that the metric has not seen:

grid = {"regression_weight": [0.1, 1.0, 10.0, 100.0]}
search = MetricSearchCV(LearnedKernelMetric(kernel="precomputed"), grid).fit(square, rules[:120])
right = np.mean(search.predict(cross) == rules[120:])
ax = plots.output_map(search, cross, rules[120:])
ax.set_title(f"{right:.0%} of new graphs right")
