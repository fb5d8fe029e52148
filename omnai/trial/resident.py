"""The peak memory of a process that still runs."""

from __future__ import annotations

from pathlib import Path


def peak_resident_bytes(pid: int) -> int | None:
    """Largest resident memory so far; None where the system does not tell, or it has ended.

    Not `ru_maxrss`: a process begins with that of the one that started it.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return None
