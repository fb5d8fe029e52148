"""What the tests of the media side share."""

from tests.clips import clips

__all__ = ["clips"]
