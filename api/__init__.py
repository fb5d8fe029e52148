"""The HTTP service: submit, watch and fetch."""
