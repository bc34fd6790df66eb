from __future__ import annotations

from pathlib import Path

import pytest

from gradient_rl.environment.search import BM25Index
from gradient_rl.environment.tools import EVERYTHING
from gradient_rl.environment.workspace import Workspace
from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.evaluation.statistics import detectable_difference
from gradient_rl.schema.workspace import Document
from gradient_rl.worlds.card import Card, card_of, cited_by, measures_of
from gradient_rl.worlds.generate import Recipe, generate
from gradient_rl.worlds.trade import load_trade
from tests.conftest import write_data
from tests.tiny import DEPOSIT_TASK, NOTICE_TASK, RECORDS


@pytest.fixture(scope="module")
def packaged(data_dir: Path) -> Card:
    return card_of(data_dir)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world")
    generate(Recipe(trade="logistics", records=200, tasks=10, heldout=10, seed=0), load_trade("logistics"), folder)
    return folder


def test_the_records_of_the_tiny_workspace_are_counted(tiny_data: Path) -> None:
    records = card_of(tiny_data).records

    assert (records.total, records.measured, records.threads) == (6, 6, 2)
    assert records.kinds == {"contract": 2, "customer_record": 1, "email": 2, "policy": 1}
    assert records.words == pytest.approx(sum(len(record.body.split()) for record in RECORDS) / 6)


def test_the_tasks_of_the_tiny_workspace_are_counted(tiny_data: Path) -> None:
    tasks = card_of(tiny_data).tasks

    assert tasks.splits == {"train": 1, "validation": 0, "heldout": 1}
    assert tasks.families == {"not_on_record": 1, "superseded": 1}
    assert (tasks.hops, tasks.slots) == ({"1": 1, "2": 1}, {"1": 2})
    assert tasks.fact_kinds == {"absent": 1, "duration": 1}


def test_difficulty_is_measured_from_tasks_and_ranks(tiny: Workspace, tiny_index: BM25Index) -> None:
    ranks = [
        tiny_index.rank(task.question, EVERYTHING, 6).index(wanted) + 1
        for task, wanted in ((NOTICE_TASK, "mail-1"), (DEPOSIT_TASK, "doc-2"))
    ]
    measures = measures_of([NOTICE_TASK, DEPOSIT_TASK], tiny_index, tiny)

    assert ranks == [5, 1]
    words = len(tiny.records["mail-1"].body.split()) + len(tiny.records["doc-2"].body.split())
    assert measures.model_dump() == pytest.approx(
        {"keyword_recall": 0.5, "typical_rank": 5**0.5, "reference_calls": 3, "rival_share": 0.5, "words_to_read": words / 2}
    )


def test_a_record_without_a_word_of_the_question_counts_as_the_last(tiny: Workspace, tiny_index: BM25Index) -> None:
    task = NOTICE_TASK.model_copy(update={"question": "Zebra?", "required_sources": (("mail-1",), ("doc-1",))})

    measures = measures_of([task], tiny_index, tiny)

    assert (measures.typical_rank, measures.keyword_recall) == (6, 0.0)


def test_the_best_record_of_a_slot_counts(tiny: Workspace, tiny_index: BM25Index) -> None:
    task = NOTICE_TASK.model_copy(update={"question": "canteen soup", "required_sources": (("doc-4", "mail-2"),)})

    assert measures_of([task], tiny_index, tiny).typical_rank == 1


def test_the_reference_earns_1_on_the_packaged_tasks(packaged: Card) -> None:
    assert packaged.earned["reference"].overall == 1.0
    assert set(packaged.earned["reference"].families.values()) == {1.0}
    assert packaged.short_references == ()


def test_earnings_are_given_by_policy_split_and_family(packaged: Card) -> None:
    assert list(packaged.earned) == ["weak", "heuristic", "reference"]
    assert list(packaged.earned["weak"].splits) == ["train", "validation", "heldout"]
    assert len(packaged.earned["heuristic"].families) == 10


def test_a_reference_that_earns_less_is_named(tmp_path: Path) -> None:
    lazy = NOTICE_TASK.model_copy(update={"reference": NOTICE_TASK.reference[:1]})
    card = card_of(write_data(tmp_path / "data", tasks=[lazy]))

    assert card.short_references == ("tiny-1",)


def test_the_power_of_the_packaged_tasks_follows_from_their_spread(packaged: Card) -> None:
    assert packaged.power.tasks == 20
    assert packaged.power.detectable is not None
    assert 0.05 < packaged.power.detectable < 0.15
    needed = [packaged.power.needed[target] for target in ("0.02", "0.05", "0.10")]
    assert needed == sorted(needed, reverse=True)


def test_one_held_out_task_can_detect_nothing(tiny_data: Path) -> None:
    power = card_of(tiny_data).power

    assert (power.tasks, power.detectable, power.needed["0.02"]) == (1, None, None)
    assert detectable_difference([0.1]) is None


def test_a_generated_folder_brings_its_recipe(world: Path) -> None:
    card = card_of(world)

    assert card.world is not None
    assert card.world.recipe.records == card.records.total == 200
    assert card.short_references == ()
    assert card.repetition.share <= 0.02


def test_a_large_folder_is_measured_on_a_sample_that_holds_what_tasks_cite(world: Path) -> None:
    card = card_of(world, most=50)

    assert card.records.total == 200
    assert 50 <= card.records.measured < 200
    assert sum(card.records.kinds.values()) == 200
    assert card_of(world, most=50) == card


def test_a_task_cites_what_it_needs_what_it_allows_and_what_its_facts_follow_from() -> None:
    assert set(cited_by(NOTICE_TASK)) == {"mail-1", "doc-1"}
    assert set(cited_by(DEPOSIT_TASK)) == {"doc-2"}


def test_a_folder_without_tasks_still_has_a_card(tmp_path: Path) -> None:
    card = card_of(write_data(tmp_path / "data"))

    assert (card.tasks.total, card.difficulty, card.keywords) == (0, None, ())
    assert card.records.total == 6


def test_a_folder_without_records_has_none(tmp_path: Path) -> None:
    with pytest.raises(NothingToReadError, match="holds no records"):
        card_of(write_data(tmp_path / "data", records=()))


def test_a_missing_file_is_named(tiny_data: Path) -> None:
    (tiny_data / "emails.jsonl").unlink()
    with pytest.raises(NothingToReadError, match=r"emails\.jsonl is not there"):
        card_of(tiny_data)


def test_a_damaged_line_is_named(tiny_data: Path) -> None:
    with (tiny_data / "documents.jsonl").open("a") as file:
        file.write("{}\n")
    with pytest.raises(DataError, match=r"documents\.jsonl line 5"):
        card_of(tiny_data)


@pytest.mark.parametrize("content", ["{", '{"recipe": 1}'])
def test_a_foreign_world_file_is_an_error(tiny_data: Path, content: str) -> None:
    (tiny_data / "world.json").write_text(content)
    with pytest.raises(DataError, match=r"world\.json does not describe a generated world"):
        card_of(tiny_data)


def test_records_are_read_one_by_one_whatever_their_line_separators(tmp_path: Path) -> None:
    odd = Document.model_validate({**RECORDS[2].model_dump(), "body": "The oven\u2028is let.\x0bIt hums."})

    assert card_of(write_data(tmp_path / "data", records=[odd])).records.total == 1
