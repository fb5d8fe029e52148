"""Fetches recordings from links, on a process that owns no engine."""
