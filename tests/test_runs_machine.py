"""A run folder under appends, kills, damage and resumes in any order; `tests/torture/machine.py` says what must hold."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.torture.machine import RunFolder

TestRunFolder = RunFolder.TestCase
TestRunFolder.settings = settings(
    max_examples=25, stateful_step_count=25, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
