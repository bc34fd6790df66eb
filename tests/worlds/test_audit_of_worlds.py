from __future__ import annotations

from collections.abc import Mapping

from gradient_rl.environment.workspace import HELDOUT_FILE, load_tasks, load_workspace
from gradient_rl.evaluation.audit import Reward, audit
from gradient_rl.rollout.runner import setting_for
from tests.worlds.conftest import Made


def test_the_packaged_reward_has_no_finding_on_generated_tasks(worlds: Mapping[str, Made]) -> None:
    folder = worlds["catering"].folder
    found = audit(load_tasks(folder / HELDOUT_FILE).tasks, setting_for(load_workspace(folder)), Reward())

    assert (found.findings, found.failed, found.tasks) == ((), (), 20)
