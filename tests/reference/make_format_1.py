"""Makes format-1.outmetric and format-1.json, which stay as they are: files of this format must remain loadable.

Run by: python make_format_1.py
"""

import json
from pathlib import Path

import numpy as np

import outmetric
from outmetric.datasets import make_waveform

if __name__ == "__main__":
    folder = Path(__file__).parent
    X, y = make_waveform(60, random_state=0)
    labels = np.array(["first", "second", "third"])[y]
    model = outmetric.MetricClassifier(time_budget=0.2, random_state=0).fit(X, labels)
    outmetric.save(model, folder / "format-1.outmetric")
    rows = make_waveform(5, random_state=1)[0]
    found = {"rows": rows.tolist(), "classes": model.predict(rows).tolist(), "probabilities": model.predict_proba(rows).tolist()}
    (folder / "format-1.json").write_text(json.dumps(found, indent=1) + "\n")
