"""How much memory is left, asked before an allocation that could not succeed."""

from __future__ import annotations

import os
from pathlib import Path


def require_memory(n_bytes: float, what: str, instead: str) -> None:
    """Raise MemoryError before an allocation that cannot succeed; say its size and what to do instead."""
    available = available_memory()
    if available is not None and n_bytes > available:
        raise MemoryError(
            f"{what} needs about {n_bytes / 1e9:.3g} GB, of which {available / 1e9:.3g} GB is available. Instead: {instead}"
        )


def fits_in_memory(n_bytes: float) -> bool:
    """Whether as much can be allocated, as far as the system tells."""
    available = available_memory()
    return available is None or n_bytes <= available


def available_memory() -> float | None:
    """Bytes that this process can still allocate, or None where the system does not tell."""
    limits = [_system_memory(), _control_group_memory(), _address_space()]
    return min((limit for limit in limits if limit is not None), default=None)


def _system_memory() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(float(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        pass
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _control_group_memory(group: Path = Path("/sys/fs/cgroup")) -> float | None:
    try:
        limit = float((group / "memory.max").read_text())
        used = float((group / "memory.current").read_text())
        pages = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    except (OSError, ValueError):  # no control group, or its limit is the word "max"
        return None
    return limit - used + float(pages.get("inactive_file", 0))  # cached files make room when asked


def _address_space() -> float | None:
    try:
        import resource

        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        used = float(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return None
    return None if limit == resource.RLIM_INFINITY else limit - used
