from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from gradient_rl.embedded.linear import LinearModel
from gradient_rl.embedded.models import served_model
from gradient_rl.embedded.weights import check_extra
from gradient_rl.errors import UsageError


class Named(NamedTuple):
    """Stands in for the language model."""

    base_model: str
    folder: Path


@pytest.fixture
def language_model(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("gradient_rl.embedded.lm")
    module.LanguageModel = Named  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize("name", ["OpenPipe/Qwen3-14B-Instruct", "linear"])
def test_the_linear_policy_stands_in_for_the_default_model(name: str, tmp_path: Path) -> None:
    assert isinstance(served_model(name, tmp_path), LinearModel)


@pytest.mark.usefixtures("language_model")
@pytest.mark.parametrize("name", ["smollm2", "somebody/some-model", "/some/path"])
def test_any_other_name_is_a_language_model(name: str, tmp_path: Path) -> None:
    assert served_model(name, tmp_path) == Named(name, tmp_path)


@pytest.mark.parametrize("name", ["torch", "transformers", "peft", "safetensors", "gguf"])
def test_a_library_that_is_missing_is_named_with_what_to_install(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked == name else asked)

    with pytest.raises(UsageError, match=f"needs {name}, which is not installed: run 'make lm'"):
        check_extra()
