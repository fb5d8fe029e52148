"""Tests that look into other processes."""

from __future__ import annotations

from pathlib import Path

import pytest

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(),
    reason="looks into other processes by /proc, which is not mounted here",
)
