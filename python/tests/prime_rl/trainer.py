"""A trainer that does with files what prime-rl's does (its train.py at commit 559b447), on a CPU, with a tiny model.

    python trainer.py --folder OUTPUT_DIR --model MODEL --steps 5 [--ranks 2]

It broadcasts the weights that it begins with, waits for the files of a step, trains, broadcasts, and saves a checkpoint behind
every second step. OUTPUT_DIR/steps.jsonl: what each step had. It continues from its last checkpoint.
"""

import argparse
import json
import os
import time
from pathlib import Path

import msgspec
import torch
from prime_rl.transports.rollouts.types import MicroBatch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

DECODER = msgspec.msgpack.Decoder(type=list[MicroBatch])
CHECKPOINT_EACH = 2


def broadcast(model, folder):
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: one.detach().clone() for name, one in model.state_dict().items()}, folder / "model.safetensors")
    (folder / "STABLE").touch()


def received(folder, rank):
    path = folder / f"rank_{rank}.bin"
    while not path.exists():
        time.sleep(0.02)
    return DECODER.decode(path.read_bytes())


def sequences_of(batch):
    """A micro-batch has several sequences, and padding behind them, which attend to themselves alone."""
    at = 0
    for length in batch.sequence_lengths:
        yield slice(at, at + length)
        at += length


def trained_on(model, batch, where):
    """The loss of the tokens that train, minus ratio times advantage; and how far a ratio is from 1."""
    ids, mask = torch.tensor(batch.input_ids[where]), torch.tensor(batch.loss_mask[where])
    if not mask.any():
        return torch.tensor(0.0), 0.0
    temperatures = torch.tensor(batch.temperatures[where])
    logits = model(input_ids=ids[None], use_cache=False).logits[0, :-1].double() / temperatures[1:, None]
    ours = torch.log_softmax(logits, dim=1).gather(1, ids[1:, None])[:, 0]
    ratios = (ours - torch.tensor(batch.inference_logprobs[where], dtype=torch.float64)[1:]).exp()[mask[1:]]
    loss = -(ratios * torch.tensor(batch.advantages[where])[1:][mask[1:]]).sum()
    return loss, float((ratios.detach() - 1).abs().max())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    checkpoints = args.folder / "checkpoints"
    begun = max((int(one.name.partition("_")[2]) for one in checkpoints.glob("step_*")), default=0)
    if begun > 0:
        saved = torch.load(checkpoints / f"step_{begun}" / "trainer.pt")
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    broadcast(model, args.folder / "broadcasts" / f"step_{begun}")
    for step in range(begun + 1, args.steps + 1):
        grid = [received(args.folder / "rollouts" / f"step_{step}", rank) for rank in range(args.ranks)]
        furthest, sequences = 0.0, []
        for batch in (one for batches in grid for one in batches):
            for where in sequences_of(batch):
                loss, distance = trained_on(model, batch, where)
                furthest = max(furthest, distance)
                if loss.requires_grad:
                    loss.backward()
                    sequences.append({"ids": batch.input_ids[where], "mask": batch.loss_mask[where], "logprobs": batch.inference_logprobs[where], "advantage": batch.advantages[where][0]})
        optimizer.step()
        optimizer.zero_grad()
        with open(args.folder / "steps.jsonl", "a") as file:
            file.write(json.dumps({"step": step, "furthest": furthest, "sequences": sequences}) + "\n")
            file.flush()
            os.fsync(file.fileno())
        broadcast(model, args.folder / "broadcasts" / f"step_{step}")
        if step % CHECKPOINT_EACH == 0:
            folder, unfinished = checkpoints / f"step_{step}", checkpoints / f".step_{step}"
            unfinished.mkdir(parents=True, exist_ok=True)
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, unfinished / "trainer.pt")
            unfinished.rename(folder)
    print("trained", flush=True)


main()
