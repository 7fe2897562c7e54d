"""Typed requests: batches, streams, and orders to a policy.

They are dictionaries, spelled as in the JSON of the Temporal CLI. A test compares their fields, types and defaults with
the project's schemas. Durations are strings such as ``"30s"`` or ``"1h"``.
"""

from typing import Any, Dict, Iterable, List, Literal, Mapping, Optional, Union

from typing_extensions import NotRequired, Required, TypedDict

Semantics = Literal["standard", "nemo-rl-sync", "nemo-rl-async"]


class SamplesFile(TypedDict):
    """A JSONL file below the worker's ``inputs_dir``."""

    path: str


class StructuredOutputs(TypedDict, total=False):
    """A structure that replies follow, in vLLM's terms; exactly one of the first six."""

    json: Union[str, Dict[str, Any]]
    regex: str
    choice: List[str]
    grammar: str
    json_object: Literal[True]
    structural_tag: str
    disable_any_whitespace: bool
    disable_additional_properties: bool
    whitespace_pattern: str


class GenerationSettings(TypedDict, total=False):
    """How replies are sampled. All of it is sent explicitly, so that no server default changes a distribution."""

    service: str
    model: Optional[str]
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    max_new_tokens: int
    stop_strings: List[str]
    stop_token_ids: List[int]
    greedy: bool
    min_tokens: int
    ignore_eos: bool
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    bad_words: List[str]
    structured_outputs: Optional[StructuredOutputs]
    seed: Optional[int]
    include_logprobs: bool
    logprobs_mode: Literal["processed", "raw"]
    top_logprobs: int
    prompt_logprobs: bool
    prompt_format: Literal["chat", "raw"]
    observation_format: Optional[Literal["chat", "bare"]]
    chat_template_kwargs: Dict[str, Any]


class Attempts(TypedDict, total=False):
    """How often a turn may fail in one way before its rollout fails."""

    environment: int


class Complete(TypedDict):
    """All rollouts of each group."""

    policy: Literal["complete"]


class MinK(TypedDict):
    """A group with ``k`` valid rollouts stops its other members; after ``deadline`` all stop."""

    policy: Literal["min_k"]
    k: int
    deadline: NotRequired[Optional[str]]


class Refill(TypedDict):
    """Failed rollouts are replaced by new repeats of their samples, up to this many in the whole batch."""

    policy: Literal["refill"]
    max_replacements: int


Completion = Union[Complete, MinK, Refill]


class _Requested(TypedDict, total=False):
    samples: Required[Union[SamplesFile, Iterable[Any]]]
    limit: Optional[int]
    num_repeats: int
    schema_version: Literal[1]
    generation: GenerationSettings
    max_seq_len: int
    max_rollout_turns: int
    rollout_timeout: str
    attempts: Attempts
    num_repeats_add_seed: bool
    semantics: Semantics
    overlong: Literal["keep", "mask", "drop"]
    policy_version: Optional[str]
    max_version_span: Optional[int]
    metadata: Dict[str, Any]
    max_in_flight: int
    priority: int
    share: float


class BatchRequest(_Requested, total=False):
    """A batch: these samples, ``num_repeats`` rollouts each."""

    completion: Completion
    min_valid: int
    rollout_workflows: bool


class StreamRequest(_Requested, total=False):
    """A batch without end, delivered step by step."""

    groups_per_step: Required[int]
    max_lag: int
    versions_per_step: int
    when_stale: Literal["wait", "drop", "mask"]
    filter: Optional[Literal["zero_variance"]]
    max_replacements: int
    epochs: Optional[int]
    shuffle: bool
    seed: int
    keep_steps: Optional[int]


class Limits(TypedDict):
    """The limits that are in force for rollouts of a batch or a stream."""

    max_rollout_turns: int
    max_new_tokens: int
    max_seq_len: int
    rollout_timeout: str


class Checkpoint(TypedDict):
    """Weights that each engine reads from its own file system."""

    kind: Literal["checkpoint"]
    path: str


class Probe(TypedDict):
    """The trainer's own logprobs of each of ``prompt_ids`` except the first."""

    prompt_ids: List[int]
    logprobs: List[float]
    tolerance: NotRequired[float]


class PublishRequest(TypedDict, total=False):
    """New weights for all replicas of a generation service."""

    version: Required[int]
    weights: Required[Checkpoint]
    cache: Literal["reset", "keep"]
    probe: Optional[Probe]
    pause_limit: str
    mode: Literal["keep", "abort", "wait"]
    drain_limit: str
    order: Literal["all", "rolling"]
    max_unavailable: int
    quorum: Optional[int]


_DEFAULTS: Dict[str, Any] = {
    "limit": None,
    "num_repeats": 1,
    "schema_version": 1,
    "generation": {
        "service": "default",
        "model": None,
        "temperature": 1,
        "top_p": 1,
        "top_k": -1,
        "min_p": 0,
        "max_new_tokens": 512,
        "stop_strings": [],
        "stop_token_ids": [],
        "greedy": False,
        "min_tokens": 0,
        "ignore_eos": False,
        "repetition_penalty": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "bad_words": [],
        "structured_outputs": None,
        "seed": None,
        "include_logprobs": True,
        "logprobs_mode": "processed",
        "top_logprobs": 0,
        "prompt_logprobs": False,
        "prompt_format": "chat",
        "observation_format": None,
        "chat_template_kwargs": {},
    },
    "max_seq_len": 4096,
    "max_rollout_turns": 100,
    "rollout_timeout": "1h",
    "attempts": {"environment": 3},
    "num_repeats_add_seed": False,
    "semantics": "standard",
    "overlong": "keep",
    "policy_version": None,
    "max_version_span": None,
    "metadata": {},
    "max_in_flight": 256,
    "priority": 3,
    "share": 1,
}

BATCH_DEFAULTS: Dict[str, Any] = {
    **_DEFAULTS,
    "completion": {"policy": "complete"},
    "min_valid": 0,
    "rollout_workflows": True,
}
"""The defaults of a batch request."""

STREAM_DEFAULTS: Dict[str, Any] = {
    **_DEFAULTS,
    "max_lag": 1,
    "versions_per_step": 1,
    "when_stale": "wait",
    "filter": None,
    "epochs": None,
    "shuffle": True,
    "seed": 0,
    "keep_steps": None,
}
"""The defaults of a stream request; ``max_replacements`` is ``num_repeats`` then."""

PUBLISH_DEFAULTS: Dict[str, Any] = {
    "cache": "reset",
    "probe": None,
    "pause_limit": "10m",
    "mode": "keep",
    "drain_limit": "1m",
    "order": "all",
    "max_unavailable": 1,
    "quorum": None,
}
"""The defaults of a publish order."""


def with_defaults(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Dict[str, Any]:
    """The request with its defaults filled in; a field without a default stays as it is."""
    filled: Dict[str, Any] = {**defaults, **given}
    for name in ("generation", "attempts"):
        if name in defaults and isinstance(given.get(name), Mapping):
            filled[name] = {**defaults[name], **given[name]}
    if defaults is STREAM_DEFAULTS:
        filled.setdefault("max_replacements", filled["num_repeats"])
    completion = filled.get("completion")
    if isinstance(completion, Mapping) and completion.get("policy") == "min_k":
        filled["completion"] = {"deadline": None, **completion}
    return filled


def first_difference(
    before: Mapping[str, Any], now: Mapping[str, Any], where: str = ""
) -> Optional[str]:
    """The first field in which two requests differ, with both values; ``None``: they are equal."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            inner = first_difference(old, new, f"{where}{name}.")
            if inner is not None:
                return inner
            continue
        return f"{where}{name}: {_short(old)} there, {_short(new)} here"
    return None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
