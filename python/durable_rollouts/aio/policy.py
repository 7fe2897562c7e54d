"""The policy of a generation service: weights, who brings them, and the engines that have them."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Mapping, Optional, Sequence, Union

from temporalio.client import Client as TemporalClient

from ..answers import PolicyRecord, PolicySleep, PolicyState, PolicyStatus, PublishResult
from ..faults import NotFound
from ..requests import Adapter, Checkpoint, JoinRequest, Probe, ReleaseRequest
from .service import Service, incarnation, own
from .transfer import Transfer


def given(arguments: Mapping[str, Any]) -> Dict[str, Any]:
    """The arguments of a call as the input of its update, which has the same names."""
    return {name: value for name, value in arguments.items() if name != "self"}


def numbers_of(record: Optional[PolicyRecord]) -> List[int]:
    """The versions that the record names: enough replicas have one, the other one was tried last."""
    return [] if record is None else [one for one in (record["version"], record["target"]) if one is not None]


def version_after(record: Optional[PolicyRecord]) -> int:
    """One above all of them; 1: the first."""
    return 1 + max(numbers_of(record), default=0)


class Policy:
    """What a generation service serves: weights under a version that only grows.

    service: a key of ``generation`` in temporal.yaml

        client.policy().publish(4, "/shared/checkpoints/4")
    """

    def __init__(self, temporal: TemporalClient, service: str, task_queue: str) -> None:
        self._service = Service(temporal, service, task_queue)
        self.service: str = service

    async def _begins(self, holder: str) -> None:
        """Signs of life from now on, before the first weights."""
        await self._service.check()
        self._service.hold(holder)

    async def _changed(self, update: str, request: Mapping[str, Any]) -> PolicyState:
        state: PolicyState = await self._service.update(update, request)
        return state

    async def publish(
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
        """Brings weights to every replica of the service, and waits until enough of them serve these.

        version: above all earlier ones. The same version with the same weights again completes what is missing, or
          returns the result, so a crashed trainer just calls this again
        weights: a path that each engine reads itself, or ``{"kind": "checkpoint", "path": …}``; an adapter for the
          weights that are there is ``{"kind": "lora", "path": …}``, and pauses nothing
        mode: what happens to running generations: frozen (``keep``), cut (``abort``; they continue after their tokens),
          or drained for ``drain_limit`` (``wait``)
        cache: the prefix cache: emptied, or kept
        order: all replicas at once, or ``rolling``: at most ``max_unavailable`` at a time
        max_unavailable: replicas
        quorum: how many replicas must have it; None: all that are not away
        probe: the trainer's own logprobs of a prompt, in nats; a replica with other ones does not serve
        pause_limit: how long a pause may take, such as ``"30s"``
        drain_limit: likewise, of mode ``wait``
        keep_adapters: how many of the last versions generations may go on under, if it is an adapter
        holder: names the training, the same after it was restarted: from now on others are refused, until ``release`` or
          five minutes after this process and its event loop have ended. None: refused while somebody holds the service
        take_over: takes the service from another holder

        Returns ``help(durable_rollouts.PublishResult)``. Raises ``PolicyUpdateFailed``, and ``InvalidBatchRequest``
        (also for a service that no worker has). An unavailable server is waited for.

            paused_s = client.policy().publish(4, "/shared/checkpoints/4", order="rolling")["paused_s"]

        docs/weights.md has the rules.
        """
        request = {**given(locals()), "holder": None if holder is None else own(holder)}
        if isinstance(weights, str):
            request["weights"] = {"kind": "checkpoint", "path": weights}
        await self._service.check()
        result: PublishResult = await self._service.update("publish", request)
        return result

    async def release(self, holder: str) -> PolicyState:
        """Lets others bring weights: at the end of a training, or for a trainer that is gone.

        holder: who holds the service

        Returns ``help(durable_rollouts.PolicyState)``; where nobody holds it, it changes nothing. Raises
        ``PolicyUpdateFailed`` where another name holds it, or a later process of this one. An unavailable server is waited
        for.

            client.policy().release("math-3")
        """
        was_held = self._service.let_go(holder)
        named: ReleaseRequest = {"holder": {"name": holder, "incarnation": incarnation() if was_held else None}}
        return await self._changed("release", named)

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
        """Holds the engines for weights that this process sends itself: ``with policy.transfer(holder=…) as engines``.

        At the end of the block they serve them. An exception in it, ``KeyboardInterrupt`` too, gives the transfer up.

        version: above all that an engine has served; None: the next one, as ``engines.version`` says
        holder: names the training, as in ``publish``; each process is an incarnation of it
        take_over: takes the service from another holder
        checkpoint: files with the same weights, which each engine can read: what repairs an engine
        only: URLs of some engines; None: all of them
        base: the weights are a difference to this version: engines with another one are left out
        mode: running generations are frozen (``keep``) or cut
        cache: the prefix cache: emptied, or kept
        groups: how many collectives the engines form; None: one each
        quorum: how many groups must have it; None: all that are not away
        probe: ``agree``: what engines compute changes, and is the same on all; or the trainer's own logprobs; None: none
        tolerance: of probe ``agree``, for each logprob
        same: the weights may be those that an engine already has
        pause_limit: the longest pause, whatever is said
        stall_limit: the longest silence, before a repair may begin
        code: who calls the engines' routes for weights: this package, or the trainer's own code
        own_label: the label that the trainer's code gives the engines; None: none

        Returns the block. Raises nothing here: entering it raises ``PolicyUpdateFailed`` where another trainer has the
        engines, and leaving it where too few of them have the weights.

            with client.policy().transfer(holder="math-3", groups=1) as engines:
                trainer_engine(client=engines.client()).send_weights()

        docs/transfers.md has the rules.
        """
        return Transfer(self._service, {**given(locals()), "holder": own(holder)})

    async def sleep(self, *, holder: str, level: Literal[1, 2] = 1, until: str = "10m") -> PolicySleep:
        """Puts the engines to sleep, so that this process may have their memory. Rollouts wait, and lose no token.

        holder: names the training, as in ``publish``; each process is an incarnation of it
        level: 1: the weights wait in the memory of the host; 2: they are dropped, and loaded again from files, or sent
        until: they are woken then, whatever has become of this process

        Returns ``help(durable_rollouts.PolicySleep)``, once all of them sleep. Raises ``PolicyUpdateFailed`` where somebody
        else has put them to sleep or sends weights, and where one cannot sleep: then all are woken. An unavailable server
        is waited for.

            client.policy().sleep(holder="math-3", level=2)
        """
        answer: PolicySleep = await self._service.update("sleep", {**given(locals()), "holder": own(holder)})
        return answer

    async def wake(self, tags: Optional[List[Literal["weights", "kv_cache", "scheduling"]]] = None) -> PolicyState:
        """Ends a sleep: each engine has its weights again, and tells what it computes, before it serves.

        tags: ``["weights"]``: memory for weights alone, and they sleep on; None: all

        Returns ``help(durable_rollouts.PolicyState)``; again, or where none sleeps, it changes nothing. Raises
        ``PolicyUpdateFailed`` where no engine could be woken; each is tried again. An unavailable server is waited for.

            client.policy().wake()
        """
        return await self._changed("wake", given(locals()))

    async def attach(self, version: int, checkpoint: str) -> PolicyState:
        """Names files of weights that a trainer has sent: engines that are late or lost are loaded from there.

        version: whose weights the files have
        checkpoint: a path that each engine reads itself

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for another version than the
        record's. An unavailable server is waited for.
        """
        return await self._changed("attach", given(locals()))

    async def engines(
        self,
        owner: str,
        urls: Sequence[Union[str, JoinRequest]],
        *,
        replace: bool = True,
        force: bool = False,
    ) -> PolicyState:
        """Says which engines a job has: new ones join, and its earlier ones that are not among these leave.

        owner: whose engines these are, such as the name of a training job
        urls: base URLs, or dictionaries as ``join`` takes its arguments
        replace: the owner's other engines leave
        force: an empty list: all of its engines leave

        Returns ``help(durable_rollouts.PolicyState)``, as soon as the record has them; each is examined, and gets the
        weights, before it serves. Raises ``PolicyUpdateFailed`` for an URL that temporal.yaml does not allow, or that
        another owner has.

            client.policy().engines("grpo", ["http://10.1.0.4:8000/v1", "http://10.1.0.5:8000/v1"])

        docs/engines.md has the rules.
        """
        request = {"owner": owner, "urls": list(urls), "replace": replace, "force": force}
        return await self._changed("engines", request)

    async def join(
        self, url: str, *, control_url: Optional[str] = None, instance: Optional[str] = None
    ) -> PolicyState:
        """An engine joins: it is examined, gets the weights, and serves.

        url: its base URL, which ends in ``/v1``
        control_url: where its weights are changed; None: its base URL without ``/v1``
        instance: names its process; None: nobody does

        Returns ``help(durable_rollouts.PolicyState)``, as soon as the record has it. Raises ``PolicyUpdateFailed`` for
        an URL that temporal.yaml does not allow.
        """
        return await self._changed("join", given(locals()))

    async def drain(self, url: str, *, drain_limit: str = "1m", force: bool = False) -> PolicyState:
        """An engine gets no new request, and leaves when its running ones have had their time.

        url: its base URL
        drain_limit: what still runs is cut then, and goes on elsewhere
        force: also if it is the last one

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for the last engine.
        """
        return await self._changed("drain", given(locals()))

    async def leave(self, url: str, *, force: bool = False) -> PolicyState:
        """An engine leaves at once: what it runs goes on elsewhere.

        url: its base URL
        force: also if it is the last one

        Returns ``help(durable_rollouts.PolicyState)``. Raises ``PolicyUpdateFailed`` for the last engine.
        """
        return await self._changed("leave", given(locals()))

    async def status(self) -> PolicyStatus:
        """The record (version, target, replicas) and the last ten updates.

        If Temporal's database was lost, the record in the store stays in force, and the next update has it.

        Returns ``help(durable_rollouts.PolicyStatus)``. Raises ``NotFound`` before the first update, and after such a
        loss; ``TimeoutError`` if no worker answers.
        """
        return await self._service.status()

    async def next_version(self) -> int:
        """The version for the next ``publish``: one above all that were published or tried, and 1 where none was.

        Returns it. Raises ``TimeoutError`` if no worker answers.

            policy.publish(policy.next_version(), "/shared/checkpoints/4")
        """
        try:
            return version_after((await self.status())["record"])
        except NotFound:
            return version_after(None)

    def __repr__(self) -> str:
        return f"Policy({self.service!r})"
