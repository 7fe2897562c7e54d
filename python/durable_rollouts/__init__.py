"""Durable rollouts for trainers: batches, streams, new weights, and rows as arrays.

    from durable_rollouts import Client, to_arrays

    client = Client.connect()
    batch = client.start_batch({"samples": {"path": "samples.jsonl"}, "num_repeats": 8}, "step-17")
    for group in batch.groups():          # while others still run
        print(group)
    arrays = to_arrays(batch.rows())

``durable_rollouts.aio`` has the same for programs that run an event loop.
"""

from .advantages import advantages
from .aio import WeightSyncClient
from .answers import (
    BatchProgress,
    BatchResult,
    Counts,
    HeldEngine,
    Limits,
    PolicySleep,
    PolicyState,
    PolicyStatus,
    PublishResult,
    StepResult,
    StreamProgress,
)
from .arrays import Arrays, to_arrays
from .arrow import Sequences
from .faults import (
    AgentFailed,
    Cancelled,
    EnvironmentFailed,
    EnvironmentRejected,
    EnvironmentStateLost,
    EnvironmentUnavailable,
    ForeignWeights,
    GenerationRejected,
    GenerationUnavailable,
    InvalidBatchRequest,
    JournalLost,
    NotFound,
    PolicyUpdateFailed,
    PolicyVersionMismatch,
    PromptTooLong,
    ProtocolError,
    ReplayDiffers,
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
from .requests import BatchRequest, BeginRequest, PublishRequest, RolloutSettings, SleepRequest, StreamRequest
from .report import Report
from .results import Group, Row, Step, to_groups
from .rows import RowColumns
from .stack import LocalError
from .sync import Batch, Client, Engines, Policy, Stream, Transfer
from .trajectories import Trajectory, trajectories, trajectory

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
    "Counts",
    "Engines",
    "EnvironmentFailed",
    "EnvironmentRejected",
    "EnvironmentStateLost",
    "EnvironmentUnavailable",
    "ForeignWeights",
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
    "PolicySleep",
    "PolicyState",
    "PolicyStatus",
    "PolicyUpdateFailed",
    "PolicyVersionMismatch",
    "PromptTooLong",
    "ProtocolError",
    "PublishRequest",
    "PublishResult",
    "ReplayDiffers",
    "Report",
    "RolloutFault",
    "RolloutSettings",
    "Row",
    "RowColumns",
    "Sequences",
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
    "Trajectory",
    "Transfer",
    "UpdateRefused",
    "WeightSyncClient",
    "advantages",
    "local",
    "to_arrays",
    "to_groups",
    "trajectories",
    "trajectory",
]
