"""The synchronous form of ``durable_rollouts.aio``: the same objects, on an event loop in a separate thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import threading
from types import TracebackType
from typing import Any, Callable, Coroutine, Dict, Iterator, List, Literal, Mapping, Optional, Sequence, Type, TypeVar, Union

from typing_extensions import Unpack

from . import aio
from .arrow import Sequences
from .listing import Listed
from .requests import Adapter, BatchRequest, Checkpoint, JoinRequest, Limits, Probe, RolloutSettings, StreamRequest
from .results import (
    BatchProgress,
    BatchResult,
    Failures,
    Group,
    HeldEngine,
    PolicySleep,
    PolicyState,
    PolicyStatus,
    PublishResult,
    Row,
    Step,
    StreamProgress,
)
from .steering import Steered
from .collective import Init
from .transfer import CALL_S, WeightSyncClient

T = TypeVar("T")
C = TypeVar("C", bound=type)

CANCEL_S = 1
"""How long an interrupted call waits until its work has ended, and prints nothing more."""


class _Loop:
    """One for all clients of a process. It also works beside a notebook's own loop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._pid = -1

    def start(self, work: Coroutine[Any, Any, T]) -> "concurrent.futures.Future[T]":
        """Work that nobody waits for here."""
        return asyncio.run_coroutine_threadsafe(work, self.running())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        over = threading.Event()
        future = asyncio.run_coroutine_threadsafe(_until(over, work), self.running())
        try:
            return future.result()
        except BaseException:  # Ctrl-C ends the waiting; the work behind it must not continue unnoticed.
            future.cancel()
            over.wait(CANCEL_S)
            raise

    def running(self) -> asyncio.AbstractEventLoop:
        """Started by the first call."""
        with self._lock:
            if self._loop is not None and self._pid != os.getpid():
                raise RuntimeError("durable_rollouts does not survive a fork: connect only in the child, or start it with spawn")
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="durable_rollouts", daemon=True).start()
            return self._loop


async def _until(over: threading.Event, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        over.set()


loop = _Loop()
_run = loop.run


def _mirrors(original: Type[Any]) -> Callable[[C], C]:
    """Copies docstrings from the asynchronous class."""

    def document(mirror: C) -> C:
        mirror.__doc__ = mirror.__doc__ or original.__doc__
        for name, member in vars(mirror).items():
            inner = getattr(member, "__func__", member)
            if not name.startswith("_") and callable(inner) and inner.__doc__ is None:
                inner.__doc__ = getattr(original, name).__doc__
        return mirror

    return document


@_mirrors(aio.Client)
class Client:
    """Batches, streams and policies of one Temporal namespace. ``Client.connect()`` makes one.

        client = Client.connect()
    """

    def __init__(self, client: aio.Client) -> None:
        self._aio = client

    @classmethod
    def connect(
        cls,
        address: Optional[str] = None,
        namespace: Optional[str] = None,
        task_queue: str = "rollouts",
        *,
        profile: Optional[str] = None,
    ) -> "Client":
        return cls(_run(aio.Client.connect(address, namespace, task_queue, profile=profile)))

    def start_batch(
        self,
        request: BatchRequest,
        id: str,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
        restart: bool = False,
    ) -> "Batch":
        return Batch(_run(self._aio.start_batch(request, id, columns=columns, task_name=task_name, restart=restart)))

    def rollout(
        self,
        sample: Any,
        id: str,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
        **settings: Unpack[RolloutSettings],
    ) -> Row:
        return _run(self._aio.rollout(sample, id, columns=columns, task_name=task_name, **settings))

    def group(
        self,
        sample: Any,
        n: int,
        id: str,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
        **settings: Unpack[RolloutSettings],
    ) -> Group:
        return _run(self._aio.group(sample, n, id, columns=columns, task_name=task_name, **settings))

    def batch(self, id: str) -> "Batch":
        return Batch(self._aio.batch(id))

    def batches(self) -> List[Listed]:
        return _run(self._aio.batches())

    def streams(self) -> List[Listed]:
        return _run(self._aio.streams())

    def stream(
        self,
        id: str,
        request: Optional[StreamRequest] = None,
        *,
        columns: Optional[Mapping[str, str]] = None,
        task_name: Optional[str] = None,
    ) -> "Stream":
        return Stream(_run(self._aio.stream(id, request, columns=columns, task_name=task_name)))

    def policy(self, service: str = "default") -> "Policy":
        return Policy(self._aio.policy(service))

    def __repr__(self) -> str:
        return repr(self._aio)


@_mirrors(Steered)
class _Steered:
    def __init__(self, steered: Steered) -> None:
        self._steered = steered

    def set_max_in_flight(self, max_in_flight: int) -> None:
        _run(self._steered.set_max_in_flight(max_in_flight))

    def set_limits(
        self,
        *,
        max_rollout_turns: Optional[int] = None,
        max_new_tokens: Optional[int] = None,
        max_seq_len: Optional[int] = None,
        rollout_timeout: Optional[str] = None,
    ) -> Limits:
        return _run(
            self._steered.set_limits(
                max_rollout_turns=max_rollout_turns,
                max_new_tokens=max_new_tokens,
                max_seq_len=max_seq_len,
                rollout_timeout=rollout_timeout,
            )
        )


@_mirrors(aio.Batch)
class Batch(_Steered):
    def __init__(self, batch: aio.Batch) -> None:
        super().__init__(batch)
        self._aio = batch
        self.id: str = batch.id

    def wait(self, timeout: Optional[float] = None, *, show: bool = False) -> BatchResult:
        return _run(self._aio.wait(timeout, show=show))

    def progress(self) -> BatchProgress:
        return _run(self._aio.progress())

    def groups(self, *, show: bool = False) -> Iterator[Group]:
        groups = self._aio.groups(show=show)

        async def following() -> Optional[Group]:
            return await anext(groups, None)

        while (group := _run(following())) is not None:
            yield group

    def rows(self) -> List[Row]:
        return _run(self._aio.rows())

    def sequences(self) -> Sequences:
        return _run(self._aio.sequences())

    def failures(self) -> List[Row]:
        return _run(self._aio.failures())

    def stop(self) -> None:
        _run(self._aio.stop())

    def cancel(self) -> None:
        _run(self._aio.cancel())

    def __repr__(self) -> str:
        return repr(self._aio)


@_mirrors(aio.Stream)
class Stream(_Steered):
    def __init__(self, stream: aio.Stream) -> None:
        super().__init__(stream)
        self._aio = stream
        self.id: str = stream.id

    def next_step(
        self,
        step: int,
        version: Optional[int] = None,
        timeout: Optional[float] = None,
        *,
        on_wait: Optional[Callable[[str], None]] = None,
    ) -> Step:
        return _run(self._aio.next_step(step, version, timeout, on_wait=on_wait))

    def forget(self, through: int) -> None:
        _run(self._aio.forget(through))

    def failures(self) -> Dict[str, Failures]:
        return _run(self._aio.failures())

    def progress(self) -> StreamProgress:
        return _run(self._aio.progress())

    def stop(self) -> None:
        _run(self._aio.stop())

    def __repr__(self) -> str:
        return repr(self._aio)


@_mirrors(aio.Policy)
class Policy:
    def __init__(self, policy: aio.Policy) -> None:
        self._aio = policy
        self.service: str = policy.service

    def publish(
        self,
        version: int,
        weights: Union[str, Checkpoint, Adapter],
        *,
        mode: Literal["keep", "abort", "wait"] = "keep",
        cache: Literal["reset", "keep"] = "reset",
        order: Literal["all", "rolling"] = "all",
        max_unavailable: int = 1,
        quorum: Optional[int] = None,
        probe: Optional[Probe] = None,
        pause_limit: str = "10m",
        drain_limit: str = "1m",
        keep_adapters: int = 2,
        holder: Optional[str] = None,
        take_over: bool = False,
    ) -> PublishResult:
        return _run(
            self._aio.publish(
                version,
                weights,
                mode=mode,
                cache=cache,
                order=order,
                max_unavailable=max_unavailable,
                quorum=quorum,
                probe=probe,
                pause_limit=pause_limit,
                drain_limit=drain_limit,
                keep_adapters=keep_adapters,
                holder=holder,
                take_over=take_over,
            )
        )

    def transfer(
        self,
        version: Optional[int] = None,
        *,
        holder: str,
        take_over: bool = False,
        checkpoint: Optional[str] = None,
        only: Optional[List[str]] = None,
        base: Optional[int] = None,
        mode: Literal["keep", "abort"] = "keep",
        cache: Literal["reset", "keep"] = "reset",
        groups: Optional[int] = None,
        quorum: Optional[int] = None,
        probe: Union[Literal["agree"], Probe, None] = "agree",
        tolerance: float = 0.05,
        same: bool = False,
        pause_limit: str = "10m",
        stall_limit: str = "2m",
        code: Literal["ours", "trainer"] = "ours",
        own_label: Optional[str] = None,
    ) -> "Transfer":
        return Transfer(
            self._aio.transfer(
                version,
                holder=holder,
                take_over=take_over,
                checkpoint=checkpoint,
                only=only,
                base=base,
                mode=mode,
                cache=cache,
                groups=groups,
                quorum=quorum,
                probe=probe,
                tolerance=tolerance,
                same=same,
                pause_limit=pause_limit,
                stall_limit=stall_limit,
                code=code,
                own_label=own_label,
            )
        )

    def engines(
        self,
        owner: str,
        urls: Sequence[Union[str, JoinRequest]],
        *,
        replace: bool = True,
        force: bool = False,
    ) -> PolicyState:
        return _run(self._aio.engines(owner, urls, replace=replace, force=force))

    def join(
        self, url: str, *, control_url: Optional[str] = None, instance: Optional[str] = None
    ) -> PolicyState:
        return _run(self._aio.join(url, control_url=control_url, instance=instance))

    def drain(self, url: str, *, drain_limit: str = "1m", force: bool = False) -> PolicyState:
        return _run(self._aio.drain(url, drain_limit=drain_limit, force=force))

    def leave(self, url: str, *, force: bool = False) -> PolicyState:
        return _run(self._aio.leave(url, force=force))

    def release(self, holder: str) -> PolicyState:
        return _run(self._aio.release(holder))

    def sleep(self, *, holder: str, level: Literal[1, 2] = 1, until: str = "10m") -> PolicySleep:
        return _run(self._aio.sleep(holder=holder, level=level, until=until))

    def wake(self, tags: Optional[List[Literal["weights", "kv_cache", "scheduling"]]] = None) -> PolicyState:
        return _run(self._aio.wake(tags))

    def attach(self, version: int, checkpoint: str) -> PolicyState:
        return _run(self._aio.attach(version, checkpoint))

    def status(self) -> PolicyStatus:
        return _run(self._aio.status())

    def __repr__(self) -> str:
        return repr(self._aio)


@_mirrors(aio.Transfer)
class Transfer:
    def __init__(self, transfer: aio.Transfer) -> None:
        self._aio = transfer

    def __enter__(self) -> "Engines":
        return Engines(_run(self._aio.__aenter__()))

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        _run(self._aio.__aexit__(kind, error, trace))


@_mirrors(aio.Engines)
class Engines:
    """The engines that a transfer holds: paused, and nobody else's, until its block ends.

    ticket: of this transfer
    version: that the weights get
    engines: each with ``control_url``, ``group``, ``rank_offset`` and ``world_size``
    fleet: names engines, places and groups; a collective that was made for another fleet is not for this one
    init: whether the collectives have to be made anew

        with client.policy().transfer(holder="math-3") as engines:
            send(engines.client())
    """

    def __init__(self, engines: aio.Engines) -> None:
        self._aio = engines
        self.ticket: str = engines.ticket
        self.version: int = engines.version
        self.engines: List[HeldEngine] = engines.engines
        self.fleet: str = engines.fleet
        self.init: bool = engines.init

    @property
    def groups(self) -> List[int]:
        """Each is a collective of its own."""
        return self._aio.groups

    @property
    def result(self) -> Optional[PublishResult]:
        """Of the transfer, once its block has ended."""
        return self._aio.result

    def sent(self, groups: Sequence[int]) -> None:
        self._aio.sent(groups)

    def alive(self, done: float) -> None:
        _run(self._aio.alive(done))

    def check(self) -> None:
        _run(self._aio.check())

    def client(
        self, *, group: Optional[int] = None, timeout: float = CALL_S, headers: Optional[Mapping[str, str]] = None
    ) -> WeightSyncClient:
        return self._aio.client(group=group, timeout=timeout, headers=headers)

    def send(
        self,
        weights: Any,
        init: Optional[Init] = None,
        *,
        group: Optional[int] = None,
        timeout: float = CALL_S,
        headers: Optional[Mapping[str, str]] = None,
    ) -> None:
        self._aio._send(weights, init, group=group, timeout=timeout, headers=headers)

    def __repr__(self) -> str:
        return repr(self._aio)

