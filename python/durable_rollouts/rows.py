"""The columns of a row that this project writes; docs/training-data.md explains each.

A row also has its sample's own columns, so rows are typed as dictionaries: ``cast(RowColumns, row)`` types these.
A test compares the fields and types with the project's schema.
"""

from typing import Any, Dict, List, Literal, Optional, Union

from typing_extensions import NotRequired, TypedDict


class TextPart(TypedDict):
    """A text in a message with images."""

    type: Literal["text"]
    text: str


class Image(TypedDict):
    """Where an image is."""

    url: str
    detail: NotRequired[Literal["auto", "low", "high"]]


class ImagePart(TypedDict):
    """An image in a message."""

    type: Literal["image_url"]
    image_url: Image


class PlacedPicture(TypedDict):
    """Which ids of its message stand for a picture."""

    offset: int
    length: int
    url: str


class RowMessage(TypedDict):
    """A message of the log, with its ids."""

    role: str
    content: Union[str, List[Union[TextPart, ImagePart]]]
    token_ids: List[int]
    generation_logprobs: NotRequired[List[float]]
    prompt_logprobs: NotRequired[List[Optional[float]]]
    generation_top_logprobs: NotRequired[List[List[List[Any]]]]
    pictures: NotRequired[List[PlacedPicture]]
    sampled: NotRequired[Literal[True]]
    partial: NotRequired[Literal[True]]
    is_invalid_tool_call: NotRequired[bool]
    has_malformed_thinking: NotRequired[bool]
    routed_experts: NotRequired[List[Any]]


class Effort(TypedDict):
    """What the length of the answer is worth where the prompt asks for little effort."""

    low: bool
    length: int
    length_reward: NotRequired[float]
    reward: NotRequired[float]


class RewardShaping(TypedDict):
    """What was made of the agent's own ``reward``."""

    reward: float
    effort: NotRequired[Effort]
    penalties: NotRequired[Dict[str, bool]]


class Run(TypedDict):
    """Generated tokens from ``start`` up to ``end``."""

    start: int
    end: int


class IdRun(TypedDict):
    """Ids of the whole ``message_log`` from ``start`` up to ``end``."""

    start: int
    end: int


class VersionRun(Run):
    """The label of the weights that sampled them."""

    version: Optional[str]


class Segment(Run):
    """The request that sampled them."""

    turn: int
    replica: str
    request_id: str


class Timing(TypedDict):
    """Seconds."""

    queue_s: float
    generate_s: float
    step_s: float
    wall_s: float


class Failure(TypedDict):
    """Why a rollout is no row to train on."""

    type: str
    message: str
    turn: int


class RowColumns(TypedDict):
    """A line of ``rollouts.jsonl`` or ``failures.jsonl`` without the sample's own columns."""

    task_name: str
    idx: NotRequired[Any]
    loss_multiplier: NotRequired[float]
    stop_strings: NotRequired[Optional[List[str]]]
    schema_version: Literal[1]
    rollout_id: str
    batch_id: str
    row: int
    repeat: int
    replaces: NotRequired[int]
    message_log: List[RowMessage]
    extra_env_info: Dict[str, Any]
    prompt_tokens: int
    total_reward: float
    rewards: Dict[str, float]
    turn_rewards: List[float]
    finish_reasons: List[Literal["stop", "length"]]
    stop_reason: Literal["terminated", "truncated", "max_turns", "timeout", "stopped", "cancelled", "failed"]
    terminated: bool
    truncated: bool
    max_turns_reached: bool
    turn_count: int
    total_tokens: int
    assistant_tokens: int
    env_tokens: int
    train_mask: List[IdRun]
    policy_versions: List[VersionRun]
    version_source: Literal["engine", "record", "none"]
    segments: List[Segment]
    attempts: int
    restarted_turns: List[int]
    logprobs_mode: Optional[Literal["processed", "raw", "unknown"]]
    timing: Timing
    extracted_answer: NotRequired[str]
    agent_result: NotRequired[Any]
    untokenized: NotRequired[str]
    reward_shaping: NotRequired[RewardShaping]
    failure: NotRequired[Failure]
    sample_row: NotRequired[int]
    epoch: NotRequired[int]
    step: NotRequired[int]
    token_lag: NotRequired[Optional[int]]
    masked: NotRequired[List[Run]]
