# Made by tools/python-sources from docs/schemas: changes of this file are lost.
"""Typed requests: batches, streams, and orders to a policy.

They are dictionaries, spelled as in the JSON of the Temporal CLI. Durations are strings such as ``"30s"`` or ``"1h"``.
"""

from typing import Any, Dict, Iterable, List, Literal, Optional, Union

from typing_extensions import NotRequired, TypedDict


class SamplesFile(TypedDict):
    """A JSONL file of samples.

    path: path below the worker's ``inputs_dir``. If that is in a bucket, an address below it is allowed, too
    """

    path: str


class SamplesOf(TypedDict):
    """The samples of another batch.

    batch: a batch or a stream of the store: its samples, as it has them
    """

    batch: str


class StructuredOutputs(TypedDict, total=False):
    """A structure that replies follow, in vLLM's terms; exactly one of the first six fields.

    json: a JSON Schema, or its text
    regex: a regular expression
    choice: the possible replies
    grammar: a context-free grammar
    json_object: any JSON object
    structural_tag: structures between tags, as JSON text
    disable_any_whitespace: JSON without optional whitespace
    disable_additional_properties: objects have only the fields of their schema
    whitespace_pattern: a regular expression of the whitespace in JSON
    """

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
    """Sampling settings. All of them are sent, so no default of a server changes the distribution.

    service: a key of ``generation`` in temporal.yaml (default ``"default"``)
    model: name of the served model; None: that of the service
    temperature: divides the logits (default ``1``)
    top_p: samples from the likeliest tokens that have this probability together (default ``1``)
    top_k: samples from the k likeliest tokens; -1: from all (default ``-1``)
    min_p: drops tokens that are less likely than this share of the likeliest one (default ``0``)
    max_new_tokens: limit of one turn (default ``512``)
    stop_strings: texts that end every turn, beside those of the sample. The environment may replace the sample's
      (default ``[]``)
    stop_token_ids: ids that end every turn (default ``[]``)
    greedy: always takes the likeliest token. It is sent as temperature 0 (default ``False``)
    min_tokens: least number of tokens of a turn. Before it, ids that end a sequence and ``stop_token_ids`` are masked,
      and stop strings do not count (default ``0``)
    ignore_eos: continues past the end of sequence, up to ``max_new_tokens`` (default ``False``)
    repetition_penalty: penalty of tokens that the prompt or the reply has; 1: none (default ``1``)
    presence_penalty: penalty of tokens that the reply has; 0: none (default ``0``)
    frequency_penalty: penalty of tokens by their number in the reply; 0: none (default ``0``)
    bad_words: texts that replies never have. vLLM masks the last token of each (default ``[]``)
    structured_outputs: a structure that replies follow, in vLLM's terms; exactly one of the first six fields
    seed: seed of the batch. Each request gets its own, made of this, the row, the repeat, the turn and the tokens
      before it; None: none is sent
    include_logprobs: rows have the logprob of each sampled token (default ``True``)
    logprobs_mode: ``processed``: logprobs must be of the sampled distribution. ``raw``: those of the model at
      temperature 1 are accepted, too (default ``"processed"``)
    top_logprobs: number of likeliest ids, with their logprobs, that rows have for each sampled token (default ``0``)
    prompt_logprobs: rows have the model's logprob of each prompt token, from the weights that serve when the rollout
      begins (default ``False``)
    prompt_format: ``chat``: the chat template renders the prompt. ``raw``: the texts are encoded one after the other
      (default ``"chat"``)
    observation_format: how an observation is appended. ``chat``: rendered by the chat template. ``bare``: its text
      alone. None: ``chat`` under ``standard`` semantics with a chat prompt, else ``bare``
    chat_template_kwargs: arguments of the chat template
    """

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
    """How often a turn may fail in one way before its rollout fails.

    environment: how often one turn's environment may raise an exception before the rollout fails (default ``3``)
    agent: how often an agent's program may fail by itself before the rollout fails; lost workers and faults of engines
      do not count (default ``3``)
    """

    environment: int
    agent: int


class Complete(TypedDict):
    """Every rollout is played once.

    policy: every rollout is played once
    """

    policy: Literal["complete"]


class MinK(TypedDict):
    """A group ends with k valid rollouts.

    policy: a group ends with k valid rollouts
    k: valid rollouts that each group needs. A group that has them stops its other members
    deadline: time from the batch's start after which all remaining rollouts are stopped; None: never
    """

    policy: Literal["min_k"]
    k: int
    deadline: NotRequired[Optional[str]]


class Refill(TypedDict):
    """Failed rollouts are replaced.

    policy: failed rollouts are replaced
    max_replacements: how many failed rollouts of the batch are replaced
    """

    policy: Literal["refill"]
    max_replacements: int


class ForkRequest(TypedDict):
    """Where rollouts continue another one.

    rollout_id: the rollout whose beginning stays: ``<batch_id>/<row>-<repeat>``
    at: ``turn:3``: turns 0 to 2 stay, and turn 3 is sampled anew; of an agent, its calls. ``token:1250``: the first
      1,250 tokens that the policy sampled stay, and their turn goes on after them
    train_prefix: whether these tokens train, too. Their weights must be those that go on (default ``False``)
    """

    rollout_id: str
    at: str
    train_prefix: NotRequired[bool]


class BatchRequest(TypedDict):
    """A batch: these samples, ``num_repeats`` rollouts each. Only ``samples`` is required; docs/batches.md explains each field.

        request: BatchRequest = {"samples": {"path": "train.jsonl"}, "num_repeats": 8}

    samples: a JSONL file below the worker's ``inputs_dir``, a batch that has them, or a list of up to 256 kB; also any
      iterable of rows, of any length
    limit: only the first n samples; None: all
    num_repeats: rollouts per sample (default ``1``)
    schema_version: the version of this format (default ``1``)
    generation: sampling settings. All of them are sent, so no default of a server changes the distribution
    max_seq_len: limit of the whole message log, in tokens (default ``4096``)
    max_prompt_tokens: limit of the sample's prompt, in tokens. A longer one fails as ``PromptTooLong``. Not for agents;
      None: ``max_seq_len`` alone
    max_rollout_turns: limit of turns; 0: no generation at all (default ``100``)
    rollout_timeout: limit of time, from the rollout's start (default ``"1h"``)
    attempts: how often a turn may fail in one way before its rollout fails
    num_repeats_add_seed: repeat r gets seed r. Further epochs of a stream get others (default ``False``)
    semantics: ``standard``, or a loop of NeMo RL, number for number. ``nemo-rl`` is that of commit 7ea279ab (2026-08).
      ``nemo-rl-sync`` and ``nemo-rl-async`` are of 41791c7f (2025-06), and play on after a reply cut at
      ``max_new_tokens`` (default ``"standard"``)
    overlong: a valid but truncated rollout: ``keep`` its row, ``mask`` it with ``loss_multiplier`` 0, or ``drop`` it
      into failures.jsonl (default ``"keep"``)
    train_resampled: which of an agent's answers to one question train. ``winner``: those that it continued, or all if
      it continued none. ``none``: only those that it continued. ``all``: all (default ``"winner"``)
    train_separate: which of an agent's conversations beside its main one train (helpers, titles): ``all``, those
      ``with_tools``, or ``none`` (default ``"all"``)
    policy_version: the version that the service is expected to serve, checked at planning
    max_version_span: how many policy versions one turn may contain; None: any number
    metadata: copied to the result; at most 4 kB
    max_in_flight: how many rollouts run at once (default ``256``)
    priority: 1 to 5. Free slots go to lower numbers first (default ``3``)
    share: weight of this batch beside others of the same priority. One with 2 gets twice the slots of one with 1
      (default ``1``)
    completion: when a group is complete: with all its rollouts, with enough valid ones, or after failed ones are
      replaced
    min_valid: with fewer valid rollouts, the batch writes its files and fails, unless it was stopped; 0: never (default
      ``1``)
    rollout_workflows: each rollout has a workflow of its own. false, for agents only: their slice plays them, at a
      fraction of the cost (default ``True``)
    fork: each rollout continues this one of another batch, from a turn or a token on
    """

    samples: Union[SamplesFile, SamplesOf, Iterable[Any]]
    limit: NotRequired[Optional[int]]
    num_repeats: NotRequired[int]
    schema_version: NotRequired[Literal[1]]
    generation: NotRequired[GenerationSettings]
    max_seq_len: NotRequired[int]
    max_prompt_tokens: NotRequired[Optional[int]]
    max_rollout_turns: NotRequired[int]
    rollout_timeout: NotRequired[str]
    attempts: NotRequired[Attempts]
    num_repeats_add_seed: NotRequired[bool]
    semantics: NotRequired[Literal["standard", "nemo-rl-sync", "nemo-rl-async", "nemo-rl"]]
    overlong: NotRequired[Literal["keep", "mask", "drop"]]
    train_resampled: NotRequired[Literal["winner", "all", "none"]]
    train_separate: NotRequired[Literal["all", "with_tools", "none"]]
    policy_version: NotRequired[Optional[str]]
    max_version_span: NotRequired[Optional[int]]
    metadata: NotRequired[Dict[str, Any]]
    max_in_flight: NotRequired[int]
    priority: NotRequired[int]
    share: NotRequired[float]
    completion: NotRequired[Union[Complete, MinK, Refill]]
    min_valid: NotRequired[int]
    rollout_workflows: NotRequired[bool]
    fork: NotRequired[ForkRequest]


class RolloutSettings(TypedDict, total=False):
    """How one rollout is played: the keyword arguments of ``client.rollout`` and ``client.group``, and fields of a batch.

    schema_version: the version of this format (default ``1``)
    generation: sampling settings. All of them are sent, so no default of a server changes the distribution
    max_seq_len: limit of the whole message log, in tokens (default ``4096``)
    max_prompt_tokens: limit of the sample's prompt, in tokens. A longer one fails as ``PromptTooLong``. Not for agents;
      None: ``max_seq_len`` alone
    max_rollout_turns: limit of turns; 0: no generation at all (default ``100``)
    rollout_timeout: limit of time, from the rollout's start (default ``"1h"``)
    attempts: how often a turn may fail in one way before its rollout fails
    num_repeats_add_seed: repeat r gets seed r. Further epochs of a stream get others (default ``False``)
    semantics: ``standard``, or a loop of NeMo RL, number for number. ``nemo-rl`` is that of commit 7ea279ab (2026-08).
      ``nemo-rl-sync`` and ``nemo-rl-async`` are of 41791c7f (2025-06), and play on after a reply cut at
      ``max_new_tokens`` (default ``"standard"``)
    overlong: a valid but truncated rollout: ``keep`` its row, ``mask`` it with ``loss_multiplier`` 0, or ``drop`` it
      into failures.jsonl (default ``"keep"``)
    train_resampled: which of an agent's answers to one question train. ``winner``: those that it continued, or all if
      it continued none. ``none``: only those that it continued. ``all``: all (default ``"winner"``)
    train_separate: which of an agent's conversations beside its main one train (helpers, titles): ``all``, those
      ``with_tools``, or ``none`` (default ``"all"``)
    policy_version: the version that the service is expected to serve, checked at planning
    max_version_span: how many policy versions one turn may contain; None: any number
    metadata: copied to the result; at most 4 kB
    """

    schema_version: Literal[1]
    generation: GenerationSettings
    max_seq_len: int
    max_prompt_tokens: Optional[int]
    max_rollout_turns: int
    rollout_timeout: str
    attempts: Attempts
    num_repeats_add_seed: bool
    semantics: Literal["standard", "nemo-rl-sync", "nemo-rl-async", "nemo-rl"]
    overlong: Literal["keep", "mask", "drop"]
    train_resampled: Literal["winner", "all", "none"]
    train_separate: Literal["all", "with_tools", "none"]
    policy_version: Optional[str]
    max_version_span: Optional[int]
    metadata: Dict[str, Any]


class StreamRequest(TypedDict):
    """A batch without end, delivered step by step. ``samples`` and ``groups_per_step`` are required; docs/stream.md explains
    each field.

        request: StreamRequest = {"samples": {"path": "train.jsonl"}, "num_repeats": 8, "groups_per_step": 32}

    samples: a JSONL file below the worker's ``inputs_dir``, a batch that has them, or a list of up to 256 kB; also any
      iterable of rows, of any length
    limit: only the first n samples; None: all
    num_repeats: rollouts per sample (default ``1``)
    schema_version: the version of this format (default ``1``)
    generation: sampling settings. All of them are sent, so no default of a server changes the distribution
    max_seq_len: limit of the whole message log, in tokens (default ``4096``)
    max_prompt_tokens: limit of the sample's prompt, in tokens. A longer one fails as ``PromptTooLong``. Not for agents;
      None: ``max_seq_len`` alone
    max_rollout_turns: limit of turns; 0: no generation at all (default ``100``)
    rollout_timeout: limit of time, from the rollout's start (default ``"1h"``)
    attempts: how often a turn may fail in one way before its rollout fails
    num_repeats_add_seed: repeat r gets seed r. Further epochs of a stream get others (default ``False``)
    semantics: ``standard``, or a loop of NeMo RL, number for number. ``nemo-rl`` is that of commit 7ea279ab (2026-08).
      ``nemo-rl-sync`` and ``nemo-rl-async`` are of 41791c7f (2025-06), and play on after a reply cut at
      ``max_new_tokens`` (default ``"standard"``)
    overlong: a valid but truncated rollout: ``keep`` its row, ``mask`` it with ``loss_multiplier`` 0, or ``drop`` it
      into failures.jsonl (default ``"keep"``)
    train_resampled: which of an agent's answers to one question train. ``winner``: those that it continued, or all if
      it continued none. ``none``: only those that it continued. ``all``: all (default ``"winner"``)
    train_separate: which of an agent's conversations beside its main one train (helpers, titles): ``all``, those
      ``with_tools``, or ``none`` (default ``"all"``)
    policy_version: always None: the weights of a stream change
    max_version_span: how many policy versions one turn may contain; None: any number
    metadata: copied to the result; at most 4 kB
    max_in_flight: how many rollouts run at once (default ``256``)
    priority: 1 to 5. Free slots go to lower numbers first (default ``3``)
    share: weight of this batch beside others of the same priority. One with 2 gets twice the slots of one with 1
      (default ``1``)
    groups_per_step: how many groups a step has
    max_lag: how many versions older a token may be than the weights that train on it (default ``1``)
    versions_per_step: how many versions the trainer publishes for each step (default ``1``)
    when_stale: groups that would become too old: ``wait`` for them in time, ``drop`` and replace them, or ``mask``
      their old tokens (default ``"wait"``)
    filter: ``zero_variance`` replaces groups that teach nothing: all valid members have the same reward in float32, or
      no token of them trains
    max_replacements: how many failed members of one group are replaced by a new repeat; absent: ``num_repeats``
    epochs: how often all samples are played; None: without end
    shuffle: each epoch has its own order of the samples (default ``True``)
    seed: seed of the order (default ``0``)
    keep_steps: how many delivered steps are kept; None: all, until ``forget``
    """

    samples: Union[SamplesFile, SamplesOf, Iterable[Any]]
    limit: NotRequired[Optional[int]]
    num_repeats: NotRequired[int]
    schema_version: NotRequired[Literal[1]]
    generation: NotRequired[GenerationSettings]
    max_seq_len: NotRequired[int]
    max_prompt_tokens: NotRequired[Optional[int]]
    max_rollout_turns: NotRequired[int]
    rollout_timeout: NotRequired[str]
    attempts: NotRequired[Attempts]
    num_repeats_add_seed: NotRequired[bool]
    semantics: NotRequired[Literal["standard", "nemo-rl-sync", "nemo-rl-async", "nemo-rl"]]
    overlong: NotRequired[Literal["keep", "mask", "drop"]]
    train_resampled: NotRequired[Literal["winner", "all", "none"]]
    train_separate: NotRequired[Literal["all", "with_tools", "none"]]
    policy_version: NotRequired[Optional[str]]
    max_version_span: NotRequired[Optional[int]]
    metadata: NotRequired[Dict[str, Any]]
    max_in_flight: NotRequired[int]
    priority: NotRequired[int]
    share: NotRequired[float]
    groups_per_step: int
    max_lag: NotRequired[int]
    versions_per_step: NotRequired[int]
    when_stale: NotRequired[Literal["wait", "drop", "mask"]]
    filter: NotRequired[Optional[Literal["zero_variance"]]]
    max_replacements: NotRequired[int]
    epochs: NotRequired[Optional[int]]
    shuffle: NotRequired[bool]
    seed: NotRequired[int]
    keep_steps: NotRequired[Optional[int]]


class Checkpoint(TypedDict):
    """Weights in files.

    kind: files
    path: each engine reads it from its own file system
    """

    kind: Literal["checkpoint"]
    path: str


class Adapter(TypedDict):
    """An adapter (LoRA) for the weights that are there. It is loaded beside them, and nothing is paused.

    kind: an adapter for the weights that are there
    path: each engine reads it from its own file system
    """

    kind: Literal["lora"]
    path: str


class Probe(TypedDict):
    """The trainer's own logprobs of a prompt. A replica with other logprobs does not serve.

    prompt_ids: the ids of the prompt
    logprobs: one for each id except the first
    tolerance: largest difference of one logprob (default ``0.01``)
    """

    prompt_ids: List[int]
    logprobs: List[float]
    tolerance: NotRequired[float]


class Holder(TypedDict):
    """Trainer that brings the weights; None is refused while a trainer holds the service.

    name: name of the trainer, the same after a restart
    incarnation: id of its process, made anew at each start
    """

    name: str
    incarnation: str


class PublishRequest(TypedDict):
    """New weights for all replicas of a generation service; docs/weights.md explains each field.

    version: number above all earlier ones. The same again, with the same weights, completes what is missing
    weights: the new weights
    cache: the prefix cache: emptied (``reset``), or kept; then ``cache_salt`` separates versions (default ``"reset"``)
    probe: the trainer's own logprobs of a prompt. A replica with other logprobs does not serve
    pause_limit: longest time of a pause. Then running generations are cut off and the engine is resumed (default
      ``"10m"``)
    holder: trainer that brings the weights; None is refused while a trainer holds the service
    take_over: takes the service from another trainer that holds it (default ``False``)
    mode: running generations: ``keep`` freezes them, ``abort`` cuts them off, ``wait`` lets them end for
      ``drain_limit`` and then cuts them off (default ``"keep"``)
    drain_limit: longest wait of mode ``wait`` (default ``"1m"``)
    order: all replicas at once, or ``rolling``: at most ``max_unavailable`` at a time (default ``"all"``)
    max_unavailable: replicas at a time of order ``rolling`` (default ``1``)
    quorum: how many replicas must have it; None: all that are not away
    keep_adapters: of adapters: under how many of the last versions generations may run. Engines hold one more (default
      ``2``)
    """

    version: int
    weights: Union[Checkpoint, Adapter]
    cache: NotRequired[Literal["reset", "keep"]]
    probe: NotRequired[Optional[Probe]]
    pause_limit: NotRequired[str]
    holder: NotRequired[Optional[Holder]]
    take_over: NotRequired[bool]
    mode: NotRequired[Literal["keep", "abort", "wait"]]
    drain_limit: NotRequired[str]
    order: NotRequired[Literal["all", "rolling"]]
    max_unavailable: NotRequired[int]
    quorum: NotRequired[Optional[int]]
    keep_adapters: NotRequired[int]


class BeginRequest(TypedDict):
    """Engines for weights that a trainer sends itself; docs/transfers.md explains each field.

    version: number above all that an engine has served; None: the next one, which the answer names
    holder: trainer that sends the weights
    take_over: takes the service from another trainer that holds it (default ``False``)
    checkpoint: files with the same weights, which each engine can read. They repair an engine that lost its weights
    only: URLs of some engines; None: all of them
    base: the weights are a difference to this version: engines with another one are left out
    mode: running generations: ``keep`` freezes them, ``abort`` cuts them off (default ``"keep"``)
    cache: the prefix cache: emptied (``reset``), or kept; then ``cache_salt`` separates versions (default ``"reset"``)
    groups: how many collectives the engines form; None: one each
    quorum: how many groups must have it; None: all that are not away
    probe: ``agree``: the logprobs of fixed ids change, and are the same on all engines; or the trainer's own ones;
      None: none (default ``"agree"``)
    tolerance: largest difference of one logprob, for probe ``agree`` (default ``0.05``)
    same: the weights may be those that an engine already has (default ``False``)
    pause_limit: the longest pause, whatever ``alive`` says (default ``"10m"``)
    stall_limit: the longest silence, before a repair may begin (default ``"2m"``)
    code: who calls the engines' routes for weights: this package, or the trainer's own code (default ``"ours"``)
    own_label: the label that the trainer's code gives the engines; None: none
    """

    version: NotRequired[Optional[int]]
    holder: Holder
    take_over: NotRequired[bool]
    checkpoint: NotRequired[Optional[str]]
    only: NotRequired[Optional[List[str]]]
    base: NotRequired[Optional[int]]
    mode: NotRequired[Literal["keep", "abort"]]
    cache: NotRequired[Literal["reset", "keep"]]
    groups: NotRequired[Optional[int]]
    quorum: NotRequired[Optional[int]]
    probe: NotRequired[Union[Literal["agree"], Probe, None]]
    tolerance: NotRequired[float]
    same: NotRequired[bool]
    pause_limit: NotRequired[str]
    stall_limit: NotRequired[str]
    code: NotRequired[Literal["ours", "trainer"]]
    own_label: NotRequired[Optional[str]]


class SleepRequest(TypedDict):
    """Engines that are to sleep.

    level: 1: the weights wait in the memory of the host; 2: they are dropped, and loaded again from files, or sent
      (default ``1``)
    until: they are woken then, whatever has become of the holder (default ``"10m"``)
    holder: who needs their memory
    """

    level: NotRequired[Literal[1, 2]]
    until: NotRequired[str]
    holder: Holder


class WakeRequest(TypedDict, total=False):
    """Engines that sleep are to be woken.

    tags: ``["weights"]``: memory for weights alone, and they serve nothing yet; None: all
    """

    tags: Optional[List[Literal["weights", "kv_cache", "scheduling"]]]


class Released(TypedDict):
    """Who no longer brings weights.

    name: of the trainer
    incarnation: of its process; None: any
    """

    name: str
    incarnation: NotRequired[Optional[str]]


class ReleaseRequest(TypedDict):
    """A trainer lets others bring weights.

    holder: who holds the service
    """

    holder: Released


class JoinRequest(TypedDict):
    """An engine that joins a generation service.

    url: its base URL, which ends in ``/v1``
    control_url: where its weights are changed; None: its base URL without ``/v1``
    instance: names its process: another one behind the same URL has another
    """

    url: str
    control_url: NotRequired[Optional[str]]
    instance: NotRequired[Optional[str]]


class DrainRequest(TypedDict):
    """An engine that gets no new request, and leaves.

    url: its base URL, which ends in ``/v1``
    drain_limit: its streams are cut then, and go on elsewhere (default ``"1m"``)
    force: also if it is the last one (default ``False``)
    """

    url: str
    drain_limit: NotRequired[str]
    force: NotRequired[bool]


class LeaveRequest(TypedDict):
    """An engine that leaves at once.

    url: its base URL, which ends in ``/v1``
    force: likewise (default ``False``)
    """

    url: str
    force: NotRequired[bool]


BATCH_DEFAULTS: Dict[str, Any] = {
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
    "max_prompt_tokens": None,
    "max_rollout_turns": 100,
    "rollout_timeout": "1h",
    "attempts": {
        "environment": 3,
        "agent": 3,
    },
    "num_repeats_add_seed": False,
    "semantics": "standard",
    "overlong": "keep",
    "train_resampled": "winner",
    "train_separate": "all",
    "policy_version": None,
    "max_version_span": None,
    "metadata": {},
    "max_in_flight": 256,
    "priority": 3,
    "share": 1,
    "completion": {
        "policy": "complete",
    },
    "min_valid": 1,
    "rollout_workflows": True,
}
"""The defaults of ``BatchRequest``."""


ROLLOUT_DEFAULTS: Dict[str, Any] = {
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
    "max_prompt_tokens": None,
    "max_rollout_turns": 100,
    "rollout_timeout": "1h",
    "attempts": {
        "environment": 3,
        "agent": 3,
    },
    "num_repeats_add_seed": False,
    "semantics": "standard",
    "overlong": "keep",
    "train_resampled": "winner",
    "train_separate": "all",
    "policy_version": None,
    "max_version_span": None,
    "metadata": {},
}
"""The defaults of ``RolloutSettings``."""


STREAM_DEFAULTS: Dict[str, Any] = {
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
    "max_prompt_tokens": None,
    "max_rollout_turns": 100,
    "rollout_timeout": "1h",
    "attempts": {
        "environment": 3,
        "agent": 3,
    },
    "num_repeats_add_seed": False,
    "semantics": "standard",
    "overlong": "keep",
    "train_resampled": "winner",
    "train_separate": "all",
    "policy_version": None,
    "max_version_span": None,
    "metadata": {},
    "max_in_flight": 256,
    "priority": 3,
    "share": 1,
    "max_lag": 1,
    "versions_per_step": 1,
    "when_stale": "wait",
    "filter": None,
    "epochs": None,
    "shuffle": True,
    "seed": 0,
    "keep_steps": None,
}
"""The defaults of ``StreamRequest``."""


PUBLISH_DEFAULTS: Dict[str, Any] = {
    "cache": "reset",
    "probe": None,
    "pause_limit": "10m",
    "holder": None,
    "take_over": False,
    "mode": "keep",
    "drain_limit": "1m",
    "order": "all",
    "max_unavailable": 1,
    "quorum": None,
    "keep_adapters": 2,
}
"""The defaults of ``PublishRequest``."""


BEGIN_DEFAULTS: Dict[str, Any] = {
    "version": None,
    "take_over": False,
    "checkpoint": None,
    "only": None,
    "base": None,
    "mode": "keep",
    "cache": "reset",
    "groups": None,
    "quorum": None,
    "probe": "agree",
    "tolerance": 0.05,
    "same": False,
    "pause_limit": "10m",
    "stall_limit": "2m",
    "code": "ours",
    "own_label": None,
}
"""The defaults of ``BeginRequest``."""


SLEEP_DEFAULTS: Dict[str, Any] = {
    "level": 1,
    "until": "10m",
}
"""The defaults of ``SleepRequest``."""


WAKE_DEFAULTS: Dict[str, Any] = {
    "tags": None,
}
"""The defaults of ``WakeRequest``."""


JOIN_DEFAULTS: Dict[str, Any] = {
    "instance": None,
}
"""The defaults of ``JoinRequest``."""


DRAIN_DEFAULTS: Dict[str, Any] = {
    "drain_limit": "1m",
    "force": False,
}
"""The defaults of ``DrainRequest``."""


LEAVE_DEFAULTS: Dict[str, Any] = {
    "force": False,
}
"""The defaults of ``LeaveRequest``."""
