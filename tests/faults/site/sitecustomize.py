"""Python imports this by its name at its start, in every process that has this folder on its path:
where a test's fault lies outside the processes that a double can reach by itself.
"""

from __future__ import annotations

import os

if "OMNAI_TEST_FAULTS_CLOCK" in os.environ:
    from tests.faults import clock

    clock.install()

if "OMNAI_TEST_FAULTS_EMULATION" in os.environ:
    from tests.faults import emulation

    emulation.install()
