"""Tests of the ledger, all against a real PostgreSQL."""
