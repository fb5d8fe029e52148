"""The command line, the HTTP client and the services it can start by itself."""

from pipeline.release import RELEASE as __version__

__all__ = ["__version__"]
