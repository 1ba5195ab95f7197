"""Pages that are files of the repository: read where they are, with links that lead to pages of the site."""

import os
import re
from pathlib import Path

DOCS = Path(__file__).parents[1]
# Pages of the site, and the files that they show.
COPIED = {
    "benchmarks": "benchmarks/README.md",
    "changelog": "CHANGELOG.md",
    "contributing": "CONTRIBUTING.md",
    "releasing": "RELEASING.md",
    "conduct": "CODE_OF_CONDUCT.md",
    "security": "SECURITY.md",
}
# What is a page of another name on the site, by its path in the repository.
PAGES = {
    "benchmarks/README.md": "benchmarks.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "SECURITY.md": "security.md",
    "README.md": "index.md",
    "examples/honest_map.py": "gallery/plot_honest_map.rst",
    "examples/strings.py": "gallery/plot_strings.rst",
    "examples/graphs.py": "gallery/plot_graphs.rst",
}
LINK = re.compile(r"\]\((?![a-z]+:|#)(?P<path>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def with_site_links(text: str, folder: Path, page: str) -> str:
    """The text of a file in this folder as a page of the site."""

    def link(found: re.Match[str]) -> str:
        target = (folder / found["path"]).resolve()
        if not target.is_relative_to(DOCS.parent):
            raise ValueError(f"{page}: {found['path']} leads out of the repository.")
        path = PAGES.get(target.relative_to(DOCS.parent).as_posix())
        wanted = DOCS / path if path else target
        return f"]({Path(os.path.relpath(wanted, (DOCS / page).parent)).as_posix()}{found['anchor'] or ''})"

    return LINK.sub(link, text)


def read(app, page: str, source: list[str]) -> None:
    """Before a page is parsed."""
    if page.startswith(("gallery/", "api/")) or Path(app.env.doc2path(page)).suffix != ".md":
        return
    path = DOCS.parent / COPIED[page] if page in COPIED else Path(app.env.doc2path(page))
    if page in COPIED:
        app.env.note_dependency(str(path))
    source[0] = with_site_links(path.read_text(encoding="utf-8"), path.parent, page)


def setup(app):
    """Of Sphinx."""
    app.connect("source-read", read)
    return {"parallel_read_safe": True}
