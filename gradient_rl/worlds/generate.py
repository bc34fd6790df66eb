"""Generating a data folder: found the company, let its customers happen, write their records, draft and judge tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from pydantic import Field

from gradient_rl.environment.workspace import DOCUMENTS_FILE, EMAILS_FILE, HELDOUT_FILE, TRAIN_FILE, Workspace, workspace_of
from gradient_rl.errors import GradientError, UsageError
from gradient_rl.schema.jsonl import to_line
from gradient_rl.schema.task import Family, Split, Task
from gradient_rl.schema.workspace import FrozenRecord, Record
from gradient_rl.worlds.account import Founder
from gradient_rl.worlds.account_drafts import AccountDrafts
from gradient_rl.worlds.company import found_company
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.drafts import Draft, Filed
from gradient_rl.worlds.entities import Account
from gradient_rl.worlds.house import House
from gradient_rl.worlds.house_drafts import deal_drafts, policy_drafts, work_drafts
from gradient_rl.worlds.invariants import faults_in_account, faults_in_company, faults_in_scenes
from gradient_rl.worlds.judging import MAX_KEYWORD_SHARE, Judge
from gradient_rl.worlds.letters import Letters
from gradient_rl.worlds.naming import Register
from gradient_rl.worlds.office import Office, office_of
from gradient_rl.worlds.papers import Papers
from gradient_rl.worlds.shelf import Shelf
from gradient_rl.worlds.trade import Trade
from gradient_rl.worlds.writing import Numbering, Scene, Writer

GENERATOR_VERSION = 1
"""Counts changes of the generator: the same seed gives the same bytes only under the same version."""
Progress = Callable[[str, int, int], None]
"""Told of what is under way, how much of it is done, and of how much."""
WORLD_FILE = "world.json"
PARAPHRASES_FILE = "paraphrases.jsonl"
"""What a model has answered that was asked to word texts anew."""
MIN_RECORDS = 200
MAX_JUDGED = 4000
"""Records among which second statements of a fact are looked for; of a larger workspace a sample. Searches see all records."""


class Recipe(FrozenRecord):
    """Everything that a generated folder follows from."""

    trade: str
    records: int = Field(ge=MIN_RECORDS)
    tasks: int = Field(ge=0)
    """Training and validation tasks."""
    heldout: int = Field(ge=0)
    seed: int = Field(ge=0)
    difficulty: Difficulty = Difficulty()
    families: tuple[Family, ...] = Field(default=tuple(Family), min_length=1)
    """Of the tasks; the records are the same whichever are asked for."""


class WorldReport(FrozenRecord):
    """What was generated: the content of `world.json`."""

    schema_version: int = 1
    generator_version: int = GENERATOR_VERSION
    recipe: Recipe
    company: str
    customers: int
    records: dict[str, int]
    tasks: dict[str, int]
    """Tasks by split."""
    families: dict[str, int]
    drafts: int
    """Drafts that were judged."""
    dropped: dict[str, int]
    repaired: dict[str, int]
    judged_records: int
    """Records among which second statements of a fact were looked for; fewer than there are if a sample was taken."""


@dataclass
class _Files:
    """The records that are written, with those that are kept at hand for judging."""

    shelf: Shelf
    counts: Counter[str] = field(default_factory=Counter[str])
    kept: list[Record] = field(default_factory=list[Record])

    @property
    def written(self) -> int:
        return len(self.shelf)

    def write(self, scenes: Sequence[Scene], keep: bool) -> None:
        for scene in scenes:
            self.shelf.add(scene.record)
            self.counts[scene.record.kind.value] += 1
        if keep:
            self.kept += [scene.record for scene in scenes]

    def judge(self) -> Judge:
        """A judge who searches all records, and looks for second statements among those at hand."""
        near = workspace_of(self.kept)
        everything = len(self.kept) == len(self.shelf)
        return Judge(near if everything else Workspace(self.shelf, digest=""), near)


def generate(recipe: Recipe, trade: Trade, folder: Path, progress: Progress | None = None) -> WorldReport:
    """Write `emails.jsonl`, `documents.jsonl`, the task files and `world.json` into a folder.

    Args:
        progress: called as the work goes on.

    Raises:
        UsageError: so few records do not hold so many tasks.
    """
    (folder / "tasks").mkdir(parents=True, exist_ok=True)
    shelf = Shelf(folder / EMAILS_FILE, folder / DOCUMENTS_FILE)
    try:
        build = _Build(recipe, trade, office_of(trade), _Files(shelf), progress or untold)
        build.write_records()
        tasks = build.judged_tasks()
    finally:
        shelf.close()
    _write_tasks(folder, tasks)
    report = build.report(tasks)
    (folder / WORLD_FILE).write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return report


class _Build:
    """One run of the generator."""

    def __init__(self, recipe: Recipe, trade: Trade, office: Office, files: _Files, told: Progress) -> None:
        self.recipe, self.trade, self.office, self.files, self.told = recipe, trade, office, files, told
        self.register = Register(office.names)
        rng = self._rng("company")
        self.company = found_company(trade, office, recipe.difficulty, recipe.records, self.register, rng)
        numbering = Numbering(recipe.records, recipe.seed)
        self.writer = Writer(self.company, office, recipe.difficulty, numbering)
        self.drafts: list[Draft] = []
        self.customers = 0
        self.judge: Judge | None = None

    def _rng(self, *path: object) -> Random:
        return Random("/".join(map(str, (self.trade.key, self.recipe.seed, *path))))

    def write_records(self) -> None:
        """Write the company's records, then customers until the workspace is nearly full, then small talk to the brim."""
        _refuse(faults_in_company(self.company))
        self._write_house()
        total = self.recipe.records
        share = self.recipe.heldout / max(1, self.recipe.heldout + self.recipe.tasks)
        founder = Founder(self.company, self.office, self.recipe.difficulty, self.register, share)
        accounts = founder.accounts(self._rng("customers"))
        brim = total - max(8, total // 12)
        every = max(1, total // MAX_JUDGED)
        while self.files.written < brim:
            pair = _namesakes(accounts)
            written = [self._scenes(account) for account in pair]
            if self.files.written + sum(map(len, written)) > total:
                break
            self._write_accounts(pair, written, keep=self.customers // 2 % every == 0)
            self.told("records", self.files.written, total)
        house = House(self.writer, self._rng("nothing"))
        while self.files.written < total:
            self.files.write([house.nothing()], keep=len(self.files.kept) < MAX_JUDGED)

    def _write_house(self) -> None:
        house = House(self.writer, self._rng("house"))
        for history in self.company.policies:
            filed = self._filed(list(house.policy(history)))
            self.drafts += policy_drafts(history, filed, self._rng("policy", history.policy.code))
        self.deals = {deal.number: self._filed(list(house.deal(deal))) for deal in self.company.deals}
        for deal in self.company.deals:
            self.drafts += deal_drafts(deal, self.deals[deal.number], self.office, self._rng("deal", deal.number))
        for work in self.company.works:
            filed = self._filed(list(house.work(work)))
            self.drafts += work_drafts(work, filed, self.office, self.trade.currency, self._rng("work", work.name))

    def _filed(self, scenes: list[Scene]) -> Filed:
        _refuse(faults_in_scenes(scenes))
        self.files.write(scenes, keep=True)
        return Filed({scene.role: scene.record for scene in scenes})

    def _scenes(self, account: Account) -> list[Scene]:
        """The records that a customer's story leaves."""
        rng = self._rng("account", account.number)
        scenes = [*Papers(self.writer, account, rng).all(), *Letters(self.writer, account, rng).all()]
        _refuse([*faults_in_account(account), *faults_in_scenes(scenes)])
        return scenes

    def _write_accounts(self, pair: Sequence[Account], written: Sequence[list[Scene]], keep: bool) -> None:
        filed: list[Filed] = []
        for account, scenes in zip(pair, written, strict=True):
            self.files.write(scenes, keep)
            filed.append(self._with_deal(account, {scene.role: scene.record for scene in scenes}))
            self.customers += 1
        for place, account in enumerate(pair if keep else ()):
            namesake = (pair[1 - place], filed[1 - place]) if len(pair) > 1 else None
            rng = self._rng("questions", account.number)
            self.drafts += AccountDrafts(
                self.company, self.office, account, filed[place], namesake, self.recipe.difficulty, rng
            ).all()

    def _with_deal(self, account: Account, records: dict[str, Record]) -> Filed:
        if account.deal:
            deal = self.deals[account.deal.number]
            if deal.has("letter"):
                records |= {"deal": deal.records["letter"], "old deal": deal.records["agreement"]}
            else:
                records |= {"deal": deal.records["agreement"]}
        return Filed(records)

    def judged_tasks(self) -> list[Task]:
        """Tasks of all splits, as many of each family as there can be."""
        if not self.recipe.tasks + self.recipe.heldout:
            return []
        self.judge = self.files.judge()
        drafts = self._rng("order").sample(self.drafts, len(self.drafts))
        training = self._chosen([d for d in drafts if not d.heldout], self.recipe.tasks, "train")
        heldout = self._chosen([d for d in drafts if d.heldout], self.recipe.heldout, "heldout")
        return [*_with_validation(training), *heldout]

    def _chosen(self, drafts: Sequence[Draft], count: int, name: str) -> list[Task]:
        """As many tasks, the families in turn, until each has its share or no draft is left."""
        waiting: dict[Family, list[Draft]] = defaultdict(list)
        for draft in drafts:
            if draft.family in self.recipe.families:
                waiting[draft.family].append(draft)
        tasks: list[Task] = []
        easy: Counter[Family] = Counter()
        while len(tasks) < count and any(waiting.values()):
            for family in self.recipe.families:
                if len(tasks) < count and (
                    task := self._next(waiting[family], family, easy, f"{name}-{len(tasks) + 1:03d}", name)
                ):
                    tasks.append(task)
            self.told(f"{name} tasks", len(tasks), count)
        if len(tasks) < count:
            raise UsageError(
                f"{self.recipe.records} records hold {len(tasks)} of the {count} {name} tasks that were asked for; "
                f"raise --records or ask for fewer"
            )
        return tasks

    def _next(self, waiting: list[Draft], family: Family, easy: Counter[Family], task_id: str, name: str) -> Task | None:
        assert self.judge is not None
        split = Split.HELDOUT if name == "heldout" else Split.TRAIN
        while waiting:
            done = max(1, int(task_id.rpartition("-")[2]) / len(self.recipe.families))
            task = self.judge.task(waiting.pop(), task_id, split, easy[family] + 1 <= done * MAX_KEYWORD_SHARE)
            if task:
                easy[family] += self.judge.finds_all(task)
                return task
        return None

    def report(self, tasks: Sequence[Task]) -> WorldReport:
        """What came of it."""
        judge = self.judge
        return WorldReport(
            recipe=self.recipe,
            company=self.company.name,
            customers=self.customers,
            records=dict(sorted(self.files.counts.items())),
            tasks={split.value: sum(task.split is split for task in tasks) for split in Split},
            families={family.value: sum(task.family is family for task in tasks) for family in Family},
            drafts=len(tasks) + (judge.dropped.total() if judge else 0),
            dropped=dict(judge.dropped.most_common()) if judge else {},
            repaired=dict(judge.repaired.most_common()) if judge else {},
            judged_records=len(self.files.kept),
        )


def untold(what: str, done: int, of: int) -> None:
    """Nobody asked how far it is."""


def _namesakes(accounts: Iterator[Account]) -> list[Account]:
    """The next customer, with its namesake if it has one."""
    first = next(accounts)
    return [first, next(accounts)] if first.twin else [first]


def _with_validation(tasks: Sequence[Task]) -> list[Task]:
    """One task in ten becomes a validation task, of another family each time; they stand at the end."""
    chosen = {task.id for place, task in enumerate(tasks) if place % 10 == place // 10 % 10 and len(tasks) > 1}
    training = [task for task in tasks if task.id not in chosen]
    return [*training, *(t.model_copy(update={"split": Split.VALIDATION}) for t in tasks if t.id in chosen)]


def _write_tasks(folder: Path, tasks: Sequence[Task]) -> None:
    for name, chosen in (
        (TRAIN_FILE, [task for task in tasks if task.split is not Split.HELDOUT]),
        (HELDOUT_FILE, [task for task in tasks if task.split is Split.HELDOUT]),
    ):
        if chosen:
            (folder / name).write_text("".join(to_line(task) for task in chosen), encoding="utf-8", newline="\n")


def _refuse(faults: Sequence[str]) -> None:
    if faults:
        raise GradientError(f"the generator made an impossible world: {faults[0]}")
