"""Weights that a trainer sends to the engines itself, by whatever wire they have."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Callable, Coroutine, Dict, List, Mapping, Optional, Sequence, Set, Type, TypeVar

from ..answers import HeldEngine, PublishResult
from ..collective import PROCESS, Init, nccl
from ..faults import NotFound, PolicyUpdateFailed
from .service import Service

T = TypeVar("T")

ALIVE_EVERY_S = 1.0
"""Each signal costs some events of a history."""
CALL_S = 300.0
"""Below the ten minutes after which torch ends a collective."""
BREATH_S = 1.0


class Engines:
    """The engines that a transfer holds: paused, and nobody else's, until its block ends.

    ticket: what names this transfer
    version: that the weights get
    engines: each with ``control_url``, ``group``, ``rank_offset`` and ``world_size``
    fleet: names engines, places and groups; a collective that was made for another fleet is not for this one
    init: whether the collectives have to be made anew
    result: what the transfer came to, once its block has ended

        async with client.policy().transfer(holder="math-3") as engines:
            await engines.send(model.named_parameters())
    """

    def __init__(self, service: Service, answer: Mapping[str, Any], loop: asyncio.AbstractEventLoop) -> None:
        self._service = service
        self._loop = loop
        self._sent: Optional[List[int]] = None
        self._updating: Set[int] = set()
        """Groups whose update has begun and not ended, as far as ``client()`` knows."""
        self.ticket: str = answer["ticket"]
        self.version: int = answer["version"]
        self.engines: List[HeldEngine] = answer["engines"]
        self.fleet: str = answer["fleet"]
        self.init: bool = answer["init"]
        self.result: Optional[PublishResult] = None

    @property
    def groups(self) -> List[int]:
        """Each is a collective of its own."""
        return sorted({engine["group"] for engine in self.engines})

    def sent(self, groups: Sequence[int]) -> None:
        """Says which groups have all weights, where not all have.

        groups: the others are half loaded, and serve nothing until they are loaded whole

        Raises ``ValueError`` for a group that the transfer does not have.
        """
        foreign = [group for group in groups if group not in self.groups]
        if foreign:
            raise ValueError(f"sent: expected groups of the transfer ({self.groups}), got {foreign}")
        self._sent = list(groups)

    async def alive(self, done: float) -> None:
        """Says that weights arrive: silence for ``stall_limit`` may end a transfer. ``client()`` does it by itself.

        done: tensors or bytes so far

        Raises nothing that a repetition would solve: an unavailable server is waited for.
        """
        await self._service.say("alive", {"ticket": self.ticket, "done": done})

    def _mention(self, done: float) -> None:
        """As ``alive``, while the engines wait: not waited for, and a failure is no reason to stop."""
        said = asyncio.run_coroutine_threadsafe(self.alive(done), self._loop)
        said.add_done_callback(lambda one: one.cancelled() or one.exception())

    async def check(self) -> None:
        """Whether the engines are still this transfer's. ``client()`` asks before each call that moves weights.

        Raises ``PolicyUpdateFailed`` where they are not: another process has them, or the transfer took too long.
        """
        while True:
            try:
                record = (await self._service.status())["record"]
                break
            except (NotFound, TimeoutError):  # Nobody else can take the engines meanwhile.
                await asyncio.sleep(BREATH_S)
        ticket = None if record is None else record.get("ticket")
        if ticket is not None and ticket["nonce"] == self.ticket:
            return
        now = "nobody" if ticket is None else f"{ticket['holder']['name']!r} for version {ticket['version']}"
        raise PolicyUpdateFailed(f"transfer of version {self.version}: its ticket {self.ticket!r} is over, the engines are held by {now}")

    def client(
        self, *, group: Optional[int] = None, timeout: float = CALL_S, headers: Optional[Mapping[str, str]] = None
    ) -> "WeightSyncClient":
        """What vLLM's own trainer code takes as its ``client``: its calls go to each engine at once.

        group: only to engines of this group; None: to all
        timeout: of each call, in seconds
        headers: for the engines' control routes, such as a key

        Returns a ``WeightSyncClient``, for threads other than the event loop's. Raises nothing here.
        """
        return WeightSyncClient(self, self._from_thread, group=group, timeout=timeout, headers=headers)

    async def send(
        self,
        weights: Any,
        init: Optional[Init] = None,
        *,
        group: Optional[int] = None,
        timeout: float = CALL_S,
        headers: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Sends all weights by vLLM's own trainer code, one group after the other. Its collectives are kept for next time.

        weights: named tensors, a module, or one of vLLM's ``WeightSource``
        init: from a collective's number of ranks to one of vLLM's ``TrainerInitInfo``; None: NCCL on a free port
        group: only to engines of this group; None: to all
        timeout: of each call and each wait for the collective, in seconds
        headers: for the engines' control routes, such as a key

        Raises ``PolicyUpdateFailed`` for what failed at an engine, at once, though the collective still waits for it;
        then this process has to be restarted before its next transfer. ``ImportError`` without vLLM.

            engines.send(model.named_parameters())
        """
        await asyncio.to_thread(self._send, weights, init, group=group, timeout=timeout, headers=headers)

    def _send(
        self,
        weights: Any,
        init: Optional[Init],
        *,
        group: Optional[int],
        timeout: float,
        headers: Optional[Mapping[str, str]],
    ) -> None:
        for one in self.groups if group is None else [group]:
            meant = [engine for engine in self.engines if engine["group"] == one]
            world_size = 1 + sum(engine["world_size"] for engine in meant)
            made = nccl(meant[0]["control_url"]) if init is None else init
            PROCESS.send(
                weights,
                place=(self.fleet, one),
                client=self.client(group=one, timeout=timeout, headers=headers),
                init=lambda: made(world_size),
                is_new=self.init,
                timeout=timeout,
            )

    def _from_thread(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            running: Optional[asyncio.AbstractEventLoop] = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is self._loop:
            work.close()
            raise RuntimeError("engines.client() blocks: call it in a thread, with asyncio.to_thread")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __repr__(self) -> str:
        return f"Engines(version={self.version}, {len(self.engines)} engines)"


class Transfer:
    """A block in which this process holds the engines: ``async with policy.transfer(holder=…) as engines``.

    An exception in it gives the transfer up as if every engine had got something.
    """

    def __init__(self, service: Service, request: Mapping[str, Any]) -> None:
        self._service = service
        self._request = request
        self._engines: Optional[Engines] = None

    async def __aenter__(self) -> Engines:
        answer = await self._service.update("begin", self._request)
        self._engines = Engines(self._service, answer, asyncio.get_running_loop())
        return self._engines

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        engines = self._engines
        if engines is None:
            return
        if kind is not None:
            await self._service.update("abandon", {"ticket": engines.ticket, "touched": engines.groups})
            return
        sent = engines.groups if engines._sent is None else engines._sent
        left = sorted(engines._updating.intersection(sent))
        if left:
            await self._service.update("abandon", {"ticket": engines.ticket, "touched": engines.groups})
            raise PolicyUpdateFailed(
                f"transfer of version {engines.version}: groups {left} have begun an update (start_weight_update) and not ended it"
                " (finish_weight_update), so their engines may have a part of the weights"
            )
        engines.result = await self._service.update("finish", {"ticket": engines.ticket, "sent": sent})


class WeightSyncClient:
    """Has the four methods of vLLM's ``VLLMWeightSyncClient``, for all engines of a transfer.

    Each raises what failed at any of them. The label is the transfer's own, so ``weight_version`` is not passed on.

        WeightTransferTrainerFactory.trainer_init(…, client=engines.client(), source=source).send_weights()
    """

    def __init__(
        self,
        engines: Engines,
        run: Callable[[Coroutine[Any, Any, Any]], Any],
        *,
        group: Optional[int],
        timeout: float,
        headers: Optional[Mapping[str, str]],
    ) -> None:
        self._engines = engines
        self._run = run
        self._meant = [one for one in engines.engines if group is None or one["group"] == group]
        self._timeout = timeout
        self._headers = dict(headers or {})
        self._lock = threading.Lock()
        self._done = 0
        self._said_at = 0.0

    def init_weight_transfer_engine(self, init_info: Mapping[str, Any]) -> None:
        """Makes the collective.

        init_info: of the backend; each engine gets its own ``rank_offset`` where there is one

        Raises ``PolicyUpdateFailed``, naming the engines that failed.
        """
        self._run(self._engines.check())

        def own(engine: HeldEngine) -> Dict[str, Any]:
            ranks = {"rank_offset": engine["rank_offset"]} if "rank_offset" in init_info else {}
            return {"init_info": {**init_info, **ranks}}

        self._post("/init_weight_transfer_engine", own)

    def start_weight_update(self) -> None:
        """Begins the update at each engine.

        Raises ``PolicyUpdateFailed``, naming the engines that failed.
        """
        self._run(self._engines.check())
        self._engines._updating.update(self._groups())
        self._post("/start_weight_update", lambda _: None)

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        """Lets each engine take what the trainer sends now; returns when all have it.

        update_info: of the backend

        Raises ``PolicyUpdateFailed``, naming the engines that failed.
        """
        self._run(self._engines.check())
        told = _plain(update_info)
        self._post("/update_weights", lambda _: {"update_info": told})
        self._says(len(update_info.get("names", [])) or 1)

    def finish_weight_update(self, weight_version: Optional[str] = None) -> None:
        """Ends the update at each engine.

        weight_version: not passed on: an engine takes any label, though no weights came

        Raises ``PolicyUpdateFailed``, naming the engines that failed.
        """
        self._run(self._engines.check())
        self._post("/finish_weight_update", lambda _: {})
        self._engines._updating.difference_update(self._groups())

    def _groups(self) -> List[int]:
        return [engine["group"] for engine in self._meant]

    def _says(self, more: int) -> None:
        with self._lock:
            self._done += more
            if time.monotonic() - self._said_at < ALIVE_EVERY_S:
                return
            self._said_at = time.monotonic()
        self._engines._mention(self._done)

    def _post(self, path: str, body: Callable[[HeldEngine], Optional[Dict[str, Any]]]) -> None:
        def one(engine: HeldEngine) -> Optional[str]:
            try:
                self._call(engine["control_url"] + path, body(engine))
                return None
            except Exception as error:
                return f"{engine['url']}: {path}: {_why(error)}"

        with ThreadPoolExecutor(max_workers=max(1, len(self._meant))) as threads:
            problems = [problem for problem in threads.map(one, self._meant) if problem is not None]
        if problems:
            raise PolicyUpdateFailed("; ".join(problems))

    def _call(self, url: str, body: Optional[Dict[str, Any]]) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json", **self._headers} if body is not None else self._headers
        request = urllib.request.Request(url, data=data, headers=headers, method="POST")
        with _DIRECT.open(request, timeout=self._timeout) as response:
            response.read()


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)

_LATE = "; a collective may still wait for it: restart this trainer process before its next transfer"


def _why(error: Exception) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"{error.code} {error.read(2000).decode(errors='replace')}"
    reason = getattr(error, "reason", error)
    late = isinstance(error, TimeoutError) or isinstance(reason, TimeoutError)
    return f"{reason}{_LATE}" if late else str(reason)


def _plain(update_info: Mapping[str, Any]) -> Dict[str, Any]:
    """CUDA's handles are no JSON: over HTTP vLLM takes them pickled, where it is told to."""
    told = dict(update_info)
    handles = told.pop("ipc_handles", None)
    if handles is not None:
        told["ipc_handles_pickled"] = base64.b64encode(pickle.dumps(handles)).decode()
    return told
