"""The same for programs that run an event loop: ``from durable_rollouts.aio import Client``.

Names, arguments and errors are those of ``durable_rollouts``; every call that is a coroutine here is awaited, and
``Batch.groups`` is iterated with ``async for``.
"""

from .batch import Batch
from .client import Client
from .policy import Policy
from .stream import Stream
from .transfer import Engines, Transfer, WeightSyncClient

__all__ = ["Batch", "Client", "Engines", "Policy", "Stream", "Transfer", "WeightSyncClient"]
