"""After the build: every link and picture of every page leads somewhere. Links to other sites are listed in external-links.txt."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page has, and where it leads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {""}
        self.links: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        """One element."""
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            if (tag, name) in (("a", "href"), ("img", "src"), ("link", "href"), ("script", "src")) and value:
                self.links.add(value)


def dead_links(folder: Path) -> tuple[list[str], list[str]]:
    """(dead links, links to other sites) of all pages in a folder."""
    pages = {
        path.resolve(): Page(path.read_text(encoding="utf-8")) for path in folder.rglob("*.html") if "_static" not in path.parts
    }
    dead, external = [], set()
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                external.add(link)
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchors = pages[target].anchors if target in pages else {""}
            if not target.exists() or (target in pages and unquote(parts.fragment) not in anchors):
                dead.append(f"{path.relative_to(folder.resolve())}: {link}")
    return sorted(dead), sorted(external)


def check(app, exception) -> None:
    """When all pages are written."""
    if exception is not None or app.builder.format != "html":
        return
    from sphinx.util import logging

    logger = logging.getLogger(__name__)
    folder = Path(app.outdir)
    dead, external = dead_links(folder)
    for link in dead:
        logger.warning("dead link in %s", link, type="links", subtype="dead")
    (folder / "external-links.txt").write_text("".join(f"{link}\n" for link in external))


def setup(app):
    """Of Sphinx."""
    app.connect("build-finished", check)
    return {"parallel_read_safe": True}
