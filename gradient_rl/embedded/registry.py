"""What the server knows of its model: who registered it under which name, and its checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import RLock
from typing import Any, Literal

from pydantic import ValidationError

from gradient_rl.embedded.model import ServedModel
from gradient_rl.embedded.protocol import InferenceName, RefusedError, Registration
from gradient_rl.errors import DataError
from gradient_rl.runs import digest, json_line, write_whole
from gradient_rl.schema.workspace import FrozenRecord

FILE_NAME = "models.json"
DEFAULT_ENTITY = "local"


class RegisteredModel(FrozenRecord):
    """A model under the name that a client gave it."""

    id: str
    entity: str
    project: str
    name: str
    base_model: str
    checkpoints: tuple[int, ...]
    """The steps that could be asked for when this was saved."""

    def answer(self) -> dict[str, Any]:
        """What the client is told; W&B knows a run by the model's name."""
        return {**self.model_dump(exclude={"checkpoints"}), "run_id": self.name}


class _SavedModels(FrozenRecord):
    schema_version: Literal[1] = 1
    models: tuple[RegisteredModel, ...] = ()


class Registry:
    """The one name that a served model goes by, and the steps of the model behind it.

    Args:
        model: keeps its own weights.
        folder: where `models.json` is kept from one start to the next; None keeps it in memory.

    Raises:
        DataError: the file is damaged, or names a checkpoint that the model does not have.
    """

    def __init__(self, model: ServedModel, folder: Path | None = None) -> None:
        self.model = model
        self._path = folder / FILE_NAME if folder else None
        self._registered = self._load()
        self._lock = RLock()
        if self._registered and self._registered.checkpoints != tuple(model.steps()):
            self.save()  # an earlier process ended after the model had saved a step, and before this file told of it

    def register(self, request: Registration) -> RegisteredModel:
        """Give a name to the model, or find that it has it.

        Raises:
            RefusedError: it has this name and `return_existing` is false, or it has another one. The weights of two
                names cannot be told apart by their steps.
        """
        entity = request.entity or DEFAULT_ENTITY
        wanted = (entity, request.project, request.name)
        if self._registered is None:
            model_id = f"model-{digest(wanted)[:16]}"
            self._registered = RegisteredModel(
                id=model_id,
                entity=entity,
                project=request.project,
                name=request.name,
                base_model=request.base_model,
                checkpoints=(),
            )
            self.save()
            return self._registered
        if _names(self._registered) != wanted:
            held = "/".join(_names(self._registered))
            raise RefusedError(
                409, f"this server holds {held}; delete that model, or start another server for {'/'.join(wanted)}"
            )
        if not request.return_existing:
            raise RefusedError(409, f"{'/'.join(wanted)} exists; register it with return_existing")
        return self._registered

    def find(self, model_id: str) -> RegisteredModel:
        """Find the model by its id.

        Raises:
            RefusedError: no model has this id.
        """
        if self._registered is None or self._registered.id != model_id:
            raise RefusedError(404, f"no model has the id {model_id[:80]!r}; register it first")
        return self._registered

    def resolve(self, name: InferenceName) -> int:
        """Give the step that an inference name asks for.

        Raises:
            RefusedError: no model has this name, or it has no such checkpoint.
        """
        if self._registered is None or _names(self._registered) != name[:3]:
            raise RefusedError(404, f"no model is registered as {'/'.join(name[:3])}")
        steps = self.model.steps()
        if name.step is not None and name.step not in steps:
            raise RefusedError(404, f"{name.name} has no checkpoint of step {name.step}; it has {list(steps)}")
        return self.latest() if name.step is None else name.step

    def latest(self) -> int:
        """The highest step there is."""
        return max(self.model.steps())

    def forget(self, steps: Sequence[int]) -> tuple[list[int], list[int]]:
        """Drop checkpoints; give the steps that were dropped, and those that are not there or are the base."""
        there = set(self.model.steps()) - {0}
        dropped = sorted(there & set(steps))
        with self._lock:
            self.save(without=dropped)
            self.model.forget(dropped)
        return dropped, sorted(set(steps) - there)

    def remove(self) -> None:
        """Drop the name and every checkpoint but the base."""
        self.forget(self.model.steps())
        self._registered = None
        self.save()

    def save(self, without: Sequence[int] = ()) -> None:
        """Write the file, if there is a folder.

        A step is in the file after it is in the model and leaves it before, so that a crash never leaves the
        file with a step that the model lacks. The training thread saves too.

        Raises:
            ArtifactError: the file system refuses.
        """
        with self._lock:
            if self._registered is not None:
                steps = tuple(step for step in self.model.steps() if step not in without)
                self._registered = self._registered.model_copy(update={"checkpoints": steps})
            if self._path is not None:
                saved = _SavedModels(models=(self._registered,) if self._registered else ())
                write_whole(self._path, json_line(saved.model_dump(mode="json")))

    def _load(self) -> RegisteredModel | None:
        if self._path is None or not self._path.exists():
            return None
        try:
            models = _SavedModels.model_validate_json(self._path.read_bytes()).models
        except ValidationError:
            raise DataError(f"{self._path} is damaged; move it away, and register the model again") from None
        lost = sorted({step for model in models for step in model.checkpoints} - set(self.model.steps()))
        if lost:
            raise DataError(f"{self._path} names step {lost[0]}, which the model does not have; give the folder of its weights")
        return models[0] if models else None


def _names(model: RegisteredModel) -> tuple[str, str, str]:
    return model.entity, model.project, model.name
