"""Docstrings are plain text with formulas: bars, names that end in an underscore, and indented lines mean nothing else."""

import importlib
import re

import outmetric

# Literals, roles and single names in backquotes stay as they are.
QUOTED = re.compile(r"(``.+?``|`[^`]+`_?)")
RULE = re.compile(r"-{3,}")
# Of scikit-learn's docstrings: labels in its own guide, and methods that it makes for every parameter of every method.
ELSEWHERE = re.compile(r":(?:ref|term):`([^`<]*?)(?:\s*<[^>`]*>)?`")
MADE = re.compile(r"set_\w+_request|get_metadata_routing")
PROSE = {"", "Notes", "References"}
ROOMS = ["", *(f"{room}." for room in outmetric.ROOMS if room != "maps")]  # whose names are those of plots


def escaped(line: str) -> str:
    """A line in which bars, stars and underscores are themselves."""
    parts = QUOTED.split(line)
    parts[::2] = [re.sub(r"(?<=\w)_(?!\w)", r"\\_", part).replace("|", r"\|").replace("*", r"\*") for part in parts[::2]]
    return "".join(parts)


def plain(app, what, name, obj, options, lines) -> None:
    """Rewrite the lines of one docstring."""
    lines[:] = [ELSEWHERE.sub(r"\1", line) for line in lines]
    rewritten: list[str] = []
    section, literal = "", False
    for number, line in enumerate(lines):
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if RULE.fullmatch(following) and line.strip():
            section, literal = line.strip(), False
        indented = line.startswith("    ")
        if line.strip() and not indented:
            literal = False
        if indented and section in PROSE and not literal and (not rewritten or not rewritten[-1].strip()):
            literal = True
            rewritten += [".. code-block:: text", ""]
        keep = literal or section == "Examples" or ">>>" in line or not line.strip() or RULE.fullmatch(line)
        rewritten.append(line if keep else escaped(line))
    lines[:] = rewritten


def left_out(app, what, name, obj, skip, options) -> bool | None:
    """Whether a member has no place in the reference."""
    return True if MADE.fullmatch(name) else None


def public(app, env, node, contnode):
    """What a docstring calls by its bare name, or by the module in which it lies, is found under its public name."""
    from docutils import nodes

    target = node.get("reftarget", "")
    if node.get("refdomain") != "py" or not re.fullmatch(r"[A-Za-z_][\w.]*", target):
        return None
    domain = env.get_domain("py")
    bare = target.removeprefix("outmetric.")
    names = [f"outmetric.{room}{bare}" for room in ROOMS]
    if target.startswith("outmetric.") and "." in bare:
        names += [f"outmetric.{room}{bare.rsplit('.', 1)[1]}" for room in ROOMS]
    for name in names:
        if name in domain.objects:
            return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)
    return nodes.inline("", "", contnode) if target.startswith("outmetric.") and not importable(target) else None


def importable(name: str) -> bool:
    """Whether a dotted name exists."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ImportError:
            continue
        for part in parts[cut:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def setup(app):
    """Of Sphinx."""
    app.connect("autodoc-process-docstring", plain, priority=400)  # before numpydoc
    app.connect("autodoc-skip-member", left_out)
    app.connect("missing-reference", public, priority=400)
    return {"parallel_read_safe": True}
