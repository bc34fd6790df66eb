"""The ART learner's tests let nothing leave this machine either."""

from tests.embedded.conftest import local_only, quick_polls

__all__ = ["local_only", "quick_polls"]
