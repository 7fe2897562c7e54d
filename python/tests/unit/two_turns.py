"""Rows that several tests read."""

ENDED = {"stop_reason": "terminated", "terminated": True, "truncated": False, "task_name": "t", "idx": 0, "extra_env_info": {}}
TRUNCATED = {"truncated": True, "stop_reason": "truncated"}


def row(**change):
    """Two turns: prompt 1 2, sampled 3 4, observed 5, sampled 6."""
    return {
        "rollout_id": "b/0-0",
        "batch_id": "b",
        "row": 0,
        "repeat": 0,
        "prompt_tokens": 2,
        "assistant_tokens": 3,
        "total_reward": 0.5,
        "loss_multiplier": 1,
        "logprobs_mode": "processed",
        "train_mask": [{"start": 2, "end": 4}, {"start": 5, "end": 6}],
        "policy_versions": [{"start": 0, "end": 2, "version": "17"}, {"start": 2, "end": 3, "version": "18"}],
        "message_log": [
            {"role": "user", "content": "", "token_ids": [1, 2]},
            {"role": "assistant", "content": "a", "token_ids": [3, 4], "generation_logprobs": [-0.5, -1.5]},
            {"role": "environment", "content": "o", "token_ids": [5]},
            {"role": "assistant", "content": "b", "token_ids": [6], "generation_logprobs": [-0.25]},
        ],
        **change,
    }


def ended(**change):
    """The same of a rollout that has ended, with the columns of its sample."""
    return row(**{**ENDED, **change})


def masked():
    """Of one group: all of it trains, some of it, nothing, and other parts."""
    return [
        ended(),
        ended(rollout_id="b/0-1", repeat=1, **TRUNCATED, train_mask=[{"start": 2, "end": 4}]),
        ended(rollout_id="b/0-2", repeat=2, **TRUNCATED, loss_multiplier=0, train_mask=[]),
        ended(rollout_id="b/0-3", repeat=3, train_mask=[{"start": 3, "end": 4}, {"start": 5, "end": 6}]),
    ]


def unsaid():
    """Sampled without logprobs."""
    found = ended()
    for message in found["message_log"]:
        if message.pop("generation_logprobs", None) is not None:
            message["sampled"] = True
    return found
