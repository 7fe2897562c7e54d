"""Rollouts for slime (docs/trainers.md, signatures of 624b824):

    --rollout-function-path for_slime.generate_rollout --custom-reward-post-process-path for_slime.rewards

Leave ``--rollout-top-p`` at 1, and do not use ``apply_chat_template``. Evaluation needs an ``--eval-function-path``.

An agent's several sequences are several samples of one rollout. slime's own normalisation of rewards would take one mean of
the whole step, in which long agents count more; ``rewards`` keeps to groups.
"""

import asyncio
import copy
import statistics

import numpy as np
from durable_rollouts import aio, trajectories


def generate_rollout(args, rollout_id, data_source, evaluation=False):
    assert not evaluation, "--eval-function-path: expected another function than this one"
    generation = {"temperature": args.rollout_temperature}  # by which its loss divides
    groups = asyncio.run(play(data_source.get_samples(args.rollout_batch_size), f"run-3:{rollout_id}", generation=generation))
    several = any(len(rollout) > 1 for group in groups for rollout in group)
    assert args.custom_reward_post_process_path or not several, "--custom-reward-post-process-path: expected for_slime.rewards"
    return groups


async def play(groups, place, **settings):
    client = await aio.Client.connect()

    async def one(sample):
        given = {"prompt": sample.prompt, "extra_env_info": {"ground_truth": sample.label}}
        row = await client.rollout(given, f"{place}:{sample.index}", columns={"prompt": "prompt"}, task_name="math", **settings)
        return samples_of(sample, row)

    return await asyncio.gather(*(asyncio.gather(*(one(sample) for sample in group)) for group in groups))


def samples_of(sample, row):
    """One for each sequence that trains; by their rollout_id, slime's loss counts them as one."""
    found = []
    for one in trajectories([row]):
        if np.isnan(one.completion_logprobs).any():
            raise ValueError(f"{one.rollout_id}: expected a logprob of each sampled token, got none (include_logprobs)")
        part = copy.copy(sample)
        part.rollout_id = sample.index
        part.tokens = [*one.prompt_ids.tolist(), *one.completion_ids.tolist()]
        part.response_length = len(one.completion_ids)
        part.loss_mask = one.completion_mask.tolist()
        part.rollout_log_probs = one.completion_logprobs.tolist()
        part.response = next((said["content"] for said in reversed(row["message_log"]) if said["role"] == "assistant"), "")
        part.reward = one.reward
        part.status = part.Status.TRUNCATED if one.truncated else part.Status.COMPLETED
        found.append(part)
    return found


def rewards(args, samples):
    """As slime's own for grpo, but each rollout counts once, and in its group."""
    worth = {}
    for group in {sample.group_index for sample in samples}:
        known = {sample.index: sample.reward for sample in samples if sample.group_index == group}
        spread = statistics.stdev(known.values()) if len(known) > 1 else 0
        worth.update({index: (reward - statistics.mean(known.values())) / (spread + 1e-6) for index, reward in known.items()})
    return [sample.reward for sample in samples], [worth[sample.index] for sample in samples]
