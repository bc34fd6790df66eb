"""Founding a company: its people, policies in versions, suppliers with price lists, projects."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from random import Random

from gradient_rl.schema.task import FactKind
from gradient_rl.worlds.amounts import drawn, first_of_next_month, working_day
from gradient_rl.worlds.difficulty import Difficulty
from gradient_rl.worlds.entities import AS_OF, FIRST_DAY, Company, Deal, Memo, Person, PolicyHistory, Version, Work
from gradient_rl.worlds.naming import Register, address, plain
from gradient_rl.worlds.office import Office
from gradient_rl.worlds.trade import DUTIES, Policy, Project, Supply, Trade

_HEADS = {"director": 1, "finance": 2, "legal": 1, "sales": 5, "service": 6, "stores": 2, "quality": 2, "desk": 3}
_APPROVES = {"director": 100_000, "finance": 1_000, "legal": 0, "sales": 0, "service": 0, "stores": 0, "quality": 0, "desk": 0}
_VOICES_OF = {
    "service": ("field", "terse", "old hand", "plain"),
    "legal": ("formal", "careful"),
    "director": ("plain", "old hand"),
}


_NEWCOMERS = ("desk", "stores")
"""Duties in which somebody may be new."""


def found_company(trade: Trade, office: Office, difficulty: Difficulty, size: int, register: Register, rng: Random) -> Company:
    """A company of a trade.

    Args:
        size: records of the workspace; a larger company has more people.
    """
    name = rng.choice(trade.companies)
    domain = f"{plain(name.short)}.example"
    staff = {duty: _people(duty, trade, office, domain, size, register, rng) for duty in DUTIES}
    prefix = "".join(word[0] for word in name.short.split() if word[0].isalpha()).upper()[:3]
    prefix = prefix if len(prefix) > 1 else plain(name.short)[:2].upper()
    return Company(
        trade=trade,
        name=name.name,
        short=name.short,
        town=name.town,
        domain=domain,
        prefix=prefix,
        staff=staff,
        policies=tuple(
            _history(policy, staff, trade, difficulty, place % 2 == 1, rng) for place, policy in enumerate(trade.policies)
        ),
        deals=tuple(
            _deal(supply, split, prefix, trade, office, register, rng) for supply in trade.supplies for split in (False, True)
        ),
        works=tuple(_work(project, place, staff, trade, rng) for place, project in enumerate(trade.projects)),
    )


def _people(
    duty: str, trade: Trade, office: Office, domain: str, size: int, register: Register, rng: Random
) -> tuple[Person, ...]:
    count = _HEADS[duty] + (size // 4000 if duty in ("sales", "service", "desk") else 0)
    titles = trade.staff[duty]
    limit = Decimal(_APPROVES[duty])
    return tuple(
        person(register.colleague(rng), titles[i % len(titles)], duty, domain, office, rng, limit) for i in range(count)
    )


def person(
    name: str, title: str, duty: str, domain: str, office: Office, rng: Random, approves_up_to: Decimal = Decimal(0)
) -> Person:
    """Somebody with an address and a voice that suits the duty."""
    keys = _VOICES_OF.get(duty)
    barred = {"newcomer"} if duty not in _NEWCOMERS else set[str]()
    if name.split()[0] not in office.names.abroad:
        barred.add("abroad")
    allowed = [i for i, voice in enumerate(office.voices) if voice.key not in barred]
    fitting = [i for i in allowed if keys is None or office.voices[i].key in keys] or allowed
    return Person(name, title, duty, address(name, domain), rng.choice(fitting), approves_up_to)


def _history(
    policy: Policy, staff: dict[str, tuple[Person, ...]], trade: Trade, difficulty: Difficulty, heldout: bool, rng: Random
) -> PolicyHistory:
    first = FIRST_DAY + timedelta(days=rng.randint(0, 60))
    since = [first, AS_OF - timedelta(days=rng.randint(60, 240))]
    values = {rule.key: drawn(rule.amounts, rule.kind, trade.currency, rng) for rule in policy.rules}
    later = dict(values)
    changed = [rule for rule in policy.rules if rng.random() < difficulty.superseded]
    for rule in changed[: max(1, len(changed) - 1)]:
        later[rule.key] = drawn(rule.amounts, rule.kind, trade.currency, rng, (values[rule.key],))
    number = rng.randint(2, 6)
    versions = [Version(str(number), _monday(since[0]), values)]
    if later != values:
        versions.append(Version(str(number + 1), _monday(since[1]), later))
    memo = _memo(policy, versions[-1], later != values, trade, rng)
    return PolicyHistory(policy, rng.choice(staff[policy.owner]), staff["director"][0], tuple(versions), memo, heldout)


def _memo(policy: Policy, last: Version, several: bool, trade: Trade, rng: Random) -> Memo | None:
    """A change of a number that stands in one version only, so that no two later records speak about it."""
    if not several or last.since > AS_OF - timedelta(days=50):
        return None
    rule = policy.rules[-1]
    written_on = working_day(rng, last.since + timedelta(days=10), AS_OF - timedelta(days=35))
    old = last.values[rule.key]
    new = drawn(rule.amounts, rule.kind, trade.currency, rng, (old,))
    return Memo(rule, old, new, written_on, first_of_next_month(written_on)) if new != old else None


def _monday(day: date) -> date:
    return day + timedelta(days=-day.weekday() % 7)


def _deal(supply: Supply, heldout: bool, prefix: str, trade: Trade, office: Office, register: Register, rng: Random) -> Deal:
    names = supply.names[len(supply.names) // 2 :] if heldout else supply.names[: len(supply.names) // 2]
    supplier = rng.choice(names)
    labels = rng.sample(supply.labels, min(len(supply.labels), 6))
    rates: dict[str, str] = {}
    for label in labels:
        rates[label] = drawn(supply.rates, FactKind.MONEY, trade.currency, rng, rates.values())
    signed_on = working_day(rng, FIRST_DAY, FIRST_DAY + timedelta(days=90))
    announced = working_day(rng, date(2024, 8, 1), date(2025, 4, 1)) if rng.random() < 0.6 else None
    raised: dict[str, str] = {}
    if announced:
        for label in labels:
            raised[label] = drawn(supply.rates, FactKind.MONEY, trade.currency, rng, [*rates.values(), *raised.values()])
        kept = rng.choice(labels)
        raised[kept] = rates[kept]
    contact = person(register.person(rng), "sales", "supplier", f"{plain(supplier)}.example", office, rng)
    since = first_of_next_month(announced) if announced else None
    number = register.number(rng, f"{prefix}S-", 3)
    return Deal(supply, supplier, number, contact, signed_on, rates, raised, since, announced, heldout)


def _work(project: Project, place: int, staff: dict[str, tuple[Person, ...]], trade: Trade, rng: Random) -> Work:
    planned_on = working_day(rng, FIRST_DAY + timedelta(days=20), date(2024, 9, 30))
    pieces: list[tuple[str, str, str]] = []
    taken: list[str] = []
    for item in rng.sample(project.items, 4):
        taken.append(drawn(project.cost, FactKind.MONEY, trade.currency, rng, taken))
        taken.append(drawn(project.cost, FactKind.MONEY, trade.currency, rng, taken))
        pieces.append((item, taken[-2], taken[-1]))
    paid_on = tuple(working_day(rng, planned_on + timedelta(days=30), date(2025, 4, 30)) for _ in pieces)
    leader = rng.choice([*staff["service"], *staff["stores"]])
    return Work(project, rng.choice(project.names), leader, planned_on, tuple(pieces), paid_on, place % 2 == 1)
