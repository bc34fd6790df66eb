"""Is this data fit to train and to measure on? Every finding names file, line, id and value.

`validate_data` reads a data folder as leniently as it can, so that one run shows all that is wrong with it, and returns the
findings with the keyword figures of each split: how often the question alone, as one query, finds everything that is needed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from pydantic import BaseModel

from gradient_rl.environment.search import BM25Index, SearchIndex
from gradient_rl.environment.tools import EVERYTHING
from gradient_rl.environment.workspace import (
    DOCUMENTS_FILE,
    EMAILS_FILE,
    HELDOUT_FILE,
    TRAIN_FILE,
    Workspace,
    workspace_of,
)
from gradient_rl.errors import DataError, NothingToReadError
from gradient_rl.evaluation.derivations import fault_in, kind_of_input
from gradient_rl.evaluation.evidence import Evidence, question_gives
from gradient_rl.evaluation.replay import Replayer
from gradient_rl.rewards.facts import READ_KINDS
from gradient_rl.rewards.values import key_of, mentions_of, plain_text
from gradient_rl.schema.jsonl import parse_line, read_lines
from gradient_rl.schema.task import Derivation, Fact, FactKind, Operation, Split, Task
from gradient_rl.schema.workspace import Document, Email, Record

MAX_KEYWORD_SHARE = 0.15
"""Share of all tasks whose question alone may find all required records."""
MAX_KEYWORD_SHARE_SINGLE = 0.25
"""The same among tasks with one required record."""
MIN_HITS = 3
_WEEKDAYS = "monday tuesday wednesday thursday friday saturday sunday".split()
_DAY_NAMED = re.compile(rf"\b(?P<weekday>{'|'.join(_WEEKDAYS)}),? (?=\d|[a-z]+ \d)")


@dataclass(frozen=True)
class Place:
    """Where a record or task stands."""

    file: Path
    line: int


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, where, and with which value."""

    place: Place
    id: str
    problem: str

    def __str__(self) -> str:
        """The finding as one line."""
        return f"{self.place.file} line {self.place.line}: {self.id}: {self.problem}"


@dataclass(frozen=True)
class KeywordFigures:
    """How far plain keyword matching gets in one split."""

    split: str
    tasks: int
    found: tuple[str, ...]
    """Ids of the tasks whose question, as one BM25 query, brings all slots into the top max(3, slots) hits."""
    single: int
    """Tasks with one required record."""
    single_found: tuple[str, ...]

    @property
    def share(self) -> float:
        """Found tasks over all tasks."""
        return len(self.found) / self.tasks if self.tasks else 0.0

    @property
    def single_share(self) -> float:
        """Found single-source tasks over single-source tasks."""
        return len(self.single_found) / self.single if self.single else 0.0


@dataclass(frozen=True)
class ValidationReport:
    """All findings, and the keyword figures by split."""

    findings: tuple[Finding, ...]
    keywords: tuple[KeywordFigures, ...]
    records: int
    tasks: Mapping[str, int]
    """Number of tasks by split."""


@dataclass
class _Data:
    """What could be read of a data folder, and where each part stands."""

    directory: Path
    workspace: Workspace
    tasks: list[Task]
    places: dict[str, Place]
    findings: list[Finding] = field(default_factory=list[Finding])


def validate_data(directory: Path, check_keywords: bool = True) -> ValidationReport:
    """Check records, tasks, evidence, references and splits of a data folder.

    Args:
        check_keywords: whether too many keyword-answerable tasks are findings; the figures are given in any case.

    Raises:
        NothingToReadError: the folder or one of its record files is missing, or holds nothing that can be read.
    """
    data = _read_data(directory)
    index = BM25Index(data.workspace)
    evidence = Evidence(data.workspace)
    replayer = Replayer(data.workspace, index)
    findings = [*data.findings, *_record_findings(data)]
    for task in data.tasks:
        problems = task_problems(task, data.workspace, evidence, replayer)
        findings += [Finding(data.places[task.id], task.id, problem) for problem in problems]
    findings += _split_findings(data)
    figures = [keyword_figures(split, data.tasks, index) for split in sorted({_file_split(t) for t in data.tasks})]
    if check_keywords:
        findings += [finding for figure in figures for finding in _keyword_findings(figure, data)]
    counts = {split.value: sum(task.split == split for task in data.tasks) for split in Split}
    return ValidationReport(tuple(findings), tuple(figures), len(data.workspace.records), counts)


def task_problems(task: Task, workspace: Workspace, evidence: Evidence, replayer: Replayer) -> list[str]:
    """What is wrong with one task, as sentences: ids, facts, slots, dates and the reference."""
    return list(_unresolved_ids(task, workspace)) or [
        *_fact_problems(task, evidence),
        *_slot_problems(task, replayer),
        *_date_problems(task, workspace),
        *_reference_problems(task, replayer),
    ]


def _read_data(directory: Path) -> _Data:
    findings: list[Finding] = []
    places: dict[str, Place] = {}
    emails = _read_leniently(directory / EMAILS_FILE, Email, places, findings)
    documents = _read_leniently(directory / DOCUMENTS_FILE, Document, places, findings)
    records: list[Record] = [*emails, *documents]
    if not records:
        raise NothingToReadError(f"{directory} holds no record that can be read")
    tasks: list[Task] = []
    for name in (TRAIN_FILE, HELDOUT_FILE):
        if (directory / name).exists():
            tasks += _read_leniently(directory / name, Task, places, findings)
    return _Data(directory, workspace_of(records), tasks, places, findings)


def _read_leniently[Model: BaseModel](
    path: Path, model: type[Model], places: dict[str, Place], findings: list[Finding]
) -> list[Model]:
    read: list[Model] = []
    for number, line in read_lines(path):
        place = Place(path, number)
        try:
            record = parse_line(line, model, "")
        except DataError as error:
            findings.append(Finding(place, "-", str(error).removeprefix(": ")))
            continue
        record_id = str(getattr(record, "id"))  # noqa: B009 - every model of the data files has an id
        if record_id in places:
            first = places[record_id]
            findings.append(Finding(place, record_id, f"this id is already used at {first.file} line {first.line}"))
            continue
        places[record_id] = place
        read.append(record)
    return read


def _record_findings(data: _Data) -> Iterator[Finding]:
    names: dict[str, str] = {}
    for record in data.workspace.records.values():
        place = data.places[record.id]
        for problem in weekday_problems(record.body):
            yield Finding(place, record.id, problem)
        if not record.body.strip():
            yield Finding(place, record.id, "the body is empty")
        if isinstance(record, Email):
            for problem in _address_problems(record, names):
                yield Finding(place, record.id, problem)


def weekday_problems(body: str) -> Iterator[str]:
    """Weekdays of a text that are not those of the dates they stand before, as sentences."""
    text = plain_text(body)
    for match in _DAY_NAMED.finditer(text):
        named = next((m for m in mentions_of(text, FactKind.DATE) if m.start == match.end()), None)
        if named is None or "" in named.key:
            continue
        year, month, day = map(int, named.key)
        right = _WEEKDAYS[date(year, month, day).weekday()]
        if right != match["weekday"]:
            yield f"'{text[match.start() : named.end]}' was a {right}"


def _address_problems(email: Email, names: dict[str, str]) -> Iterator[str]:
    for address in (email.sender, *email.to, *email.cc):
        match = re.fullmatch(r"\s*([^<>]+?)\s*<([^<>@\s]+@[^<>@\s]+)>\s*", address)
        if match is None:
            yield f"'{address}' is not of the form 'Name <address>'"
        elif names.setdefault(match[2].lower(), match[1]) != match[1]:
            yield f"{match[2]} belongs to '{names[match[2].lower()]}' elsewhere, and to '{match[1]}' here"


def _unresolved_ids(task: Task, workspace: Workspace) -> Iterator[str]:
    slots = [i for slot in task.required_sources for i in slot]
    named = [*slots, *task.neutral_sources]
    for fact in task.facts:
        named += [*fact.sources, *(given.record for given in (fact.derivation.inputs if fact.derivation else ()))]
    for record_id in dict.fromkeys(named):
        if record_id not in workspace.records:
            yield f"cites '{record_id}', which is not in the workspace"
    if len(slots) != len(set(slots)):
        yield f"a record stands in two slots: {sorted({i for i in slots if slots.count(i) > 1})}"


def _fact_problems(task: Task, evidence: Evidence) -> Iterator[str]:
    ids = [fact.id for fact in task.facts]
    if len(set(ids)) < len(ids):
        yield f"two facts have the same id among {ids}"
    for fact in task.facts:
        unreadable = list(_unreadable_values(fact))
        checks = [_stated_problems, _derived_problems, _absent_problems, _rival_problems]
        problems = unreadable or [problem for check in checks for problem in check(task, fact, evidence)]
        if not unreadable and question_gives(task.question, fact):
            problems.append(f"the question already states '{fact.value}'")
        yield from (f"fact '{fact.id}': {problem}" for problem in problems)


def _unreadable_values(fact: Fact) -> Iterator[str]:
    if fact.kind in READ_KINDS:
        for value in (fact.value or "", *fact.rivals):
            try:
                key_of(value, fact.kind)
            except ValueError as error:
                yield str(error)


def _stated_problems(task: Task, fact: Fact, evidence: Evidence) -> Iterator[str]:
    if fact.derivation is not None or fact.kind is FactKind.ABSENT:
        return
    for source in fact.sources:
        if not evidence.states(source, fact):
            yield f"'{source}' does not state '{fact.value}' about '{fact.subject}' in one paragraph or row"
    for other in evidence.other_statements(fact, (*fact.sources, *task.neutral_sources)):
        yield f"'{other}' also states '{fact.value}' about '{fact.subject}', and is neither a source nor neutral"


def _derived_problems(task: Task, fact: Fact, evidence: Evidence) -> Iterator[str]:
    derivation = fact.derivation
    if derivation is None:
        return
    fault = fault_in(fact)
    if fault:
        yield fault
        return
    if {given.record for given in derivation.inputs} != set(fact.sources):
        yield "its sources are not the records of its inputs"
    yield from _input_problems(derivation, fact, evidence)


def _input_problems(derivation: Derivation, fact: Fact, evidence: Evidence) -> Iterator[str]:
    for given in derivation.inputs:
        if given.value is None:
            continue
        free_text = derivation.operation is Operation.COUNT
        kind = FactKind.TEXT if free_text else kind_of_input(given.value, fact.kind)
        aliases = fact.aliases if given.value == fact.value else ()
        if not evidence.has_value(given.record, given.value, kind, aliases):
            yield f"input '{given.value}' does not stand in '{given.record}'"


def _absent_problems(task: Task, fact: Fact, evidence: Evidence) -> Iterator[str]:
    if fact.kind is not FactKind.ABSENT:
        return
    if fact.derivation is None or fact.derivation.operation is not Operation.ABSENCE:
        yield "an absent fact needs a derivation with the operation 'absence' and the records that would have said it"
    allowed = {i for slot in task.required_sources for i in slot} | set(task.neutral_sources)
    for record_id, passage in evidence.values_where_none_should_be(fact, allowed):
        yield f"'{record_id}' gives a {fact.asked_kind} beside '{fact.subject}' and {list(fact.about)}: '{passage[:100]}'"


def _rival_problems(task: Task, fact: Fact, evidence: Evidence) -> Iterator[str]:
    kind = fact.asked_kind if fact.kind is FactKind.ABSENT else fact.kind
    for rival in fact.rivals:
        but = fact.sources if fact.derivation is None else ()
        if not evidence.stands_elsewhere(rival, kind or FactKind.TEXT, fact, but):
            yield f"rival '{rival}' stands in no other record"
        if fact.value and fact.kind in READ_KINDS and key_of(rival, fact.kind) == key_of(fact.value, fact.kind):
            yield f"rival '{rival}' is the value itself"


def _slot_problems(task: Task, replayer: Replayer) -> Iterator[str]:
    required = {i for slot in task.required_sources for i in slot}
    for record_id in sorted(required & set(task.neutral_sources)):
        yield f"'{record_id}' is both required and neutral"
    for fact in task.facts:
        stray = [s for s in fact.sources if s not in required and s not in task.neutral_sources]
        if stray or not required & set(fact.sources):
            yield f"fact '{fact.id}': its sources {stray or list(fact.sources)} are in no slot"
        if fact.derivation is None:
            touched = [slot for slot in task.required_sources if set(slot) & set(fact.sources)]
            if len(touched) > 1:
                yield f"fact '{fact.id}': sources that each state it belong in one slot, not in {len(touched)}"
    proving = {source for fact in task.facts for source in fact.sources}
    for slot in task.required_sources:
        if not proving & set(slot) and not replayer.is_lead(task, slot):
            yield f"slot {list(slot)} is not needed: it proves no fact and no later query depends on it"


def _date_problems(task: Task, workspace: Workspace) -> Iterator[str]:
    for slot in task.required_sources:
        for record_id in slot:
            written = workspace.records[record_id].date
            if written > task.as_of:
                yield f"'{record_id}' is dated {written}, after the day of the question, {task.as_of}"


def _reference_problems(task: Task, replayer: Replayer) -> Iterator[str]:
    replay = replayer.play(task, task.reference)
    if len(task.reference) >= replayer.max_calls:
        yield f"the reference makes {len(task.reference)} calls; it must stay under the limit of {replayer.max_calls}"
    yield from (f"the reference meets an error: {error}" for error in replay.errors)
    if replay.unknown_words:
        yield f"the reference searches for words that nothing has shown: {list(replay.unknown_words)}"
    if replay.total != 1.0:
        reasons = [r for part in (replay.reward.parts if replay.reward else ()) for r in part.reasons if r[-7:] != ": stated"]
        yield f"the reference earns {replay.total:g}, not 1: {'; '.join(reasons) or replay.stop_reason}"
        return
    for place in replayer.needless_calls(task):
        call = task.reference[place]
        yield f"call {place + 1} of the reference, {call.tool} {call.arguments}, could be dropped without loss"


def _split_findings(data: _Data) -> Iterator[Finding]:
    heldout = [task for task in data.tasks if task.split is Split.HELDOUT]
    others = [task for task in data.tasks if task.split is not Split.HELDOUT]
    for task in data.tasks:
        belongs = HELDOUT_FILE if task.split is Split.HELDOUT else TRAIN_FILE
        if data.places[task.id].file != data.directory / belongs:
            yield Finding(data.places[task.id], task.id, f"a task of the split '{task.split}' belongs in {belongs}")
    for name, marks in _SPLIT_MARKS.items():
        known: dict[object, str] = defaultdict(str)
        for task in others:
            known.update(dict.fromkeys(marks(task), task.id))
        for task in heldout:
            for mark in sorted(marks(task) & known.keys(), key=str)[:1]:
                yield Finding(data.places[task.id], task.id, f"shares {name} with '{known[mark]}': {mark}")


def _facts_of(task: Task) -> set[object]:
    return {
        (name, fact.kind.value, plain_text(fact.value or " ".join(fact.about)))
        for fact in task.facts
        for name in _subjects_of(fact)
    }


def _sources_of(task: Task) -> set[object]:
    return {tuple(sorted(tuple(sorted(slot)) for slot in task.required_sources))}


def _customer_and_family(task: Task) -> set[object]:
    return {(name, task.family.value) for fact in task.facts for name in _subjects_of(fact)}


def _subjects_of(fact: Fact) -> set[str]:
    return {plain_text(name) for name in (fact.subject, *fact.subject_aliases)}


_SPLIT_MARKS: Mapping[str, Callable[[Task], set[object]]] = {
    "a fact": _facts_of,
    "its required sources": _sources_of,
    "subject and family": _customer_and_family,
}


def _file_split(task: Task) -> str:
    """Validation tasks are measured with the training tasks, in whose file they stand."""
    return Split.HELDOUT.value if task.split is Split.HELDOUT else Split.TRAIN.value


def keyword_figures(split: str, tasks: Sequence[Task], index: SearchIndex) -> KeywordFigures:
    """How far keywords get in one of the two task files: `heldout`, or `train` with the validation tasks."""
    chosen = [task for task in tasks if _file_split(task) == split]
    single = [task for task in chosen if len(task.required_sources) == 1]
    found = [task.id for task in chosen if question_finds_all(task, index)]
    return KeywordFigures(
        split=split,
        tasks=len(chosen),
        found=tuple(found),
        single=len(single),
        single_found=tuple(task.id for task in single if task.id in found),
    )


def question_finds_all(task: Task, index: SearchIndex) -> bool:
    """Whether the question as one query fills every slot from its top max(3, slots) hits."""
    hits = set(index.rank(task.question, EVERYTHING, max(MIN_HITS, len(task.required_sources))))
    return all(hits & set(slot) for slot in task.required_sources)


def _keyword_findings(figures: KeywordFigures, data: _Data) -> Iterable[Finding]:
    measured = (
        ("tasks", figures.share, MAX_KEYWORD_SHARE, figures.found),
        ("single-source tasks", figures.single_share, MAX_KEYWORD_SHARE_SINGLE, figures.single_found),
    )
    for what, share, allowed, found in measured:
        if share > allowed:
            problem = f"the question alone finds all records in {share:.0%} of {what} (allowed: {allowed:.0%}): {list(found)}"
            yield Finding(data.places[found[0]], figures.split, problem)
