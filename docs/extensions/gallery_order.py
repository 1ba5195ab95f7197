"""The order of the gallery: from what most people want to what few do."""

ORDER = [
    "honest_map",
    "random_labels",
    "real_targets",
    "what_it_looks_at",
    "few_labels",
    "same_or_different",
    "tuning",
    "own_similarity",
    "strings",
    "graphs",
    "forest_kernels",
    "output_matrix",
    "million_rows",
    "method_one",
]


class InOrder:
    """A key for sphinx-gallery; a file that is not in the list is an error."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, filename: str) -> int:
        return ORDER.index(filename.removeprefix("plot_").removesuffix(".py"))
