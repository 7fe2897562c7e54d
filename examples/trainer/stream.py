"""Trains on a stream, step by step. Killed and started again, it continues after its last checkpoint.

    python stream.py

Rows, arrays, a step of training, its checkpoint, and the new weights in every engine before the next step is requested.
"""

import json
import sys
from contextlib import suppress
from pathlib import Path

from durable_rollouts import Arrays, Client, NotFound, RolloutFault, StreamRequest, to_arrays

STREAM, STEPS = "run-1", 3
CHECKPOINTS = Path(__file__).resolve().parent / "checkpoints"  # Wherever the script is started from.
REQUEST: StreamRequest = {
    "samples": {"path": "examples/sliding-puzzle/samples.jsonl"},
    "num_repeats": 4,
    "groups_per_step": 4,
    "max_rollout_turns": 12,
    "generation": {"max_new_tokens": 256},
}


def train(arrays: Arrays, checkpoint: Path) -> None:
    """Put yours here. This one makes a checkpoint of the simulator; vLLM reads a folder with .safetensors."""
    print(f"{checkpoint.name}: mean reward {arrays.rewards.mean():.3f}, {arrays.loss_mask.sum():.0f} tokens")
    unfinished = checkpoint.with_suffix(".unfinished")
    unfinished.write_text(json.dumps({"name": checkpoint.stem, "skill": 3, "seed": 1}))
    unfinished.rename(checkpoint)  # A trainer that dies leaves a whole checkpoint or none.


def main() -> None:
    CHECKPOINTS.mkdir(exist_ok=True)
    trained = len(list(CHECKPOINTS.glob("*.json")))
    print(f"{STREAM}: {trained} of {STEPS} steps have a checkpoint in {CHECKPOINTS}", flush=True)
    client = Client.connect()
    print(client, flush=True)
    if trained >= STEPS:
        print(f"{STREAM}: all steps are taken")
        with suppress(NotFound):  # Still runs if the trainer died before it could stop it.
            client.stream(STREAM).stop()
        return
    stream = client.stream(STREAM, REQUEST)  # Starts it, joins it or continues it.
    policy = client.policy()
    delivered = stream.delivered()  # Steps below this number are repeated, with the rows that they had.
    version = policy.next_version()
    for k in range(trained, STEPS):
        if k > 0 and k >= delivered:  # Step 0 has the weights that the engines serve by themselves.
            print(f"step {k}: its weights are version {version}", flush=True)
            policy.publish(version, str(CHECKPOINTS / f"{k}.json"))
            version += 1
        print(f"step {k}: asked for", flush=True)
        step = stream.next_step(k, on_wait=print)
        train(to_arrays(step.rows()), CHECKPOINTS / f"{k + 1}.json")
    stream.stop()


if __name__ == "__main__":
    try:
        main()
    except (ConnectionError, RolloutFault) as error:
        sys.exit(str(error))
