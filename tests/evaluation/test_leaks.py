from __future__ import annotations

import pytest

from gradient_rl.environment.episode import Limits
from gradient_rl.environment.prompt import SYSTEM_PROMPT
from gradient_rl.environment.tools import TOOLS, Desk
from gradient_rl.evaluation.leaks import PROMPT, QUESTION, Leak, leaks_of, texts_shown
from gradient_rl.schema.task import FactKind, Task
from gradient_rl.schema.trajectory import Observation
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK


def look_up(desk: Desk, word: str) -> Observation:
    """Look up a word in mail-1, as in "60 days".

    Args:
        word: The word.
    """
    return Observation(text=word)


def asking(question: str) -> Task:
    return NOTICE_TASK.model_copy(update={"question": question})


def leaks(task: Task, **texts: str) -> list[Leak]:
    return list(leaks_of(task, texts_shown(task, Limits(), TOOLS) | texts))


@pytest.mark.parametrize("task", [NOTICE_TASK, DEPOSIT_TASK])
def test_what_is_shown_of_a_sound_task_leaks_nothing(task: Task) -> None:
    assert leaks(task) == []


@pytest.mark.parametrize("question", ["Is the notice 60 days?", "Is it sixty days?"])
def test_a_question_that_states_the_value_leaks_it_in_any_wording(question: str) -> None:
    assert leaks(asking(question)) == [Leak("'60 days'", QUESTION)]


def test_a_question_that_names_a_required_record_leaks_it() -> None:
    assert leaks(asking("What does MAIL-1 say?")) == [Leak("the id 'mail-1'", QUESTION)]


def test_an_id_within_a_longer_id_is_no_leak() -> None:
    assert leaks(asking("What do mail-12, xmail-1 and mail-1-b say?")) == []


def test_a_system_prompt_with_an_example_from_a_task_leaks_it() -> None:
    prompt = f"{SYSTEM_PROMPT}\nFor example: 60 days, as mail-1 says."

    assert leaks(NOTICE_TASK, **{PROMPT: prompt}) == [Leak("the id 'mail-1'", PROMPT), Leak("'60 days'", PROMPT)]


def test_the_schema_of_a_tool_may_leak_too() -> None:
    shown = texts_shown(NOTICE_TASK, Limits(), (*TOOLS, look_up))
    where = "the schema of look_up"

    assert list(leaks_of(NOTICE_TASK, shown)) == [Leak("the id 'mail-1'", where), Leak("'60 days'", where)]


@pytest.mark.parametrize(("value", "found"), [("15", []), ("5", []), ("2365", [Leak("'2365'", PROMPT)])])
def test_small_numbers_of_a_prompt_are_its_limits_and_not_a_leak(value: str, found: list[Leak]) -> None:
    fact = NOTICE_TASK.facts[0].model_copy(update={"kind": FactKind.NUMBER, "value": value, "rivals": ()})
    task = NOTICE_TASK.model_copy(update={"facts": (fact,)})

    assert leaks(task, **{PROMPT: "You have 15 calls and 5 hits. Cycles: 2365."}) == found
