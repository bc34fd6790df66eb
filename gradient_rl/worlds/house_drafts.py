"""Drafts about the company itself: its policies, its suppliers and its projects."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from random import Random

from gradient_rl.schema.task import FactKind, Family, Operation
from gradient_rl.worlds.amounts import amount_of, money, written, written_date
from gradient_rl.worlds.drafts import Draft, Filed, answered, asked, derived, fact_of, input_of
from gradient_rl.worlds.entities import Deal, PolicyHistory, Work
from gradient_rl.worlds.office import Office


def policy_drafts(history: PolicyHistory, filed: Filed, rng: Random) -> Iterator[Draft]:
    """Drafts about a policy: what holds now, and what held on a day."""
    if len(history.versions) < 2:
        return
    old, new = history.versions
    first, second = filed.id("version:0"), filed.id("version:1")
    subject = (history.policy.title, history.policy.code)
    neutral = (filed.id("memo"),) if filed.has("memo") else ()
    for rule in history.policy.rules:
        if old.values[rule.key] == new.values[rule.key] or (history.memo and history.memo.rule is rule):
            continue
        inputs = (input_of(first, old.values[rule.key], old.since), input_of(second, new.values[rule.key], new.since))
        day = old.since + timedelta(days=rng.randint(5, (new.since - old.since).days - 5))
        for family, value, rival, on, phrases in (
            (Family.IN_FORCE_ON_DATE, old.values[rule.key], new.values[rule.key], day, rule.asks_then),
            (Family.SUPERSEDED, new.values[rule.key], old.values[rule.key], None, rule.asks_now),
        ):
            answer = answered(rule.answer, rule.kind, value, rng)
            operation = Operation.IN_FORCE if on else Operation.LATEST
            fact = fact_of(
                subject,
                answer,
                rule.kind,
                value,
                [first, second],
                rivals=[rival],
                derivation=derived(operation, *inputs, on=on),
            )
            slots = {"date": written_date(on, rng)} if on else {}
            question = asked(phrases, rng, **slots)
            yield Draft(family, question, (fact,), answer, ((first,), (second,)), history.heldout, neutral, (), 2)


def deal_drafts(deal: Deal, filed: Filed, office: Office, rng: Random) -> Iterator[Draft]:
    """Drafts about a supplier: which of its rates the new list left alone."""
    if not filed.has("agreement", "letter"):
        return
    names = {label: f"{deal.supply.category} {label}" for label in deal.rates}
    kept = next(label for label in deal.rates if deal.rates[label] == deal.raised[label])
    agreement, letter = filed.id("agreement"), filed.id("letter")
    inputs = [input_of(agreement, name, covered=True) for label, name in names.items() if label != kept]
    answer = f"The new list of {deal.supplier} leaves {names[kept]} as it was."
    fact = fact_of(
        (deal.number, deal.supplier), answer, FactKind.NAME, names[kept], [agreement, letter],
        rivals=[name for label, name in names.items() if label != kept],
        derivation=derived(Operation.EXCLUDE, *inputs, input_of(letter, names[kept], covered=False)),
    )  # fmt: skip
    question = asked(office.frames.kept_asks, rng, supplier=deal.supplier, category=deal.supply.category)
    yield Draft(Family.EXCEPTIONS, question, (fact,), answer, ((agreement,), (letter,)), deal.heldout, (), (), 2)


def work_drafts(work: Work, filed: Filed, office: Office, currency: str, rng: Random) -> Iterator[Draft]:
    """Drafts about a project: what three pieces cost together."""
    for left_out in rng.sample(range(len(work.pieces)), 2):
        places = [place for place in range(len(work.pieces)) if place != left_out]
        paid = [work.pieces[place][2] for place in places]
        total = money(currency, sum((amount_of(value) for value in paid), Decimal(0)))
        names = [work.pieces[place][0] for place in places]
        items = f"{names[0]}, {names[1]} and {names[2]}"
        answer = f"Together they cost {written(total, FactKind.MONEY, rng)}."
        inputs = [input_of(filed.id(f"bill:{place}"), value) for place, value in zip(places, paid, strict=True)]
        sources = [given.record for given in inputs]
        rivals = [work.pieces[place][1] for place in places][:2]
        fact = fact_of(
            (work.name,), answer, FactKind.MONEY, total, sources, rivals=rivals, derivation=derived(Operation.SUM, *inputs)
        )
        question = asked(office.frames.project_asks, rng, items=items, project=work.name)
        required = tuple((source,) for source in sources)
        plan = filed.id("planning")
        yield Draft(Family.AGGREGATION, question, (fact,), answer, required, work.heldout, (plan,), (plan,), 3)
