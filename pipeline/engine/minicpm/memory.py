"""The most memory that this process has used so far."""

from __future__ import annotations

import resource
import sys
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class PeakMemory:
    """Peaks since the process began; None on the GPU's side where none was used."""

    resident_bytes: int
    """Of the host's memory."""
    gpu_allocated_bytes: int | None
    """Tensors on the GPU."""
    gpu_reserved_bytes: int | None
    """What the allocator took from the driver for them."""


def peak_memory() -> PeakMemory:
    """Reads counters only: loads nothing, waits for nothing."""
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    torch = sys.modules.get("torch")
    has_gpu = torch is not None and torch.cuda.is_initialized()
    return PeakMemory(
        resident_bytes=used if sys.platform == "darwin" else used * 1024,
        gpu_allocated_bytes=torch.cuda.max_memory_allocated() if torch and has_gpu else None,
        gpu_reserved_bytes=torch.cuda.max_memory_reserved() if torch and has_gpu else None,
    )
