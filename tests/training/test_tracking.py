from __future__ import annotations

from gradient_rl.schema.training import StepMetrics
from gradient_rl.training.tracking import flat


def test_the_warm_start_does_not_replace_the_figures_of_the_base() -> None:
    base = flat(StepMetrics(run_id="r", step=0, checkpoint="0", seconds={"validate": 1.0}))
    warm = flat(StepMetrics(run_id="r", step=0, checkpoint="warm", seconds={"warm_start": 2.0}, learner={"loss": 1.5}))

    assert base["seconds/validate"] == 1.0
    assert (warm["warm_start/learner/loss"], warm["warm_start/seconds/warm_start"]) == (1.5, 2.0)
    assert not base.keys() & warm.keys()
