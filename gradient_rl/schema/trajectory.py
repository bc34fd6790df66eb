"""A trajectory: the record of one finished episode, and the one thing that is written, scored, trained on and compared."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, JsonValue

from gradient_rl.schema.workspace import FrozenRecord, RecordId

SCHEMA_VERSION = 1
"""Raised when a field changes its meaning. Files of another version are refused by name."""


class ToolCall(FrozenRecord):
    """A call as the policy made it; the arguments may be anything until the episode has checked them."""

    tool: str
    arguments: dict[str, JsonValue]
    id: str = ""
    """The call's id in the conversation; empty in a task's reference."""


class Observation(FrozenRecord):
    """What a tool answered."""

    text: str
    """Compact JSON, or for an error one sentence."""
    ids: tuple[RecordId, ...] = ()
    """Records that this answer showed: the hits of a search, or the record that was opened."""
    error: str | None = None
    """Why the call did nothing; None when it worked."""


class Step(FrozenRecord):
    """One tool call and its observation."""

    tool: str
    arguments: dict[str, JsonValue]
    observation: str
    ids: tuple[RecordId, ...] = ()
    error: str | None = None
    seconds: float = 0.0


class StopReason(StrEnum):
    """Why an episode ended. Only the last two are infrastructure failures, which have no reward."""

    SUBMITTED = "submitted"
    CALL_LIMIT = "call_limit"
    MALFORMED = "malformed"
    TOKEN_LIMIT = "token_limit"
    CONTENT_FILTER = "content_filter"
    CONTEXT_OVERFLOW = "context_overflow"
    TRANSPORT_ERROR = "transport_error"
    ENVIRONMENT_ERROR = "environment_error"

    @property
    def is_infrastructure(self) -> bool:
        """Whether the episode failed through no doing of the policy."""
        return self in (StopReason.TRANSPORT_ERROR, StopReason.ENVIRONMENT_ERROR)


class Usage(FrozenRecord):
    """What a reply or an episode cost."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        """The sum, field by field."""
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens


class RewardPart(FrozenRecord):
    """One part of a reward. Value and weight are kept apart, so that a total can always be recomputed."""

    name: str
    value: float = Field(ge=0.0, le=1.0)
    weight: float = Field(ge=0.0, le=1.0)
    reasons: tuple[str, ...] = ()
    """Why the value is what it is, a sentence for each point gained or lost."""


class Reward(FrozenRecord):
    """A scored episode."""

    parts: tuple[RewardPart, ...]
    total: float = Field(ge=0.0, le=1.0)
    """The weighted sum of the parts; 0 for a malformed trajectory."""

    def value(self, part: str) -> float:
        """The value of a part by its name.

        Raises:
            KeyError: there is no such part.
        """
        for candidate in self.parts:
            if candidate.name == part:
                return candidate.value
        raise KeyError(part)


class Digests(FrozenRecord):
    """SHA-256 of what an episode depended on, in hex."""

    config: str = ""
    workspace: str = ""
    tasks: str = ""


class Trajectory(FrozenRecord):
    """The record of one episode."""

    schema_version: Literal[1] = SCHEMA_VERSION
    run_id: str = ""
    step: int = 0
    """Training step in which it was rolled out; 0 outside training."""
    split: str
    task_id: RecordId
    family: str
    sample: int = 0
    """Place within its group: 0 to group size - 1."""
    attempt: int = 0
    policy: str
    model: str | None = None
    checkpoint: str | None = None
    seed: int
    """The child seed that this episode's random generator started from."""
    digests: Digests
    question: str
    messages: tuple[dict[str, Any], ...]
    """The conversation in OpenAI's chat form."""
    tools: tuple[dict[str, Any], ...]
    """The tool schemas that the policy was shown."""
    choices: tuple[dict[str, Any], ...] = ()
    """The replies as the server gave them, with token ids and log-probabilities where it gives them: one for each
    assistant message, an empty one where the server gave none. No entry at all for a policy without a server."""
    steps: tuple[Step, ...]
    answer: str | None = None
    sources: tuple[str, ...] = ()
    """Cited ids as submitted, whether they exist or not."""
    stop_reason: StopReason
    max_calls: int = Field(ge=1)
    """The call limit under which it ran; efficiency depends on it."""
    error: str | None = None
    """What failed, for an infrastructure failure."""
    reward: Reward | None = None
    """None for an infrastructure failure, and only then."""
    behaviours: tuple[str, ...] = ()
    usage: Usage = Usage()
    started_at: str = ""
    """ISO 8601, UTC."""
    seconds: float = 0.0
    versions: dict[str, str] = Field(default_factory=dict)

    @property
    def calls(self) -> int:
        """Tool calls that were made, the submission among them."""
        return len(self.steps)

    @property
    def opened(self) -> frozenset[str]:
        """Ids of the records that were opened."""
        return opened_ids(self.steps)


class Group(FrozenRecord):
    """The trajectories of one task under one policy; advantages are computed within it."""

    task_id: RecordId
    trajectories: tuple[Trajectory, ...]

    @property
    def rewards(self) -> tuple[float | None, ...]:
        """Total rewards, one a sample; None for an infrastructure failure."""
        return tuple(t.reward.total if t.reward else None for t in self.trajectories)


def opened_ids(steps: tuple[Step, ...]) -> frozenset[str]:
    """Ids of the records that these steps opened."""
    return frozenset(i for step in steps if step.tool in OPENING_TOOLS and step.error is None for i in step.ids)


OPENING_TOOLS = frozenset({"open_email", "open_document"})
SEARCH_TOOLS = frozenset({"search", "search_email", "search_documents"})
SUBMIT_TOOL = "submit_answer"
