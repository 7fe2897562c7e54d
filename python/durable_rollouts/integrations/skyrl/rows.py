"""What SkyRL asks for as samples, and rows as it has trajectories. This copies, and decides nothing. Needs no SkyRL."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Sequence

from ...faults import InvalidBatchRequest
from ...plain import plain
from ...results import Row
from ...trajectories import trajectories
from ..singles import check_completion, mask_of, truth_of


def samples_of(batch: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """A row of SkyRL's data set is a sample. Its environment gets all columns, and ``ground_truth`` of ``reward_spec``."""
    extras: Sequence[Mapping[str, Any]] = batch["env_extras"] or [{}] * len(batch["prompts"])
    return [
        plain(
            {"message_log": list(prompt), "task_name": env_class, "extra_env_info": {**extra, **truth_of(extra.get("reward_spec"))}},
            of=f"prompts.{at}", fault=InvalidBatchRequest,
        )
        for at, (prompt, env_class, extra) in enumerate(zip(batch["prompts"], batch["env_classes"], extras))
    ]


def outputs_of(rows: List[Row], ids: Sequence[Any], *, step_wise: bool) -> Dict[str, Any]:
    """One a row; of an agent's with ``step_wise``, one a sequence, the main one last: SkyRL has the reward and the advantage of
    the last for all.
    """
    sequences = [(id, one) for id, row in zip(ids, rows) for one in reversed(trajectories([row]))]
    for _, one in sequences:
        check_completion(one, "SkyRL")
        if one.sequence != 0 and not step_wise:
            raise ValueError(f"{one.rollout_id}: expected one sequence, got several, an agent's: generator.step_wise_trajectories=true trains all of them")
    return {
        "prompt_token_ids": [one.prompt_ids.tolist() for _, one in sequences],
        "response_ids": [one.completion_ids.tolist() for _, one in sequences],
        "rewards": [one.reward for _, one in sequences],
        "loss_masks": [mask_of(one).tolist() for _, one in sequences],
        "stop_reasons": ["length" if one.truncated else "stop" for _, one in sequences],
        "rollout_logprobs": [one.completion_logprobs.tolist() for _, one in sequences],
        **({"trajectory_ids": [id for id, _ in sequences], "is_last_step": [one.sequence == 0 for _, one in sequences]} if step_wise else {}),
    }
