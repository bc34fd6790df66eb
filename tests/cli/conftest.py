"""The commands that use the ART library may reach no other machine in a test either."""

from tests.embedded.conftest import local_only, quick_polls

__all__ = ["local_only", "quick_polls"]
