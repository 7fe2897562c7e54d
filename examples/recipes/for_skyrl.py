"""Rollouts for SkyRL: ``BasePPOExp.get_generator`` returns a ``DurableGenerator`` (docs/trainers.md, signatures of a956457).

An agent's several sequences are steps of one trajectory: they need ``generator.step_wise_trajectories=true``, without which
SkyRL refuses an output of more rows than prompts.
"""

import asyncio

import numpy as np
from durable_rollouts import trajectories
from durable_rollouts.integrations.sampling import check_sampling


class DurableGenerator:
    def __init__(self, client, run, task_name, temperature=1.0, **settings):
        check_sampling(settings.get("generation", {}), temperature)  # generator.sampling_params.temperature
        self.client, self.run, self.task_name, self.settings = client, run, task_name, settings

    async def generate(self, input_batch):
        metadata, ids = input_batch["batch_metadata"], input_batch["trajectory_ids"]
        place = f"{self.run}:{metadata.training_phase}{metadata.global_step}"
        extras = input_batch["env_extras"] or [{}] * len(ids)
        samples = [{"message_log": prompt, "extra_env_info": extra} for prompt, extra in zip(input_batch["prompts"], extras)]
        play = self.client.rollout
        rows = await asyncio.gather(
            *(play(one, f"{place}:{id.to_string()}", task_name=self.task_name, **self.settings) for one, id in zip(samples, ids))
        )
        return of_rows(rows, ids)


def of_rows(rows, ids):
    # All sequences of a rollout, the main one last: SkyRL takes the reward of the last step, and has one advantage for all.
    played = [(id, one) for id, row in zip(ids, rows) for one in reversed(trajectories([row]))]
    for _, one in played:
        if np.isnan(one.completion_logprobs).any():
            raise ValueError(f"{one.rollout_id}: expected a logprob of each sampled token, got none (include_logprobs)")
    return {
        "prompt_token_ids": [one.prompt_ids.tolist() for _, one in played],
        "response_ids": [one.completion_ids.tolist() for _, one in played],
        "loss_masks": [one.completion_mask.tolist() for _, one in played],
        "rollout_logprobs": [one.completion_logprobs.tolist() for _, one in played],
        "rewards": [one.reward for _, one in played],
        "stop_reasons": ["length" if one.truncated else "stop" for _, one in played],
        "trajectory_ids": [id for id, _ in played],
        "is_last_step": [one.sequence == 0 for _, one in played],
        "rollout_metrics": {},
    }
