"""Why the fast decoder stays out."""


class NotFast(Exception):
    """This model, or this machine, is not one that the fast decoder is known to serve."""
