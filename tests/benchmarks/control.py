"""The control of a training run: the default configuration with rewards dealt anew within each group, five seeds.

python -m tests.benchmarks.control
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from gradient_rl.training.config import TrainingConfig
from tests.training.learning import ShuffledLearner, go, metrics_in

SEEDS = range(5)


def main() -> None:
    for seed in SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            run = go(Path(folder), TrainingConfig(seed=seed), ShuffledLearner)
            rewards = [m.train.reward or 0.0 for m in metrics_in(Path(folder)) if m.train]
        assert run is not None
        assert run.before is not None
        assert run.after is not None
        print(
            f"seed {seed}: training reward {rewards[0]:.3f} to {rewards[-1]:.3f}, highest {max(rewards):.3f}; "
            f"validation {run.before.reward:.3f} to {run.after.reward:.3f}"
        )


if __name__ == "__main__":
    main()
