"""A language model of the same architecture as SmolLM2's and the size of a toy, over bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gradient_rl.embedded.attention import TRAINING, register
from gradient_rl.embedded.lm import LanguageModel
from gradient_rl.embedded.weights import Loaded

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte, and the two that stand around a message."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|im_start|>", eos_token="<|im_end|>", pad_token="<|im_end|>"
    )
    made.chat_template = TEMPLATE
    return made


def random_model(seed: int = 0) -> LlamaForCausalLM:
    """Weights drawn from a seed: 2 layers of 32, 4 heads over 2 pairs of keys and values."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=260,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16384,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    register()
    return LlamaForCausalLM._from_config(config, attn_implementation=TRAINING).eval()


def loaded(seed: int = 0) -> Loaded:
    import torch

    tokenizer = byte_tokenizer()
    model = random_model(seed)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    return Loaded(model, tokenizer, torch.device("cpu"))


def tiny_lm(folder: Path, seed: int = 0) -> LanguageModel:
    return LanguageModel.of(loaded(seed), folder)


def save_tiny(folder: Path) -> Path:
    """As `from_pretrained` reads it."""
    made = loaded()
    made.model.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    return folder
