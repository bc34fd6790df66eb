"""What makes a generated world hard, as knobs with names."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]


class Difficulty(BaseModel):
    """Six knobs. Each makes a measure of difficulty rise with it; `gradient-data knobs` says which, and by how much."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    distractors: Annotated[int, Field(ge=0, le=10)] = 1
    """Mails per customer in which somebody mentions its terms in passing, and gets them wrong."""
    hops: Share = 0.25
    """Share of questions that name the customer by a description which only its customer record explains."""
    near_duplicates: Share = 0.6
    """Share of customers that have a namesake: the same name but for its last word."""
    superseded: Share = 0.85
    """Share of contracts and of policy rules whose values were changed later."""
    paraphrase: Share = 0.4
    """Share of questions that keep to other words than the records; the others also name the matter as the records do."""
    noise: Share = 0.5
    """Share of mails with small talk, quoting and slips of the keyboard beside their matter."""
