"""Durable rollouts for trainers: batches, streams, new weights, and rows as arrays.

    from durable_rollouts import Client, to_arrays

    client = Client.connect()
    batch = client.start_batch({"samples": {"path": "samples.jsonl"}, "num_repeats": 8}, "step-17")
    for group in batch.groups():          # while others still run
        print(group)
    arrays = to_arrays(batch.rows())

``durable_rollouts.aio`` has the same for programs that run an event loop.
"""

from .arrays import Arrays, to_arrays
from .faults import (
    AgentFailed,
    Cancelled,
    EnvironmentFailed,
    EnvironmentRejected,
    EnvironmentStateLost,
    EnvironmentUnavailable,
    GenerationRejected,
    GenerationUnavailable,
    InvalidBatchRequest,
    JournalLost,
    NotFound,
    PolicyUpdateFailed,
    PolicyVersionMismatch,
    PromptTooLong,
    ProtocolError,
    RolloutFault,
    StateLost,
    StepOutOfOrder,
    Stopped,
    StoreFault,
    StreamEnded,
    StreamStarved,
    Terminated,
    TimedOut,
    TooFewValid,
    UpdateRefused,
)
from .listing import Listed
from .offline import Store, StoredBatch
from .offline import open as open
from .machine import Local, local
from .requests import BatchRequest, BeginRequest, Limits, PublishRequest, StreamRequest
from .results import BatchProgress, BatchResult, Group, HeldEngine, PolicyState, PolicyStatus, PublishResult, Row, Step, StepResult, StreamProgress
from .rows import RowColumns
from .stack import LocalError
from .sync import Batch, Client, Engines, Policy, Stream, Transfer
from .transfer import WeightSyncClient

__version__ = "0.1.0"

__all__ = [
    "__version__",
    "AgentFailed",
    "Arrays",
    "Batch",
    "BatchProgress",
    "BatchRequest",
    "BatchResult",
    "BeginRequest",
    "Cancelled",
    "Client",
    "Engines",
    "EnvironmentFailed",
    "EnvironmentRejected",
    "EnvironmentStateLost",
    "EnvironmentUnavailable",
    "GenerationRejected",
    "GenerationUnavailable",
    "Group",
    "HeldEngine",
    "InvalidBatchRequest",
    "JournalLost",
    "Limits",
    "Listed",
    "Local",
    "LocalError",
    "NotFound",
    "Policy",
    "PolicyState",
    "PolicyStatus",
    "PolicyUpdateFailed",
    "PolicyVersionMismatch",
    "PromptTooLong",
    "ProtocolError",
    "PublishRequest",
    "PublishResult",
    "RolloutFault",
    "Row",
    "RowColumns",
    "StateLost",
    "Step",
    "StepOutOfOrder",
    "StepResult",
    "Stopped",
    "StoreFault",
    "Store",
    "StoredBatch",
    "Stream",
    "StreamEnded",
    "StreamProgress",
    "StreamRequest",
    "StreamStarved",
    "Terminated",
    "TimedOut",
    "TooFewValid",
    "Transfer",
    "UpdateRefused",
    "WeightSyncClient",
    "local",
    "to_arrays",
]
