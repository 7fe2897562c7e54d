"""What the schemas do not say: which dictionaries each module has, what they are called, and how they are introduced."""

from typing import Dict, List, NamedTuple, Optional


class Whole(NamedTuple):
    """A dictionary of its own.

    schema: file of docs/schemas; behind ``#`` one of its fields
    name: of the class
    text: its first lines; None: what the schema says
    without: fields that it lacks
    """

    schema: str
    name: str
    text: Optional[str] = None
    without: str = ""


TEXTS = {
    "requests": """Typed requests: batches, streams, and orders to a policy.

They are dictionaries, spelled as in the JSON of the Temporal CLI. Durations are strings such as ``"30s"`` or ``"1h"``.""",
    "rows": """The columns of a row that this project writes; docs/columns.md explains each.

A row also has its sample's own columns, so rows are typed as dictionaries: ``cast(RowColumns, row)`` types these.""",
    "answers": "What batches, streams and policies answer.",
}

BATCH = """A batch: these samples, ``num_repeats`` rollouts each. Only ``samples`` is required; docs/batches.md explains each field.

    request: BatchRequest = {"samples": {"path": "train.jsonl"}, "num_repeats": 8}"""
ROLLOUT = "How one rollout is played: the keyword arguments of ``client.rollout`` and ``client.group``, and fields of a batch."
STREAM = """A batch without end, delivered step by step. ``samples`` and ``groups_per_step`` are required; docs/stream.md explains
each field.

    request: StreamRequest = {"samples": {"path": "train.jsonl"}, "num_repeats": 8, "groups_per_step": 32}"""
ROW = """A line of ``rollouts.jsonl`` or ``failures.jsonl`` without the sample's own columns; docs/training-data.md says what to
train on.

    columns = cast(RowColumns, row)"""

MODULES: Dict[str, List[Whole]] = {
    "requests": [
        Whole("batch-request", "BatchRequest", BATCH),
        Whole("rollout", "RolloutSettings", ROLLOUT, "sample"),
        Whole("stream-request", "StreamRequest", STREAM),
        Whole("publish", "PublishRequest", "New weights for all replicas of a generation service; docs/weights.md explains each field."),
        Whole("begin", "BeginRequest", "Engines for weights that a trainer sends itself; docs/transfers.md explains each field."),
        *(Whole(f"policy-updates#{name}", f"{name.capitalize()}Request") for name in "sleep wake release join drain leave".split()),
    ],
    "rows": [Whole("row", "RowColumns", ROW)],
    "answers": [
        Whole("result", "BatchResult", "The result of a batch, and the content of its ``metrics.json``."),
        Whole("step-result", "StepResult", "The answer of a stream for a delivered step, and the content of the step's ``metrics.json``."),
        Whole("answers#batch_progress", "BatchProgress"),
        Whole("answers#stream_progress", "StreamProgress"),
        Whole("answers#limits", "Limits"),
        Whole("answers#publish_result", "PublishResult"),
        Whole("answers#policy_state", "PolicyState"),
        Whole("answers#policy_sleep", "PolicySleep"),
        Whole("answers#policy_status", "PolicyStatus"),
        Whole("answers#held_engine", "HeldEngine"),
    ],
}

INNER = {
    "BatchRequest.samples": "SamplesFile: A JSONL file of samples.",
    "BatchRequest.samples.batch": "SamplesOf: The samples of another batch.",
    "BatchRequest.fork": "ForkRequest: Where rollouts continue another one.",
    "BatchRequest.generation": "GenerationSettings",
    "PublishRequest.weights.lora": "Adapter: An adapter (LoRA) for the weights that are there. It is loaded beside them, and nothing is paused.",
    "PublishRequest.weights.checkpoint": "Checkpoint: Weights in files.",
    "ReleaseRequest.holder": "Released: Who no longer brings weights.",
    "RowColumns.message_log": "RowMessage: A message of the log, with its ids. Logprobs are in nats.",
    "RowMessage.content.text": "TextPart: A text in a message with images.",
    "RowMessage.content.image_url": "ImagePart: An image in a message.",
    "ImagePart.image_url": "Image",
    "RowMessage.pictures": "PlacedPicture: Which ids of its message stand for a picture.",
    "RowMessage.tool_calls": "ToolCall: A tool that the policy calls.",
    "RowColumns.train_mask": "IdRun: Some of the ids of the whole ``message_log``.",
    "RowColumns.policy_versions": "VersionRun: The weights that sampled some of the generated tokens.",
    "RowColumns.segments": "Segment: The request that sampled some of the generated tokens.",
    "RowColumns.sequences": "RowSequence: What a path of an agent's calls has beyond the sequences before it.",
    "RowColumns.all_tokens": "AllTokens: Tokens of all sequences of a rollout.",
    "RowColumns.failure": "Failure: Why a rollout is no row to train on.",
    "RowColumns.program_end": "ProgramEnd: How a program ended the last time, and what it left.",
    "RowColumns.reward_shaping": "RewardShaping: What was made of an agent's own reward.",
    "RewardShaping.effort": "Effort: What the length of the answer is worth where the prompt asks for little effort.",
    "RowSequence.masked": "Run: Some of the generated tokens.",
    "BatchResult.objects": "ResultObjects: What results on S3 consist of.",
    "ResultObjects.rollouts": "ResultObject: A part of the results on S3.",
    "BatchProgress.failures": "Failures: Rollouts that failed for one reason.",
    "BatchProgress.waiting": "Waiting: What is waited for.",
    "StreamProgress.out": "GroupsOut: Groups of a stream by how they left it.",
    "PublishResult.replicas": "Replica: The result of an update for one replica.",
    "PolicyStatus.record": "PolicyRecord: The record of a service's weights.",
    "PolicyRecord.weights": "KnownWeights: Weights of a version.",
    "PolicyRecord.replicas": "ReplicaRecord: What the record has of a replica.",
    "PolicyRecord.ticket": "TicketRecord: An open transfer of weights.",
    "PolicyRecord.sleep": "SleepRecord: Engines sleep.",
    "PolicyRecord.hold": "HoldRecord: Who brings weights to a service.",
    "PolicyRecord.courses": "CourseRecord: Versions that one training has brought, up to the next one's first.",
    "PolicyStatus.updates": "PolicyUpdate: One of the last updates.",
    "PolicyStatus.transfer": "TransferNews",
}
"""Of dictionaries within others, by class and field, and by the kind of a member of a union: their name, and their first line
in place of the field's description. Others are called as their field.
"""

WIDER = {"samples": ("Iterable[Any]", "; also any iterable of rows, of any length")}
"""Lists that may be other iterables here: by field, the type, and what its description says more."""
