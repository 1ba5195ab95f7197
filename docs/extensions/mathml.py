"""Formulas as MathML, which browsers draw themselves: nothing is fetched, and nothing runs."""

from latex2mathml.converter import convert


def inline(self, node):
    """A formula in a line."""
    self.body.append(convert(node.astext()))
    raise_skip()


def display(self, node):
    """A formula that stands by itself, perhaps with a number."""
    number = f'<span class="eqno">({node["number"]})</span>' if node.get("number") else ""
    anchor = f' id="{node["ids"][0]}"' if node.get("ids") else ""
    self.body.append(f'<div class="math-display"{anchor}>{convert(node.astext(), display="block")}{number}</div>')
    raise_skip()


def raise_skip():
    """The children are text that has been written."""
    from docutils.nodes import SkipNode

    raise SkipNode


def setup(app):
    """Of Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True}
