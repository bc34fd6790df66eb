from __future__ import annotations

import io
import json

from rich.console import Console

from gradient_rl.report.library import Background
from gradient_rl.report.show import as_object, facts_told, losses, said_before, shown, slots_reached
from gradient_rl.schema.task import Task
from gradient_rl.schema.trajectory import Step, StopReason, Trajectory
from tests.saving import scored
from tests.tiny import NOTICE_TASK
from tests.trajectories import opening, searching, trajectory

KNOWN = Background(NOTICE_TASK, {"mail-1": "Birch Bakery amendment"}, ())


def text_of(episode: Trajectory, background: Background = KNOWN, width: int = 200) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    for part in shown("demo/made/tiny-1/0", "demo.jsonl line 1", episode, background):
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_right_answer_is_shown_whole() -> None:
    shown_text = text_of(scored())

    assert "policy made; task tiny-1, superseded, train; sample 0, seed 0; submitted after 3 of 15 calls" in shown_text
    assert "How much notice does the bakery contract ask for now?" in shown_text
    assert " 1  search  notice" in shown_text
    assert " 2  open_email  mail-1" in shown_text
    assert "cites mail-1 (required)" in shown_text
    assert "stated: tiny-1-f1: Since 1 April 2025 K-100 asks for 60 days notice." in shown_text
    assert "1.00 = 0.50 x 1.00 correctness + 0.30 x 1.00 citation_quality + 0.20 x 1.00 efficiency" in shown_text
    assert "lost" not in shown_text


def test_the_day_of_the_question_is_shown() -> None:
    assert "Question, asked on 2025-06-30\n" in text_of(scored())
    assert "Question\n" in text_of(scored(messages=()))
    assert as_object("a", "b", 1, scored(), KNOWN)["asked_on"] == "2025-06-30"


def test_a_required_record_is_followed_from_search_to_citation() -> None:
    (slot,) = slots_reached(scored(), NOTICE_TASK)

    assert (slot.any_of, slot.found, slot.read, slot.cited) == (("mail-1",), 1, 2, True)


def test_a_required_record_that_was_never_found_says_so() -> None:
    episode = scored(opened=("doc-2",), sources=("doc-2", "doc-1", "mail-1"))
    (slot,) = slots_reached(episode, NOTICE_TASK)
    shown_text = text_of(episode)

    assert (slot.found, slot.read, slot.cited) == (None, None, False)
    assert "mail-1  never  never  no     Birch Bakery amendment" in shown_text
    assert "cites doc-2 (proves nothing)" in shown_text
    assert "cites mail-1 (was not opened)" in shown_text


def test_a_refused_opening_reads_nothing() -> None:
    refused = Step(tool="open_email", arguments={"id": "mail-1"}, observation="no", error="no search has shown it")
    episode = scored(steps=(searching("x", "mail-1"), refused), answer=None, stop_reason=StopReason.CALL_LIMIT)

    assert slots_reached(episode, NOTICE_TASK)[0].read is None
    assert "refused: no search has shown it" in text_of(episode)


def test_each_lost_point_has_its_reason() -> None:
    episode = scored(answer="30 days", opened=("mail-1", "doc-1"), sources=("mail-1", "doc-2"))
    lost = {loss.part.name: loss for loss in losses(episode)}
    shown_text = text_of(episode)

    assert lost["correctness"].lost == 0.5
    assert lost["citation_quality"].reasons == ("doc-2 is cited without having been opened",)
    assert "correctness lost 0.50 of 0.50" in shown_text
    assert "- doc-2 is cited without having been opened" in shown_text
    assert "not stated: tiny-1-f1" in shown_text


def test_facts_are_told_from_the_saved_reward_where_the_task_is_not_known() -> None:
    (fact,) = facts_told(scored(), None)

    assert (fact.id, fact.stated, fact.statement) == ("tiny-1-f1", True, "")


def test_facts_of_an_episode_without_an_answer_are_not_stated() -> None:
    (fact,) = facts_told(scored(answer=None, stop_reason=StopReason.CALL_LIMIT), NOTICE_TASK)

    assert (fact.stated, fact.reason) == (False, "no answer was submitted")


def test_an_infrastructure_failure_has_no_reward_and_says_why() -> None:
    episode = scored(answer=None, steps=(), stop_reason=StopReason.TRANSPORT_ERROR, error="connection reset")
    shown_text = text_of(episode)

    assert "none was made" in shown_text
    assert "no reward, because the infrastructure failed: connection reset" in shown_text


def test_nothing_is_cut_however_long_or_narrow() -> None:
    body = " ".join(f"word{i}" for i in range(3000))
    step = Step(
        tool="open_email", arguments={"id": "mail-1"}, observation=json.dumps({"id": "mail-1", "body": body}), ids=("mail-1",)
    )
    episode = scored(steps=(searching("q" * 500, "mail-1"), step), answer="a" * 3000)
    shown_text = "".join(text_of(episode, width=40).split())

    assert body.replace(" ", "") in shown_text
    assert "q" * 500 in shown_text
    assert "a" * 3000 in shown_text


def test_hits_and_records_are_laid_out() -> None:
    hits = {
        "hits": [
            {
                "id": "mail-1",
                "kind": "email",
                "title": "Birch",
                "date": "2025-03-03",
                "people": ["Anna", "Tom"],
                "snippet": "60 days",
            }
        ]
    }
    search = Step(tool="search", arguments={"query": "x"}, observation=json.dumps(hits), ids=("mail-1",))
    shown_text = text_of(scored(steps=(search, opening("mail-1"))))

    assert "mail-1  email  2025-03-03  Birch  (required)" in shown_text
    assert "people: Anna, Tom" in shown_text


def test_an_observation_that_was_cut_in_play_is_printed_as_it_is() -> None:
    cut = Step(tool="open_email", arguments={"id": "mail-1"}, observation='{"id":"mail-1","bo [cut: 9 more characters]')

    assert '{"id":"mail-1","bo [cut: 9 more characters]' in text_of(scored(steps=(cut,)))


def test_control_codes_and_markup_are_printed_as_text() -> None:
    shown_text = text_of(scored(answer="\x1b]0;owned\x07 [red]60 days[/red] \u202egnp"))

    assert "]0;owned [red]60 days[/red] gnp" in shown_text
    assert "\x1b" not in shown_text


def spoken() -> Trajectory:
    call = {"id": "c1", "type": "function", "function": {"name": "guess", "arguments": '{"it": 1}'}}
    messages = (
        {"role": "user", "content": "How much notice?"},
        {"role": "assistant", "content": "I guess.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "malformed reply: there is no tool 'guess'"},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "tool_call_id": "c2", "content": "{}"},
        {"role": "assistant", "content": "No more ideas."},
    )
    return trajectory(steps=(searching("notice"),), messages=messages, answer=None, stop_reason=StopReason.MALFORMED)


def test_what_a_model_said_and_its_malformed_calls_stand_between_the_steps() -> None:
    said, rest = said_before(spoken())

    assert said == [["says: I guess.", 'calls: guess {"it": 1}', "is told: malformed reply: there is no tool 'guess'"]]
    assert rest == ["says: No more ideas."]
    assert "says: No more ideas." in text_of(spoken())


def test_notes_are_shown_first() -> None:
    task: Task | None = None

    assert text_of(scored(), Background(task, {}, ("it is old",))).splitlines()[2] == "note: it is old"


def test_the_whole_of_it_as_plain_data() -> None:
    found = as_object("demo/made/tiny-1/0", "demo.jsonl", 1, scored(), KNOWN)

    assert found["required"] == [{"any_of": ["mail-1"], "found_at": 1, "read_at": 2, "cited": True}]
    assert json.loads(json.dumps(found))["trajectory"]["answer"] == "60 days"
    assert as_object("x", "y", 1, scored(), Background(None, {}, ()))["required"] is None
