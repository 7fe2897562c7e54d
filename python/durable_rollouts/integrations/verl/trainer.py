"""verl's trainers, V1, whose engines are those of a policy: each of its own syncs of weights is a transfer.

They have names of their own in ``trainer.v1.trainer_mode``: ``durable_sync``, ``durable_colocate_async``.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any, List, Optional

import ray
from omegaconf import OmegaConf
from verl.trainer.ppo.v1.trainer_base import register_trainer
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils

from ...starting import check_id
from ...sync import Client, Policy
from ..folders import next_version
from ..own import Own
from ..replays import say_ended
from ..sampling import check_sampling
from .numbers import MARK, SAMPLING, number_of

PREFIX = "durable_"
LIMIT = "10m"
"""verl's code says nothing while tensors arrive, so silence is as long as a pause."""


class Durable:
    """In front of one of verl's trainers."""

    config: Any
    global_steps: int
    checkpoint_manager: Any
    llm_server_manager: Any
    replay_buffer: Any

    def __init__(self, config: Any) -> None:
        check_settings(config)
        # verl asks for the mode by its own names.
        config.trainer.v1.trainer_mode = config.trainer.v1.trainer_mode.removeprefix(PREFIX)
        OmegaConf.update(config, f"trainer.v1.{MARK}", True, force_add=True)
        self._place = (-1, 0)
        super().__init__(config)  # type: ignore[call-arg]

    def _setup(self) -> None:
        super()._setup()  # type: ignore[misc]
        training = self.config.trainer.experiment_name
        self._client = Client.connect()
        policy = self._client.policy()
        self._own = Own(policy, training)
        self._own.begin()
        urls = [f"http://{one.server_address}/v1" for one in self.llm_server_manager.get_replicas()]
        for url in urls:
            check_control(url)
        policy.engines(training, urls)
        self.checkpoint_manager = Weights(self.checkpoint_manager, policy, own=self._own, urls=urls)

    def _next_train_batch(self, *given: Any, **named: Any) -> Any:
        """Its prompts have a column that names their rollouts: the step that asks for them, and their place in it. verl
        saves it with prompts whose rollouts run, and the rest come from its data loader in the same order again.
        """
        batch = super()._next_train_batch(*given, **named)  # type: ignore[misc]
        step, asked = self._place
        if step == -1:
            training = self.config.trainer.experiment_name
            say_ended(self._client, training, self.global_steps, anew="give trainer.experiment_name another name")
        first = asked if step == self.global_steps else 0
        self._place = (self.global_steps, first + len(batch))
        tensordict_utils.assign_non_tensor_stack(batch, "durable_place", [f"{self.global_steps}.{first + at}" for at in range(len(batch))])
        return batch

    def fit(self, agent_loop_manager: Any) -> None:
        """verl waits for a step's prompts without an end, also for those of an agent-loop worker that is dead. This asks the
        workers whenever verl looks for prompts, and raises ``RuntimeError``: started again, it gets the same rollouts.
        """
        wait, workers = self.replay_buffer._wait_for_next_poll, agent_loop_manager.agent_loop_workers

        def looked(*given: Any) -> Any:
            check_workers(workers)
            return wait(*given)

        self.replay_buffer._wait_for_next_poll = looked
        super().fit(agent_loop_manager)  # type: ignore[misc]
        self._own.end()


class Weights:
    """verl's manager of weights. Its syncs are transfers; all else is its own."""

    def __init__(self, manager: Any, policy: Policy, *, own: Own, urls: List[str]) -> None:
        self._manager, self._policy, self._own, self._urls = manager, policy, own, urls
        self._step = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._manager, name)

    def update_weights(self, global_steps: Optional[int] = None) -> Any:
        """None: the same weights once more, behind a validation."""
        self._step = self._step if global_steps is None else global_steps
        version = number_of(self._step, next_version(self._policy))
        # A step whose advantages are all 0 leaves the weights as they are.
        named: Any = {"mode": "abort", "same": True, "code": "trainer", "pause_limit": LIMIT, "stall_limit": LIMIT}
        with self._policy.transfer(version, **named, **self._own.options) as engines:
            foreign = [one["url"] for one in engines.engines if one["url"] not in self._urls]
            if foreign:
                raise ValueError(f"{foreign[0]}: expected verl's own engines alone, whose weights it syncs: {', '.join(self._urls)}")
            self._own.published()
            return self._manager.update_weights(global_steps)


def check_settings(config: Any) -> None:
    """Raises ``ValueError``, which names the setting."""
    rollout, model = config.actor_rollout_ref.rollout, config.actor_rollout_ref.model
    if rollout.name != "vllm":
        raise ValueError(f"actor_rollout_ref.rollout.name: expected vllm, got {rollout.name}")
    if rollout.free_cache_engine:
        raise ValueError("actor_rollout_ref.rollout.free_cache_engine: expected False: weights of a sleeping engine are not changed")
    if model.get("lora_rank", 0) > 0 and not model.get("lora", {}).get("merge", False):
        raise ValueError("actor_rollout_ref.model.lora_rank: expected 0, or model.lora.merge=True: engines are asked for the model itself")
    given = {name: rollout[name] for name in SAMPLING if name in rollout}
    check_sampling(given, given.get("temperature", 1), where="actor_rollout_ref.rollout.")
    check_id(f"{config.trainer.experiment_name}:val1000000.{'0' * 16}-1000")


def check_control(url: str) -> None:
    """Raises ``ValueError`` for an engine without the routes of vLLM's development mode."""
    asked = url.removesuffix("/v1") + "/is_paused"
    try:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=60).close()
    except urllib.error.HTTPError as error:
        setting = "ray_kwargs.ray_init.runtime_env.env_vars.VLLM_SERVER_DEV_MODE"
        raise ValueError(f'+{setting}: expected "1", which gives engines their control routes; {asked} answers {error.code}') from error


def check_workers(workers: List[Any]) -> None:
    """Raises ``RuntimeError`` for a dead worker. A busy one answers later."""
    answered, _ = ray.wait([one.__ray_ready__.remote() for one in workers], num_returns=len(workers), timeout=1)
    try:
        ray.get(answered)
    except ray.exceptions.RayActorError as error:
        raise RuntimeError(f"an agent-loop worker of verl's is dead: start this trainer again, and it gets the same rollouts: {error}") from error


@register_trainer(f"{PREFIX}sync")
class DurableSync(Durable, PPOTrainerSync):  # type: ignore[misc]
    """verl's ``sync``."""


@register_trainer(f"{PREFIX}colocate_async")
class DurableColocateAsync(Durable, PPOTrainerColocateAsync):  # type: ignore[misc]
    """verl's ``colocate_async``."""
