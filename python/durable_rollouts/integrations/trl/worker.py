"""``AsyncGRPOTrainer``: its rollout worker, which hands over the steps of a stream, and its weight transfer.

A step is a fact, so a trainer that continues from a checkpoint gets the later steps again (it replays them). Meanwhile
nothing is published; the first sync whose weights train on a new step publishes, under a new number.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
from typing import Any, Callable, Dict, List, Mapping, Optional

from transformers import TrainerCallback
from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

from ...advantages import Kind
from ...aio import Stream as AioStream
from ...connection import log
from ...defaults import with_defaults
from ...loop import loop
from ...requests import STREAM_DEFAULTS, StreamRequest
from ...results import Step
from ...sync import Client, Policy
from ..folders import answered, next_version
from ..own import Own
from ..replays import say_steps
from ..sampling import check_sampling
from .course import Course
from .rows import check
from .samples import filler_like, samples_of


class RolloutWorker:
    """A ``rollout_worker`` of ``AsyncGRPOTrainer``: each training step gets the rollouts of one step of a stream.

    client: ``durable_rollouts.Client``
    id, request: of the stream, as ``Client.stream`` has them
    args: the trainer's ``AsyncGRPOConfig``. Raises ``ValueError`` for a setting that does not fit, by its name
    advantages: what a reward is worth beside its group's: ``durable_rollouts.advantages``
    on_step: called with each step: ``export.wandb()``

        worker = RolloutWorker(client, "run-3", {"samples": {"path": "train.jsonl"}, "num_repeats": 8, "groups_per_step": 4}, args)
        trainer = AsyncGRPOTrainer(
            model, args=args, train_dataset=dataset,
            rollout_worker=worker, weight_transfer=WeightTransfer(worker, client.policy(), "/shared/weights"), callbacks=[worker.callback],
        )
    """

    def __init__(self, client: Client, id: str, request: StreamRequest, args: Any, *, advantages: Kind = "grpo", on_step: Callable[[Step], Any] = lambda step: None) -> None:
        check_settings(args, with_defaults(request, STREAM_DEFAULTS))
        self.rollout_buffer: "queue.Queue[RolloutSample]" = queue.Queue()
        self.metrics_queue: "queue.Queue[Mapping[str, float]]" = queue.Queue()
        self.course = Course(args.weight_sync_steps)
        self.callback = _Callback(self)
        self._client, self._id, self._request = client, id, request
        self._most_stale: int = args.max_staleness
        self._temperature: float = args.temperature
        self._kind, self._rows, self._on_step = advantages, request["groups_per_step"] * request.get("num_repeats", 1), on_step
        self._stream: Optional[AioStream] = None
        self._is_synced, self._next = False, 0
        self._own: Optional[Own] = None
        self._wake: Optional[asyncio.Event] = None
        self._feeding: Optional["concurrent.futures.Future[None]"] = None

    def begin(self, step: int) -> None:
        """Before the first sync: the stream says which steps it has delivered."""
        stream = self._client.stream(self._id, self._request)
        self._stream, self._next = stream._aio, step
        service = self._request.get("generation", {}).get("service", "default")
        version = next_version(self._client.policy(service)) - 1
        first_new = answered(stream.delivered)
        self.course.begin(step, first_new=first_new, version=version)
        if self._own is not None:
            self._own.begin()
        say_steps(stream, step, first_new, counts_from=0, anew="give RolloutWorker another id")

    def owned(self, policy: Policy, *, take_over: bool) -> Own:
        """By ``WeightTransfer``: the stream's id names the training."""
        self._own = Own(policy, self._id, take_over=take_over)
        return self._own

    def synced(self) -> None:
        """``WeightTransfer`` is the trainer's."""
        self._is_synced = True

    def start(self) -> None:
        """Called by the trainer behind its first sync. Raises ``RuntimeError`` without the callback and the transfer."""
        if self._stream is None:
            raise RuntimeError("callbacks: expected [worker.callback], by which this worker knows the trainer's step")
        if not self._is_synced:
            raise RuntimeError(
                "weight_transfer: expected WeightTransfer(worker, …): the trainer's own transfer, and its sync of adapters, "
                "change engines that the policy's record then does not know"
            )
        self._wake = asyncio.Event()
        self._feeding = loop.start(self._feed(self._stream, self._wake))

    def stop(self) -> None:
        """The stream itself runs on: the next trainer joins it."""
        if self._feeding is not None:
            self._feeding.cancel()

    def update_model_version(self, model_version: int) -> None:
        """Called by the trainer behind each sync."""
        self.course.synced(model_version)
        self.wake()

    def wake(self) -> None:
        if self._wake is not None:
            loop.running().call_soon_threadsafe(self._wake.set)

    def check_health(self, stale_after_s: float) -> None:
        """Raises the stream's fault. A stream that waits is no failure: the log says what it waits for."""
        if self._feeding is not None and self._feeding.done() and not self._feeding.cancelled():
            self._feeding.result()

    async def _feed(self, stream: AioStream, wake: asyncio.Event) -> None:
        while True:
            while not self.course.may_have(self._next):
                await wake.wait()
                wake.clear()
            step = await stream.next_step(self._next, self.course.version_of(self._next))
            samples = await asyncio.to_thread(self._samples, step)
            for sample in samples:
                self.rollout_buffer.put(sample)
            self.metrics_queue.put({name: value for name, value in step.metrics.items() if name.startswith("lag/")})
            self._next += 1

    def _samples(self, step: Step) -> List[RolloutSample]:
        rows = step.rows()
        check(rows, temperature=self._temperature, own=self._own)
        self._on_step(step)
        if not 1 <= len(rows) <= self._rows:
            raise ValueError(f"step {step.step} of {self._id}: expected 1 to {self._rows} rollouts, got {len(rows)}")
        samples = samples_of(rows, self._kind, version=step.result["version"])
        for sample in samples:
            sample.model_version = self._trainers_version(sample.model_version, step)
        missing = self._rows - len(samples)
        if missing > 0:
            log.warning("step %s lacks %s of %s rollouts: fillers that train nothing take their places", step.step, missing, self._rows)
        for at in range(missing):
            # Spread, so that no micro-batch has nothing to train on.
            samples.insert((at + 1) * self._rows // (missing + 1), filler_like(samples[0]))
        return samples

    def _trainers_version(self, lag: int, step: Step) -> int:
        """As the trainer counts. The stream decides what is too old; a sample that the trainer dropped would leave its
        step incomplete.
        """
        if lag > self._most_stale:
            log.warning("step %s has a rollout that is %s versions old, max_staleness is %s: it trains all the same", step.step, lag, self._most_stale)
        return self.course.trainers_version(step.step) - min(lag, self._most_stale)


class _Callback(TrainerCallback):  # type: ignore[misc]
    """Behind each step it comes before the trainer's own sync."""

    def __init__(self, worker: RolloutWorker) -> None:
        self._worker = worker

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self._worker.begin(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero and self._worker.course.stepped(state.global_step):
            self._worker.wake()


def check_settings(args: Any, request: Dict[str, Any]) -> None:
    """Raises ``ValueError``, which names the setting."""
    lag, rows = request["max_lag"], request["groups_per_step"] * request["num_repeats"]
    check_sampling(request["generation"], args.temperature)
    if args.max_steps <= 0:
        raise ValueError(
            f"max_steps: expected a number of steps: the trainer's count of epochs begins anew when it is started again; got {args.max_steps}"
        )
    if lag < 1:
        raise ValueError("max_lag: expected at least 1: the trainer takes a step's samples before that step's sync; got 0")
    if args.max_staleness < lag + 1:
        raise ValueError(f"max_staleness: expected at least max_lag + 1 = {lag + 1}, else samples are dropped, got {args.max_staleness}")
    if args.token_budget is None or args.token_budget > 0:
        raise ValueError(f"token_budget: expected 0, so that a step has as many samples as the stream's, got {args.token_budget}")
    taken = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    if taken != rows:
        raise ValueError(
            f"per_device_train_batch_size × gradient_accumulation_steps × processes: expected groups_per_step × num_repeats = {rows}, got {taken}"
        )
