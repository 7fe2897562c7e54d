"""What the schemas do not say: which dictionaries each module has, what they are called, and how they are introduced."""

from typing import Dict, List, NamedTuple, Optional


class Whole(NamedTuple):
    """A dictionary of its own.

    schema: file of docs/schemas; behind ``#`` one of its fields
    name: of the class
    text: its first lines; None: what the schema says
    defaults: of the constant with its defaults; None: there is none
    without: fields that it lacks
    """

    schema: str
    name: str
    text: Optional[str] = None
    defaults: Optional[str] = None
    without: str = ""


class Module(NamedTuple):
    text: str
    dictionaries: List[Whole]


MODULES: Dict[str, Module] = {
    "requests": Module(
        """Typed requests: batches, streams, and orders to a policy.

They are dictionaries, spelled as in the JSON of the Temporal CLI. Durations are strings such as ``"30s"`` or ``"1h"``.""",
        [
            Whole(
                "batch-request",
                "BatchRequest",
                """A batch: these samples, ``num_repeats`` rollouts each. Only ``samples`` is required; docs/batches.md explains each
field.

    request: BatchRequest = {"samples": {"path": "train.jsonl"}, "num_repeats": 8}""",
                "BATCH_DEFAULTS",
            ),
            Whole(
                "batch-request",
                "RolloutSettings",
                "How one rollout is played: the keyword arguments of ``client.rollout`` and ``client.group``, and fields of a batch.",
                "ROLLOUT_DEFAULTS",
                "samples limit num_repeats max_in_flight priority share completion min_valid rollout_workflows",
            ),
            Whole(
                "stream-request",
                "StreamRequest",
                """A batch without end, delivered step by step. ``samples`` and ``groups_per_step`` are required; docs/stream.md
explains each field.

    request: StreamRequest = {"samples": {"path": "train.jsonl"}, "num_repeats": 8, "groups_per_step": 32}""",
                "STREAM_DEFAULTS",
            ),
            Whole(
                "publish",
                "PublishRequest",
                "New weights for all replicas of a generation service; docs/weights.md explains each field.",
                "PUBLISH_DEFAULTS",
            ),
            Whole(
                "begin",
                "BeginRequest",
                "Engines for weights that a trainer sends itself; docs/weights.md explains each field.",
                "BEGIN_DEFAULTS",
            ),
            Whole("policy-updates#sleep", "SleepRequest", defaults="SLEEP_DEFAULTS"),
            Whole("policy-updates#wake", "WakeRequest", defaults="WAKE_DEFAULTS"),
            Whole("policy-updates#release", "ReleaseRequest"),
            Whole("policy-updates#join", "JoinRequest", defaults="JOIN_DEFAULTS"),
            Whole("policy-updates#drain", "DrainRequest", defaults="DRAIN_DEFAULTS"),
            Whole("policy-updates#leave", "LeaveRequest", defaults="LEAVE_DEFAULTS"),
        ],
    ),
    "rows": Module(
        """The columns of a row that this project writes; docs/training-data.md explains each.

A row also has its sample's own columns, so rows are typed as dictionaries: ``cast(RowColumns, row)`` types these.""",
        [
            Whole(
                "row",
                "RowColumns",
                """A line of ``rollouts.jsonl`` or ``failures.jsonl`` without the sample's own columns; docs/training-data.md says what
to train on.

    columns = cast(RowColumns, row)""",
            )
        ],
    ),
    "answers": Module(
        "What batches, streams and policies answer.",
        [
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
    ),
}


class Named(NamedTuple):
    """name: of the class; text: its first line. None: made from the name or the description of the field."""

    name: Optional[str] = None
    text: Optional[str] = None


INNER: Dict[str, Named] = {
    "BatchRequest.samples": Named("SamplesFile", "A JSONL file of samples."),
    "BatchRequest.generation": Named("GenerationSettings", "How replies are sampled. All of it is sent, so no default of a server changes a distribution."),
    "BatchRequest.attempts": Named(text="How often a turn may fail in one way before its rollout fails."),
    "PublishRequest.weights.lora": Named("Adapter", "An adapter (LoRA) for the weights that are there. It is loaded beside them, and nothing is paused."),
    "PublishRequest.weights.checkpoint": Named(text="Weights in files."),
    "ReleaseRequest.holder": Named("Released", "Who no longer brings weights."),
    "RowColumns.message_log": Named("RowMessage", "A message of the log, with its ids. Logprobs are in nats."),
    "RowMessage.content.text": Named("TextPart", "A text in a message with images."),
    "RowMessage.content.image_url": Named("ImagePart", "An image in a message."),
    "ImagePart.image_url": Named("Image"),
    "RowMessage.pictures": Named("PlacedPicture", "Which ids of its message stand for a picture."),
    "RowMessage.tool_calls": Named(text="A tool that the policy calls."),
    "RowColumns.train_mask": Named("IdRun", "Some of the ids of the whole ``message_log``."),
    "RowColumns.policy_versions": Named("VersionRun", "The weights that sampled some of the generated tokens."),
    "RowColumns.segments": Named(text="The request that sampled some of the generated tokens."),
    "RowColumns.sequences": Named("RowSequence", "What a path of an agent's calls has beyond the sequences before it."),
    "RowColumns.all_tokens": Named(text="Tokens of all sequences of a rollout."),
    "RowColumns.failure": Named(text="Why a rollout is no row to train on."),
    "RowColumns.program_end": Named(text="How a program ended the last time, and what it left."),
    "RowColumns.reward_shaping": Named(text="What was made of an agent's own reward."),
    "RewardShaping.effort": Named(text="What the length of the answer is worth where the prompt asks for little effort."),
    "RowSequence.masked": Named("Run", "Some of the generated tokens."),
    "BatchResult.objects": Named("ResultObjects", "What results on S3 consist of."),
    "ResultObjects.rollouts": Named("ResultObject", "A part of the results on S3."),
    "BatchProgress.failures": Named("Failures", "Rollouts that failed for one reason."),
    "BatchProgress.waiting": Named(text="What is waited for."),
    "StreamProgress.out": Named("GroupsOut", "Groups of a stream by how they left it."),
    "PublishResult.replicas": Named(text="The result of an update for one replica."),
    "PolicyStatus.record": Named("PolicyRecord", "The record of a service's weights."),
    "PolicyRecord.weights": Named("KnownWeights", "Weights of a version."),
    "PolicyRecord.replicas": Named("ReplicaRecord", "What the record has of a replica."),
    "PolicyRecord.ticket": Named("TicketRecord", "An open transfer of weights."),
    "PolicyRecord.sleep": Named("SleepRecord", "Engines sleep."),
    "PolicyRecord.hold": Named("HoldRecord", "Who brings weights to a service."),
    "PolicyRecord.courses": Named("CourseRecord", "Versions that one training has brought, up to the next one's first."),
    "PolicyStatus.updates": Named("PolicyUpdate", "One of the last updates."),
    "PolicyStatus.transfer": Named("TransferNews"),
}
"""Of dictionaries within others, by class and field; a member of a union that says its kind, by that, too."""

WIDER = {"samples": ("Iterable[Any]", "; also any iterable of rows, of any length")}
"""Lists that may be other iterables here: by field, the type, and what its description says more."""
