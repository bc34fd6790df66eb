"""A workspace small enough to hold in mind: one customer with a near-duplicate, an amended contract, a policy."""

from __future__ import annotations

from datetime import date, datetime

from gradient_rl.environment.workspace import Workspace, workspace_of
from gradient_rl.schema.task import Task
from gradient_rl.schema.workspace import Document, Email

ANNA = "Anna Berg <anna.berg@firm.example>"
TOM = "Tom Reilly <tom.reilly@firm.example>"

RECORDS = (
    Email(
        id="mail-1",
        thread_id="t1",
        sent_at=datetime.fromisoformat("2025-03-03T09:00:00+00:00"),
        sender=ANNA,
        to=(TOM,),
        subject="Birch Bakery amendment",
        body="Tom,\n\nBirch Bakery have signed. From 1 April 2025 notice under K-100 is 60 days instead of 30 days.\n\nAnna",
    ),
    Email(
        id="mail-2",
        thread_id="t2",
        sent_at=datetime.fromisoformat("2025-02-10T14:30:00+00:00"),
        sender=TOM,
        to=(ANNA,),
        subject="lunch",
        body="Anyone for the canteen at noon? Soup is leek.\n\nTom",
    ),
    Document(
        id="doc-1",
        kind="contract",
        title="Contract K-100, Birch Bakery",
        author="Anna Berg",
        date=date(2024, 5, 2),
        status="signed",
        body="Either party may end K-100 by giving 30 days notice.\n\nThe oven is let to Birch Bakery at EUR 1,250 a month.",
    ),
    Document(
        id="doc-2",
        kind="contract",
        title="Contract K-200, Birch Barbers",
        author="Anna Berg",
        date=date(2024, 6, 7),
        status="signed",
        body="Either party may end K-200 by giving 90 days notice.\n\nThe chairs are let to Birch Barbers at EUR 400 a month.",
    ),
    Document(
        id="doc-3",
        kind="customer_record",
        title="Birch Bakery",
        author="Tom Reilly",
        date=date(2024, 5, 2),
        status="active",
        body="Customer since May 2024. Contract K-100. Contact: Maria Holt.\n\n| Unit | Site |\n| OV-7 | Mill Lane |",
    ),
    Document(
        id="doc-4",
        kind="policy",
        title="Expenses policy",
        author="Tom Reilly",
        date=date(2024, 1, 15),
        status="final",
        body="Meals are paid up to EUR 35 a day. Receipts are due within two weeks.",
    ),
)

NOTICE_TASK = Task.model_validate(
    {
        "id": "tiny-1",
        "split": "train",
        "family": "superseded",
        "question": "How much notice does the bakery contract ask for now?",
        "as_of": "2025-06-30",
        "hops": 2,
        "facts": [
            {
                "id": "tiny-1-f1",
                "subject": "Birch Bakery",
                "subject_aliases": ["K-100"],
                "statement": "Since 1 April 2025 K-100 asks for 60 days notice.",
                "kind": "duration",
                "value": "60 days",
                "rivals": ["30 days", "90 days"],
                "sources": ["mail-1"],
            }
        ],
        "required_sources": [["mail-1"]],
        "neutral_sources": ["doc-1"],
        "reference": [
            {"tool": "search", "arguments": {"query": "bakery contract notice"}},
            {"tool": "open_email", "arguments": {"id": "mail-1"}},
            {"tool": "submit_answer", "arguments": {"answer": "60 days.", "sources": ["mail-1"]}},
        ],
    }
)

DEPOSIT_TASK = Task.model_validate(
    {
        "id": "tiny-2",
        "split": "heldout",
        "family": "not_on_record",
        "question": "What deposit did the barbers pay?",
        "as_of": "2025-06-30",
        "hops": 1,
        "facts": [
            {
                "id": "tiny-2-f1",
                "subject": "Birch Barbers",
                "statement": "The contract of Birch Barbers names no deposit.",
                "kind": "absent",
                "value": None,
                "asked_kind": "money",
                "about": ["deposit"],
                "sources": ["doc-2"],
                "derivation": {"operation": "absence", "inputs": [{"record": "doc-2"}]},
            }
        ],
        "required_sources": [["doc-2"]],
        "reference": [
            {"tool": "search_documents", "arguments": {"query": "barbers"}},
            {"tool": "open_document", "arguments": {"id": "doc-2"}},
            {"tool": "submit_answer", "arguments": {"answer": "No deposit is on record.", "sources": ["doc-2"]}},
        ],
    }
)


def tiny_workspace() -> Workspace:
    """A fresh workspace of the records above."""
    return workspace_of(RECORDS)
