"""A stream decoder that says the same as the snapshot's own and computes less for it."""
