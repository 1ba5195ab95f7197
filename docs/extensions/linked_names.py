"""In pages, public names in backquotes lead to the reference."""

import re

from docutils import nodes
from sphinx import addnodes

import outmetric


def public_names() -> dict[str, str]:
    """What pages may call things, and where they are."""
    found = {name: f"outmetric.{name}" for name in outmetric.__all__ if re.fullmatch(r"[A-Z]\w+", name)}
    classes: dict[str, set[str]] = {}
    for room in outmetric.ROOMS:
        shown = "plots" if room == "maps" else room  # the same names, which have their pages there
        found[f"outmetric.{room}"] = f"outmetric.{shown}"
        for name in getattr(outmetric, room).__all__:
            target = f"outmetric.{shown}.{name}"
            found[f"{room}.{name}"] = found[f"outmetric.{room}.{name}"] = target
            if name[0].isupper():
                classes.setdefault(name, set()).add(target)
    # A bare name that two rooms have says too little.
    return found | {name: targets.pop() for name, targets in classes.items() if len(targets) == 1 and name not in found}


def link(app, document) -> None:
    """When a page has been read."""
    if not str(document["source"]).endswith(".md"):
        return
    names = public_names()
    for literal in list(document.findall(nodes.literal)):
        target = names.get(literal.astext().removesuffix("()"))
        if target is None or isinstance(literal.parent, nodes.reference | addnodes.pending_xref | nodes.title):
            continue
        reference = addnodes.pending_xref(
            "", refdomain="py", reftype="obj", reftarget=target, refexplicit=True, refdoc=app.env.docname, refwarn=True
        )
        literal.replace_self(reference)
        reference += literal


def setup(app):
    """Of Sphinx."""
    app.connect("doctree-read", link)
    return {"parallel_read_safe": True}
