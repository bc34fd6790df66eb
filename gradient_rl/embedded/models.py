"""Which model stands behind the embedded server."""

from __future__ import annotations

from pathlib import Path

from gradient_rl.embedded.linear import LinearModel
from gradient_rl.embedded.model import ServedModel
from gradient_rl.schema.training import STOOD_IN_FOR


def is_language_model(base_model: str) -> bool:
    """Whether a name or path is that of a language model, and not one that the linear policy stands in for."""
    return base_model not in STOOD_IN_FOR


def check_base_model(base_model: str) -> None:
    """See that `served_model` will find this model, before anything is moved for it; as cheaply as can be.

    Raises:
        GradientError: the base model is not to be had, or what runs it is not installed.
    """
    if is_language_model(base_model):
        from gradient_rl.embedded.weights import check_weights

        check_weights(base_model)


def served_model(base_model: str, folder: Path) -> ServedModel:
    """The model of that name, its states in the folder.

    Args:
        base_model: `smollm2`, a local path or a hub id for a language model; `linear` or the default for the linear policy.
        folder: as `LinearModel` takes it.

    Raises:
        GradientError: a state is damaged, the base model is not to be had, or what runs it is not installed.
    """
    if not is_language_model(base_model):
        return LinearModel(folder)
    from gradient_rl.embedded.lm import LanguageModel

    return LanguageModel(base_model, folder)
