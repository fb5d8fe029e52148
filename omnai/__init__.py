"""The command line and the services it can start by itself."""

__version__ = "0.1.0"
