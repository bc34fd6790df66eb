"""The benchmark against TRL does the same work on both sides: in small, on random weights."""

import importlib.util
from collections.abc import Mapping
from pathlib import Path

import pytest

pytestmark = pytest.mark.lm


@pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="needs trl: make bench-lm")
def test_both_sides_read_sample_and_learn_from_the_same_tokens(tmp_path: Path) -> None:
    from tests.benchmarks.lm import in_a_process, work_for
    from tests.embedded.tiny_lm import byte_tokenizer, save_tiny

    model = str(save_tiny(tmp_path))
    prompt = len(work_for(byte_tokenizer()).prompt)
    ours, theirs = (in_a_process(side, model, small=True) for side in ("ours", "TRL"))

    assert all(run[name] > 0 for run in (ours, theirs) for name in ("rollout", "train", "both", "peak_mb"))
    assert ours["sampled"] == theirs["sampled"] == 2 * 2 * 40
    # The last token of each conversation is never read by ours, and nothing follows it in theirs.
    assert ours["read"] == theirs["read"] == 2 * (prompt + 180)
    assert ours["trained"] + 2 == theirs["trained"] == 2 * (prompt + 40 + 180 + 40)


def test_the_table_shows_medians_and_how_many_times_ours_the_other_is() -> None:
    from tests.benchmarks.lm import ROWS, table

    runs = [dict.fromkeys(ROWS, value) for value in (4.0, 1.0, 2.0)]
    told = list(table({"ours": runs, "TRL": [doubled(run) for run in runs]}))

    assert told[0].split() == ["median", "of", "3", "ours", "TRL", "TRL", "/", "ours"]
    assert told[1].split() == ["rollout,", "s", "2.00", "4.00", "2.00"]


def doubled(run: Mapping[str, float]) -> dict[str, float]:
    return {name: 2 * value for name, value in run.items()}
