"""A format of tables: JSON with one object in each line. Afterwards `read_table` and the command take such files."""

import io

import pandas as pd

from outmetric import tables


def read_lines(text, name, options):
    """The table in this text; ``name`` is what messages call it."""
    try:
        return pd.read_json(io.StringIO(text), lines=True)
    except ValueError as error:
        raise tables.TableError(f"{name} is no JSON with one object in each line: {error}") from error


tables.register(tables.TableFormat("JSON lines", (".jsonl", ".ndjson"), read_lines, is_text=True))
