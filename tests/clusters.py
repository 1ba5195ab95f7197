"""Dask workers that die while they compute."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np

# Of a `LocalCluster` for tests.
WORKERS = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}


def deadly(marker: Path) -> Callable[..., np.ndarray]:
    """For `map_blocks`: the first worker that gets the fourth block leaves a file and is killed."""

    def passed_on(block, block_info=None):
        if block_info and block_info[0]["chunk-location"][0] == 3 and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    return passed_on
