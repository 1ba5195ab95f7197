"""What pages are about, in a sentence: in llms.txt, a line for each page, and in previews of links to the reference."""

from pathlib import Path

from docutils import nodes

HEAD = """# outmetric

> Supervised distance metric learning with kernels, for Python: it learns a non-linear map of the data and the metric in its output
> space, from class labels, real targets or any similarity. Estimators follow scikit-learn.

"""
LONGEST = 200


def sentence(document) -> str:
    """The beginning of the first paragraph of a page."""
    for paragraph in document.findall(nodes.paragraph):
        text = " ".join(paragraph.astext().split())
        if text and not isinstance(paragraph.parent, nodes.entry):
            return text if len(text) <= LONGEST else text[: text.rfind(" ", 0, LONGEST)] + " ..."
    return ""


def describe(app, document) -> None:
    """When a page of the reference has been read: what previews of links to it say."""
    if app.env.docname.startswith("api/generated/"):
        app.env.metadata[app.env.docname]["og:description"] = sentence(document)


def write(app, exception) -> None:
    """When all pages are written: guide first, then gallery, then reference."""
    if exception is not None or app.builder.format != "html":
        return

    def section(name: str) -> str:
        return {"gallery": "Gallery", "api": "Reference"}.get(name.split("/")[0], "Guide") if "/" in name else "Guide"

    lines: dict[str, list[str]] = {"Guide": [], "Gallery": [], "Reference": []}
    for name in sorted(app.env.found_docs):
        title = app.env.titles[name].astext()
        lines[section(name)].append(f"- [{title}]({app.builder.get_target_uri(name)}): {sentence(app.env.get_doctree(name))}\n")
    text = HEAD + "\n".join(f"## {head}\n\n{''.join(found)}" for head, found in lines.items())
    (Path(app.outdir) / "llms.txt").write_text(text, encoding="utf-8")


def setup(app):
    """Of Sphinx."""
    app.connect("doctree-read", describe)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True}
