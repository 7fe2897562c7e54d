# Made by tools/python-sources from docs/schemas: changes of this file are lost.
"""The columns of a row that this project writes; docs/columns.md explains each.

A row also has its sample's own columns, so rows are typed as dictionaries: ``cast(RowColumns, row)`` types these.
"""

from typing import Any, Dict, List, Literal, Optional, Union

from typing_extensions import NotRequired, TypedDict


class TextPart(TypedDict):
    """A text in a message with images.

    type: a text
    text: the text
    """

    type: Literal["text"]
    text: str


class Image(TypedDict):
    """The image.

    url: ``https:``, ``file:`` (where the engine allows it) or ``data:``
    detail: the resolution at which the engine looks at it, if its model distinguishes them
    """

    url: str
    detail: NotRequired[Literal["auto", "low", "high"]]


class ImagePart(TypedDict):
    """An image in a message.

    type: an image
    image_url: the image
    """

    type: Literal["image_url"]
    image_url: Image


class PlacedPicture(TypedDict):
    """Which ids of its message stand for a picture.

    offset: index in the message of the picture's first id
    length: how many ids the picture has
    url: URL of the picture, or ``sha256:`` and the hash of its ``data:`` URL
    """

    offset: int
    length: int
    url: str


class ToolCall(TypedDict):
    """A tool that the policy calls.

    id: id of the call, as the agent got it
    name: the tool's name
    arguments: arguments as the policy wrote them, as JSON
    """

    id: str
    name: str
    arguments: str


class RowMessage(TypedDict):
    """A message of the log, with its ids. Logprobs are in nats.

    role: ``system``, ``user``, ``assistant``, or another role of the sample or the environment
    content: the text, or the parts of a message with images. ``""`` for an agent of NeMo Gym, whose text is in
      ``agent_result``
    token_ids: ids of the message, as the engine got or sampled them
    generation_logprobs: logprob of each id of a sampled message. Observations have none. Prompt messages may have some
      from the sample: do not train on them
    prompt_logprobs: with ``prompt_logprobs``, in messages of the prompt: the model's logprob of each id when the
      rollout began; None for the very first id
    generation_top_logprobs: with ``top_logprobs``: for each sampled token its likeliest ``[id, logprob]``, the
      likeliest first
    pictures: runs of ids that the engine made of pictures, in their order. A picture that ``max_seq_len`` cuts has none
    sampled: the policy sampled this message. It replaces logprobs with ``include_logprobs: false``
    partial: in failures.jsonl, in the last message: no environment has answered it. Of an agent: the answer was never
      finished
    reasoning: of an agent: the policy's thoughts, as the agent got them
    tool_calls: of an agent: the tools that the policy calls
    tool_call_id: of a tool's result: id of the call
    is_error: of a tool's result: the tool failed
    """

    role: str
    content: Union[str, List[Union[TextPart, ImagePart]]]
    token_ids: List[int]
    generation_logprobs: NotRequired[List[float]]
    prompt_logprobs: NotRequired[List[Optional[float]]]
    generation_top_logprobs: NotRequired[List[List[List[Any]]]]
    pictures: NotRequired[List[PlacedPicture]]
    sampled: NotRequired[Literal[True]]
    partial: NotRequired[Literal[True]]
    reasoning: NotRequired[str]
    tool_calls: NotRequired[List[ToolCall]]
    tool_call_id: NotRequired[str]
    is_error: NotRequired[Literal[True]]


class IdRun(TypedDict):
    """Some of the ids of the whole ``message_log``.

    start: the first of these ids. They are counted from 0 over all of ``message_log``, prompt and observations
      included; in ``sequences``, the ``fork`` ids before it, too
    end: index after the last one
    """

    start: int
    end: int


class VersionRun(TypedDict):
    """The weights that sampled some of the generated tokens.

    start: the first of these generated tokens. They are counted from 0 over the whole rollout, without prompt and
      observations; in ``sequences``, over those of its ``message_log``
    end: index after the last one
    version: the label of the weights (a number as text, for a published version), or None
    """

    start: int
    end: int
    version: Optional[str]


class Segment(TypedDict):
    """The request that sampled some of the generated tokens.

    start: the first of these generated tokens. They are counted from 0 over the whole rollout, without prompt and
      observations; in ``sequences``, over those of its ``message_log``
    end: index after the last one
    turn: turn, from 0; of an agent, the number of the call
    replica: base URL of the replica
    request_id: id of the request, as in the engine's log
    inherited: of a fork: the rollout that it continues has sampled them
    """

    start: int
    end: int
    turn: int
    replica: str
    request_id: str
    inherited: NotRequired[Literal[True]]


class Timing(TypedDict):
    """Seconds.

    queue_s: from a request to its first token: the engine's queue and prefill, summed over whole turns
    generate_s: generation of the whole turns
    step_s: the environment's steps. An agent's run is one step
    wall_s: from the rollout's start to its end, or to the last thing played
    """

    queue_s: float
    generate_s: float
    step_s: float
    wall_s: float


class Effort(TypedDict):
    """What the length of the answer is worth where the prompt asks for little effort.

    low: the prompt asks for little effort
    length: tokens of the last call
    length_reward: with ``low``: reward of the length
    reward: with ``low``: the reward with that, before penalties
    """

    low: bool
    length: int
    length_reward: NotRequired[float]
    reward: NotRequired[float]


class RewardShaping(TypedDict):
    """What was made of an agent's own reward.

    reward: the agent's own reward
    effort: with ``effort_levels``
    penalties: with ``reward_penalties``: by name, whether the answer has the mistake. One mistake makes the reward 0
    """

    reward: float
    effort: NotRequired[Effort]
    penalties: NotRequired[Dict[str, bool]]


class Run(TypedDict):
    """Some of the generated tokens.

    start: the first of these generated tokens. They are counted from 0 over the whole rollout, without prompt and
      observations; in ``sequences``, over those of its ``message_log``
    end: index after the last one
    """

    start: int
    end: int


class RowSequence(TypedDict):
    """What a path of an agent's calls has beyond the sequences before it.

    sequence: number of the sequence. The main one, 0, is the row itself
    parent: number of the sequence with whose ids it begins; None: none
    fork: how many ids it takes from ``parent``. They do not train again here
    cause: why the sequence begins. ``separate``: another system message, or other tools. ``edited``, ``shortened``: the
      agent changed the conversation. ``resampled``: it asked the same again. ``diverged``: an agent that was started
      again asked something new. ``template``: the chat template renders earlier messages otherwise. ``first``: it is
      the rollout's first
    train: whether the sequence trains
    why: why the sequence does not train. ``abandoned``: the last life of the agent never asked for it. ``unread``: the
      agent never got the whole answer. ``resampled``: it went on from another answer to the same (``train_resampled``).
      ``separate``: ``train_separate`` leaves it out
    calls: the calls whose answers it has, by number
    message_log: messages after these ids
    assistant_tokens: tokens that the policy sampled in it
    finish_reasons: why the engine ended each whole turn. ``stop``: an end, a stop string or a stop token. ``length``:
      ``max_new_tokens`` or ``max_seq_len``
    train_mask: ids to train on: runs over the ids of ``message_log``, in order and not adjacent. They are the sampled
      ids without ``masked``. ``[]`` for a failure, for a ``loss_multiplier`` of 0, and for an agent's sequence that
      does not train
    policy_versions: weights that sampled each token: runs over the generated tokens
    segments: replica and request that sampled each token: runs over the generated tokens
    masked: runs of generated tokens that do not train: in a stream with ``when_stale: mask`` those that are too old, in
      a fork those of the rollout that it continues. ``train_mask`` is without them
    over_span: an answer has tokens of more versions than ``max_version_span``: the agent had read its beginning
    """

    sequence: int
    parent: Optional[int]
    fork: int
    cause: Literal["first", "separate", "edited", "shortened", "resampled", "diverged", "template"]
    train: bool
    why: NotRequired[Literal["abandoned", "unread", "resampled", "separate"]]
    calls: List[int]
    message_log: List[RowMessage]
    assistant_tokens: int
    finish_reasons: List[Literal["stop", "length"]]
    train_mask: List[IdRun]
    policy_versions: List[VersionRun]
    segments: List[Segment]
    masked: NotRequired[List[Run]]
    over_span: NotRequired[Literal[True]]


class ProgramEnd(TypedDict):
    """How a program ended the last time, and what it left.

    code: exit code; None: a signal ended it
    signal: the signal that ended it, or None
    tail: the last 2 kB of what it printed
    submission: its submission, or None
    metadata: the ``metadata`` that it returned, or None
    """

    code: Optional[int]
    signal: Optional[str]
    tail: str
    submission: Optional[str]
    metadata: Optional[Dict[str, Any]]


class AllTokens(TypedDict):
    """Tokens of all sequences of a rollout.

    sampled: tokens that the policy sampled in all sequences, the main one included
    trained: sampled tokens that train
    sequences: how many sequences, the main one included
    """

    sampled: int
    trained: int
    sequences: int


class Failure(TypedDict):
    """Why a rollout is no row to train on.

    type: the fault, or ``TimedOut``, ``Stopped``, ``Cancelled``, ``Surplus``, ``Overlong``
    message: what happened, where, and what to do
    turn: the turn in which it failed, from 0
    """

    type: str
    message: str
    turn: int


class RowColumns(TypedDict):
    """A line of ``rollouts.jsonl`` or ``failures.jsonl`` without the sample's own columns; docs/training-data.md says what to
    train on.

        columns = cast(RowColumns, row)

    task_name: task of the sample: a key of ``environments`` in temporal.yaml
    idx: ``idx`` of the sample, else its ``row``. Under ``nemo-rl`` and ``nemo-rl-async`` always the ``row``; under
      ``nemo-rl-sync`` only the sample's
    loss_multiplier: factor of the row's loss (0 to 1,000,000), from the sample; absent: 1. With 0, do not train on the
      row: ``overlong: mask`` sets it for truncated rollouts, and ``mask_sample`` for an agent's
    stop_strings: those of the sample. Under ``nemo-rl-sync``: those in force at the end
    schema_version: the version of this format
    rollout_id: ``<batch_id>/<row>-<repeat>``, which is also the id of the rollout's workflow
    batch_id: the id of the batch or stream
    row: place of the sample in the input, from 0; in a stream the number of the group. Rollouts of one row are a group,
      and share a baseline
    repeat: place in the group, from 0. Replacements are numbered from ``num_repeats`` on
    replaces: of a replacement: the repeat of this row that failed
    semantics: the request's ``semantics``, where they are not ``standard``
    message_log: the prompt, then generation and observation of each turn. The joined ``token_ids`` are exactly the ids
      that the engine got and sampled
    extra_env_info: last state of the environment, which began as the sample's. The state that an ending turn returns is
      dropped
    prompt_tokens: number of ids before the first generated one
    total_reward: sum of the rewards of whole turns. In failures.jsonl it is often 0, and no reward
    rewards: sum by component, if the environment names components; else ``{}``
    turn_rewards: the reward of each whole turn
    finish_reasons: why the engine ended each whole turn. ``stop``: an end, a stop string or a stop token. ``length``:
      ``max_new_tokens`` or ``max_seq_len``
    stop_reason: what ended it. ``terminated``: the environment. ``truncated``: a limit of length, or of the
      environment. ``max_turns``: ``max_rollout_turns``. Only these three are valid rollouts; the others are in
      failures.jsonl. ``timeout``: ``rollout_timeout`` passed. ``stopped``: signal ``stop``, or a group that had enough.
      ``cancelled``: a cancellation, or it never started. ``failed``: a fault, or ``overlong: drop``
    terminated: the environment, or the end of an agent, ended it
    truncated: a limit cut it (``max_new_tokens``, ``max_seq_len``, or one of the environment). It may be
      ``terminated``, too: an environment may grade a cut turn
    max_turns_reached: ``max_rollout_turns`` ended it. Under ``nemo-rl`` and ``nemo-rl-async``: it played as many turns,
      whatever ended it
    turn_count: whole turns: generations that the environment answered. Of an agent: its calls; where it asks for
      answers, those of the main sequence
    total_tokens: ``assistant_tokens`` and ``env_tokens``, without the prompt
    assistant_tokens: tokens that the policy sampled, in whole turns
    env_tokens: tokens of observations
    train_mask: ids to train on: runs over the ids of ``message_log``, in order and not adjacent. They are the sampled
      ids without ``masked``. ``[]`` for a failure, for a ``loss_multiplier`` of 0, and for an agent's sequence that
      does not train
    policy_versions: weights that sampled each token: runs over the generated tokens
    version_source: source of the versions, for the least certain token. ``engine``: the engine named them. ``record``:
      the policy's record. ``none``: at least one is None
    segments: replica and request that sampled each token: runs over the generated tokens
    attempts: executions that played it: 1, and one more for each time that it was resumed
    restarted_turns: turns that were cut and started over, because the settings or changed weights allow no continuation
    logprobs_mode: distribution of all its logprobs. ``unknown`` also if replicas differ; None: it has none
    timing: seconds
    extracted_answer: the last answer that the environment extracted from the policy's text
    agent_result: of an agent of NeMo Gym: its last answer
    untokenized: of an agent of NeMo Gym, without tokens: why ``message_log`` is empty
    reward_shaping: with ``effort_levels`` or ``reward_penalties`` of kind ``gym_agent``: how they changed the reward
    sequences: of an agent: its sequences beside the main one, which is the row's ``message_log``. Each sampled token is
      in exactly one
    calls: of an agent: how many calls it made
    lives: of an agent: how often it was started
    unanswered: of an agent: calls whose answer it never got whole
    malformed_calls: of an agent: tool calls that do not parse, and stayed text
    structured_calls: of an agent: calls with a structure that it asked for (``response_format``); absent: none
    resampled: of an agent: calls that asked for another answer to the same
    program_end: of an agent: how its program ended the last time, and what it left
    all_tokens: of an agent: tokens of all its sequences. The other counts of a row are those of the main one
    over_span: an answer has tokens of more versions than ``max_version_span``: the agent had read its beginning
    forked_from: of a fork: the rollout that it continues, by its ``rollout_id``
    forked_at: of a fork: where it leaves that rollout, ``turn:N`` or ``token:N``
    failure: in failures.jsonl: why the rollout failed
    sample_row: in a stream: place of the group's sample in the input
    epoch: in a stream: how often all samples were played before
    step: in a stream: the step that delivers it
    token_lag: in a stream: how many versions its oldest token is behind the weights that train on it; None: unknown
    masked: runs of generated tokens that do not train: in a stream with ``when_stale: mask`` those that are too old, in
      a fork those of the rollout that it continues. ``train_mask`` is without them
    """

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
    semantics: NotRequired[str]
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
    sequences: NotRequired[List[RowSequence]]
    calls: NotRequired[int]
    lives: NotRequired[int]
    unanswered: NotRequired[int]
    malformed_calls: NotRequired[int]
    structured_calls: NotRequired[int]
    resampled: NotRequired[int]
    program_end: NotRequired[ProgramEnd]
    all_tokens: NotRequired[AllTokens]
    over_span: NotRequired[Literal[True]]
    forked_from: NotRequired[str]
    forked_at: NotRequired[str]
    failure: NotRequired[Failure]
    sample_row: NotRequired[int]
    epoch: NotRequired[int]
    step: NotRequired[int]
    token_lag: NotRequired[Optional[int]]
    masked: NotRequired[List[Run]]
