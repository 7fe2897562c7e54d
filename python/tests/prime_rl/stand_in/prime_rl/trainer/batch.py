"""A stand-in for prime-rl's packing, for machines without it: a micro-batch for each sample. It refuses what prime-rl cuts."""

import copy

from prime_rl.transports.rollouts.types import MicroBatch


def build_bin_cost(model_config):
    return sum


def prepare_batch(rollouts, seq_len, num_train_workers, bin_cost, pad_to_multiple_of=1):
    grid = [[] for _ in range(num_train_workers)]
    batches = [micro_batch(one, seq_len) for one in rollouts]
    while len(batches) % num_train_workers != 0:
        batches.append(untrained(batches[0]))
    for at, one in enumerate(batches):
        grid[at % num_train_workers].append(one)
    return grid


def micro_batch(sample, seq_len):
    length = len(sample.token_ids)
    for name in ("mask", "logprobs", "temperatures", "advantages"):
        assert len(getattr(sample, name)) == length, name
    assert length <= seq_len
    return MicroBatch(
        input_ids=sample.token_ids,
        loss_mask=sample.mask,
        advantages=sample.advantages,
        inference_logprobs=sample.logprobs,
        position_ids=list(range(length)),
        sequence_lengths=[length],
        temperatures=sample.temperatures,
        env_names=[sample.env_name] * length,
        seq_lens=[length],
        rl_weights=sample.rl_weights,
    )


def untrained(one):
    made = copy.deepcopy(one)
    made.loss_mask, made.rl_weights = [False] * len(made.input_ids), None
    made.advantages = [0.0] * len(made.input_ids)
    return made
