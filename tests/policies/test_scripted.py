from __future__ import annotations

import ast
import asyncio
from pathlib import Path

import pytest

import gradient_rl.policies
from gradient_rl.policies.heuristic import HeuristicPolicy
from gradient_rl.policies.reading import (
    Asked,
    asked_kind,
    content_words,
    day_asked_about,
    identifiers_in,
    names_in,
    sentences_of,
    values_in,
)
from gradient_rl.policies.weak import WeakPolicy
from gradient_rl.rollout.runner import Job, Setting, run_episode
from gradient_rl.schema.trajectory import Trajectory
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK


def play(policy: WeakPolicy | HeuristicPolicy, setting: Setting, task=NOTICE_TASK, sample: int = 0) -> Trajectory:
    return asyncio.run(run_episode(Job(policy, task, seed=3, sample=sample), setting))


def test_weak_searches_once_opens_the_first_hit_and_quotes_it(tiny_setting: Setting) -> None:
    played = play(WeakPolicy(), tiny_setting)

    assert [step.tool for step in played.steps] == ["search", "open_document", "submit_answer"]
    assert played.answer == "Either party may end K-100 by giving 30 days notice."
    assert played.sources == ("doc-1",)


def test_heuristic_finds_the_amendment(tiny_setting: Setting) -> None:
    played = play(HeuristicPolicy(), tiny_setting)

    assert played.reward is not None
    assert played.reward.value("correctness") == 1.0
    assert "mail-1" in played.sources


def test_heuristic_says_so_when_nothing_is_on_record(tiny_setting: Setting) -> None:
    assert play(HeuristicPolicy(), tiny_setting, DEPOSIT_TASK).stop_reason == "submitted"


@pytest.mark.parametrize("policy", [WeakPolicy, HeuristicPolicy])
def test_a_temperature_gives_a_group_spread(policy, tiny_setting: Setting) -> None:
    played = [play(policy(1.0), tiny_setting, sample=sample) for sample in range(12)]

    assert len({str([step.arguments for step in t.steps]) for t in played}) > 1


@pytest.mark.parametrize("policy", [WeakPolicy, HeuristicPolicy])
def test_an_observation_that_was_cut_breaks_nothing(policy, tiny) -> None:
    from gradient_rl.environment.episode import Limits
    from gradient_rl.rollout.runner import setting_for

    played = play(policy(), setting_for(tiny, Limits(max_observation_chars=200)))

    assert played.error is None


def test_policies_know_only_the_schema() -> None:
    """No policy can reach a task, a reward or the workspace, except through what the conversation shows."""
    folder = Path(gradient_rl.policies.__file__).parent
    imported = {
        node.module
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gradient_rl")
    }

    # What a training run has saved names no task, no fact and no source either.
    known = ("policies", "schema.trajectory", "schema.training", "schema.workspace", "schema.jsonl", "errors")
    assert all(m.startswith(tuple(f"gradient_rl.{name}" for name in known)) for m in imported if m), imported


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("How much does the oven cost?", Asked.MONEY),
        ("How long is the notice?", Asked.DURATION),
        ("When did K-100 begin?", Asked.DATE),
        ("Who signed for the bakery?", Asked.NAME),
        ("How many ovens are there?", Asked.NUMBER),
        ("What percentage do they get off?", Asked.PERCENT),
        ("Why was the visit moved?", Asked.TEXT),
    ],
)
def test_the_kind_of_a_question_is_read_from_its_words(question: str, kind: Asked) -> None:
    assert asked_kind(question) is kind


def test_values_of_a_kind_are_read() -> None:
    text = "From 1 April 2025 K-100 costs EUR 1,250 or €1.5k; notice sixty days, 8% off, signed by Maria Holt."

    assert values_in(text, Asked.MONEY) == ["EUR 1,250", "€1.5k"]
    assert values_in(text, Asked.DURATION) == ["sixty days"]
    assert values_in(text, Asked.DATE) == ["1 April 2025"]
    assert values_in(text, Asked.PERCENT) == ["8%"]
    assert values_in(text, Asked.NAME) == ["Maria Holt"]
    assert values_in(text, Asked.TEXT) == []


def test_leads_are_read() -> None:
    assert identifiers_in("See FV-2291, PSW-40 and account 20417.") == ("FV-2291", "PSW-40", "20417")
    assert names_in("We ask Maria Holt of Birch Bakery") == ("Maria Holt of Birch Bakery",)


def test_content_words_leave_out_the_common_ones() -> None:
    assert content_words("What is the notice of the baker's oven?") == ("notice", "baker", "oven")


def test_a_past_day_is_recognised() -> None:
    assert day_asked_about("What applied on 1 July 2024?") == "2024-07-01"
    assert day_asked_about("What applied in March 2025?") == "2025-03-28"
    assert day_asked_about("What applies now?") is None


def test_quoted_mails_and_table_rows_are_sentences() -> None:
    parts = [sentence.text for sentence in sentences_of("Hello there. All well?\n> earlier words\n| OV-7 | Mill Lane |")]

    assert parts == ["Hello there.", "All well?", "earlier words", "| OV-7 | Mill Lane |"]
