"""The report on a run: tables, tests, figures, and what became of the paper's claims.

It is put together once, from headings, texts, tables and pictures, and written twice: as a self-contained HTML page, and as Markdown
with the pictures beside it.
"""

from __future__ import annotations

import base64
import html
import io
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from outmetric import plots
from outmetric.operators import Array
from outmetric.paper import claims, maps
from outmetric.paper.protocol import METHODS, PAPER_METHODS
from outmetric.paper.results import Accuracies
from outmetric.paper.runner import Result, write_table

# Bars in one chart of the paper.
SETS_PER_CHART = 4
OURS = ("method1", "method2", "automatic")
