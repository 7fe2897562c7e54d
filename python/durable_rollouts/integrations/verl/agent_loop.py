"""verl's agent loop: a rollout, asked for by a name that a trainer that was killed gives it again."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any, Dict, List

from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from ...aio import Client
from ...faults import ForeignWeights, InvalidBatchRequest
from ...plain import compact, plain
from ...results import Row
from ...trajectories import Trajectory, trajectories
from ..own import Labels
from ..sampling import check_rows, check_sampling, check_unsaid
from ..singles import truth_of
from .numbers import MARK, SAMPLING, steps_of

_connecting: List["asyncio.Future[Client]"] = []
"""One for all rollouts of a process."""


class DurableAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """An entry of verl's file of agent loops.

    task_name: a key of environments in temporal.yaml
    settings: fields of a batch: ``help(durable_rollouts.RolloutSettings)``
    """

    def __init__(self, task_name: str, settings: Any = None, **given: Any) -> None:
        super().__init__(**given)
        if not self.config.trainer.v1.get(MARK):
            raise ValueError("trainer.v1.trainer_mode: expected durable_sync or durable_colocate_async, with trainer.use_v1=True")
        self._task_name = task_name
        self._labels = Labels(self.config.trainer.experiment_name)
        self._settings: Dict[str, Any] = OmegaConf.to_container(OmegaConf.create(settings or {}))
        generation, where = self._settings.get("generation", {}), "settings.generation."
        check_unsaid(generation, dict.fromkeys((*SAMPLING, "include_logprobs"), "actor_rollout_ref.rollout"), trainer="verl", where=where)
        check_sampling(generation, 1, where=where)

    async def run(self, sampling_params: Dict[str, Any], **row: Any) -> List[AgentLoopOutput]:
        """Raises a rollout's failure by name: a failure is no reward."""
        sample = sample_of(row)
        settings = self._settings_with(sampling_params)
        client = await _client()
        played = await client.rollout(sample, self._id(row, sample, sampling_params), task_name=self._task_name, **settings)
        # A validation's rows, and greedy ones, which are a baseline, do not train.
        if "durable_place" in row and sampling_params["temperature"] > 0:
            check_rows([played], sampling_params["temperature"])
        await self._check(client, played)
        return outputs_of(played, with_logprobs=settings["generation"]["include_logprobs"])

    async def _check(self, client: Client, row: Row) -> None:
        """Raises ``ForeignWeights`` for versions that this training neither found at its start nor published."""
        if self._labels.foreign([row]) is None:
            return
        self._labels.reads((await client.policy().status())["record"])
        found = self._labels.foreign([row])
        if found is not None:
            raise ForeignWeights(found)

    def _settings_with(self, sampling: Dict[str, Any]) -> Dict[str, Any]:
        prompt, response = self.rollout_config.prompt_length, self.rollout_config.response_length
        own = {**{name: sampling[name] for name in SAMPLING}, "include_logprobs": bool(sampling["logprobs"])}
        generation = {**self._settings.get("generation", {}), **own}
        return {"max_seq_len": prompt + response, "max_prompt_tokens": prompt, **self._settings, "generation": generation}

    def _id(self, row: Dict[str, Any], sample: Any, sampling: Dict[str, Any]) -> str:
        training, session = self.config.trainer.experiment_name, row["session_id"]
        if "durable_place" in row:
            return f"{training}:{row['durable_place']}-{session}"
        # A validation's rows have no place, but each its own contents.
        contents = hashlib.sha256(compact([sample, sampling])).hexdigest()[:16]
        return f"{training}:val{row['global_steps']}.{contents}-{session}"


async def _client() -> Client:
    if not _connecting:
        _connecting.append(asyncio.ensure_future(Client.connect()))
    return await asyncio.shield(_connecting[0])


def sample_of(row: Dict[str, Any]) -> Any:
    """A row of verl's data set as a sample. Its environment gets ``extra_info``, and ``ground_truth`` of ``reward_model``."""
    given = {**(row.get("extra_info") or {}), **truth_of(row.get("reward_model"))}
    return plain({"message_log": list(row["raw_prompt"]), "extra_env_info": given}, of="row", fault=InvalidBatchRequest)


def outputs_of(row: Row, *, with_logprobs: bool) -> List[AgentLoopOutput]:
    """One a sequence, the main one last: its reward is that of all. This copies, and decides nothing."""
    timing = row["timing"]
    metrics = AgentLoopMetrics(generate_sequences=timing["generate_s"], tool_calls=timing["step_s"])
    given = {"num_turns": len(row["message_log"]), "metrics": metrics}
    return [AgentLoopOutput(**fields_of(one, with_logprobs), **given) for one in reversed(trajectories([row]))]


def fields_of(one: Trajectory, with_logprobs: bool) -> Dict[str, Any]:
    """Raises ``ValueError``, naming the rollout, for a sequence without a token: verl has its reward on the last one."""
    try:
        first, last = steps_of(one.versions)
    except ValueError as error:
        raise ValueError(f"{one.rollout_id}: {error}") from error
    return {
        "prompt_ids": one.prompt_ids.tolist(),
        "response_ids": one.completion_ids.tolist(),
        "response_mask": one.completion_mask.tolist(),
        **({"response_logprobs": one.completion_logprobs.tolist()} if with_logprobs else {}),
        "reward_score": one.reward,
        "extra_fields": {"reward_extra_info": {}, "min_global_steps": first, "max_global_steps": last},
    }
