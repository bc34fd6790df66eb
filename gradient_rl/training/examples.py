"""The examples of a warm start as they are saved: a resumed run imitates the same ones, and a reader can look at them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from gradient_rl.errors import DataError
from gradient_rl.evaluation.run import CHECKPOINTS
from gradient_rl.runs import json_line, write_whole
from gradient_rl.schema.trajectory import Trajectory

EXAMPLES = "warm.jsonl"


def saved_examples(artifacts: Path) -> tuple[Trajectory, ...]:
    """The examples of the run in an artifacts folder; none where it has saved none.

    Raises:
        DataError: a line is damaged.
    """
    path = artifacts / CHECKPOINTS / EXAMPLES
    if not path.exists():
        return ()
    found: list[Trajectory] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            found.append(Trajectory.model_validate_json(line))
        except ValidationError as error:
            fault = error.errors(include_url=False, include_input=False)[0]["msg"]
            raise DataError(f"{path} line {number} is damaged: {fault}; begin a new run without --resume") from None
    return tuple(found)


def save_examples(artifacts: Path, examples: Sequence[Trajectory]) -> None:
    """Save them, a line each, whole or not at all.

    Raises:
        ArtifactError: the file system refuses.
    """
    path = artifacts / CHECKPOINTS / EXAMPLES
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, b"".join(json_line(example.model_dump(mode="json")) for example in examples))
