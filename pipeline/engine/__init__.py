"""Engines: what listens to a recording and speaks."""
