"""A row that several tests read."""


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
