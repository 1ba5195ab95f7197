"""Makes format-1.outmetric and format-1.json, which stay as they are: files of this format must remain loadable.

Run with the oldest supported scikit-learn: python make_format_1.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd

import outmetric
from outmetric.datasets import make_waveform

if __name__ == "__main__":
    folder = Path(__file__).parent
    X, y = make_waveform(60, random_state=0)
    table = pd.DataFrame(X[:, 5:11], columns=list("abcdef"))
    table["g"] = np.where(X[:, 3] > 0, "high", "low")
    table.loc[::7, "a"], table.loc[::9, "g"] = np.nan, np.nan
    labels = np.array(["first", "second", "third"])[y]
    model = outmetric.MetricClassifier(time_budget=0.2, random_state=0).fit(table, labels)
    outmetric.save(model, folder / "format-1.outmetric")
    rows = table[:8]
    found = {
        "rows": rows.astype(object).where(rows.notna(), None).to_numpy().tolist(),
        "classes": model.predict(rows).tolist(),
        "probabilities": model.predict_proba(rows).tolist(),
    }
    (folder / "format-1.json").write_text(json.dumps(found, indent=1) + "\n")
