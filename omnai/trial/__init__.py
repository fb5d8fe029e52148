"""Runs an engine by hand, without queue and database, and says what was seen and measured."""
