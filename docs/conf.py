"""The site: pages in Markdown, a gallery that is run, and a reference made of docstrings. Builds without any network."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import outmetric

project = "outmetric"
author = "The outmetric developers"
project_copyright = author
version = release = outmetric.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    "sphinxext.opengraph",
    # our own
    "copied_pages",
    "plain_docstrings",
    "linked_names",
    "mathml",
    "internal_links",
    "descriptions",
]
# Links into the references of other projects need the network, so they are made where it is said to be there.
online = bool(os.environ.get("OUTMETRIC_DOCS_ONLINE"))
if online:
    extensions.append("sphinx.ext.intersphinx")
intersphinx_mapping = {
    "python": ("https://docs.python.org/3", None),
    "numpy": ("https://numpy.org/doc/stable", None),
    "scipy": ("https://docs.scipy.org/doc/scipy", None),
    "sklearn": ("https://scikit-learn.org/stable", None),
    "pandas": ("https://pandas.pydata.org/docs", None),
    "matplotlib": ("https://matplotlib.org/stable", None),
}

exclude_patterns = ["_build", "extensions", "_templates", "**sg_execution_times.rst"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's order is an object

myst_enable_extensions = ["colon_fence", "dollarmath", "deflist", "attrs_block"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

autosummary_generate = True
autosummary_imported_members = True
autosummary_ignore_module_all = False
# What a room shows of another stands in that one's pages.
autosummary_context = {"of_columns": sorted(set(outmetric.tables.__all__) & set(outmetric.columns.__all__))}
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc's words are for people
default_role = "py:obj"
numpydoc_show_class_members = True
numpydoc_class_members_toctree = False
numpydoc_show_inherited_class_members = False
numpydoc_xref_param_type = online
numpydoc_xref_aliases = {
    "bool": "bool",  # the label that numpydoc knows has moved in Python's pages
    "boolean": "bool",
    "Pipeline": "sklearn.pipeline.Pipeline",
    "DataFrame": "pandas.DataFrame",
    "array": "numpy.ndarray",
    "arrays": "numpy.ndarray",
    "ndarray": "numpy.ndarray",
    "RandomState": "numpy.random.RandomState",
    "Generator": "numpy.random.Generator",
    "Axes": "matplotlib.axes.Axes",
    "Figure": "matplotlib.figure.Figure",
}
numpydoc_xref_ignore = "all"  # but for the aliases

html_theme = "pydata_sphinx_theme"
html_title = "outmetric"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "outmetric"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_nav_level": 1,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {"index": [], "start": [], "which": []}

# For previews of links. Addresses in them are whole ones where the site's own address is told.
ogp_site_url = os.environ.get("OUTMETRIC_DOCS_URL", "")
ogp_site_name = "outmetric"
ogp_use_first_image = True
ogp_image = "_images/honest-map.png"  # which the first page shows
ogp_image_alt = "Digits in the plane by an honest map, and with permuted labels"
ogp_description_length = 180
ogp_enable_meta_description = True
ogp_social_cards = {"enable": False}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"plot_.*\.py$",
    "ignore_pattern": r"(^|[/\\])(honest_map|strings|graphs|extending_\w+)\.py$",
    "within_subsection_order": "gallery_order.InOrder",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1000,
    "plot_gallery": True,
    "image_srcset": ["2x"],
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("outmetric",),
    "reference_url": {"outmetric": None},
    "capture_repr": (),
    "matplotlib_animations": False,
    "parallel": 2,
}
