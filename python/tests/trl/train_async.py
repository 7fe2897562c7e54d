"""A training of TRL's AsyncGRPOTrainer on a tiny model, on a CPU, whose steps are written down.

    python train_async.py --folder FOLDER --model MODEL --stream ID [--steps 6] [--save 100] [--hold 5]

FOLDER/steps.jsonl: the ids that each step trained on, its loss and the trainer's metrics; and each sync, with what it sent.
``--hold``: it gets the rows of this step, and then waits until it is killed.
Two parts of TRL are for GPUs alone and are replaced: its attention by torch's, its table of devices by a number.
"""

import argparse
import json
import os
import threading
from pathlib import Path
from typing import Optional

import torch
import trl.experimental.async_grpo.async_grpo_trainer as async_grpo_trainer
import trl.experimental.async_grpo.packing as packing
from datasets import Dataset
from durable_rollouts import Client
from durable_rollouts.integrations.trl import last_checkpoint
from durable_rollouts.integrations.trl.asynchronous import RolloutWorker, WeightTransfer
from qwen import tokenizer
from task import samples
from transformers import TrainerCallback
from trl.experimental.async_grpo import AsyncGRPOConfig, AsyncGRPOTrainer

GROUPS, REPEATS = 2, 4
LONGEST = 8
"""Less than most completions have: nothing is cut at it."""


class Attention:
    """The varlen interface of the kernel, one segment at a time."""

    @staticmethod
    def flash_attn_varlen_func(query, key, value, ends_q, ends_k, longest_q, longest_k, softmax_scale=None, causal=True, window_size=None):
        found = []
        for segment in range(len(ends_q) - 1):
            q = query[ends_q[segment] : ends_q[segment + 1]].transpose(0, 1)
            k, v = (one[ends_k[segment] : ends_k[segment + 1]].transpose(0, 1) for one in (key, value))
            behind = k.shape[1] - q.shape[1]
            mask = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).tril(behind)
            found.append(torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=softmax_scale).transpose(0, 1))
        return torch.cat(found)


packing._flash_attn = lambda: Attention
async_grpo_trainer.get_peak_flops_per_device = lambda *_: 1e12


class Told(TrainerCallback):
    def __init__(self, file):
        self.file = file

    def on_log(self, args, state, control, logs=None, **_):
        kept = {name: value for name, value in logs.items() if name in KEPT or name.startswith(("sample/", "lag/"))}
        self.file.line(step=state.global_step, **kept)


KEPT = ("loss", "grad_norm", "ratio", "reward")


class File:
    def __init__(self, folder):
        self.path = folder / "steps.jsonl"

    def line(self, **what):
        with open(self.path, "a") as file:
            file.write(json.dumps(what) + "\n")
            file.flush()
            os.fsync(file.fileno())


class ToldTrainer(AsyncGRPOTrainer):
    file: File

    def compute_loss(self, model, inputs, **more):
        self.file.line(in_loss=int((inputs["token_index"] >= 0).sum()))
        return super().compute_loss(model, inputs, **more)


class ToldTransfer(WeightTransfer):
    file: File

    def send_weights(self, iterator):
        version = self._worker.course._version
        super().send_weights(iterator)
        published = self._worker.course._version
        self.file.line(sync=published, sent=published != version)


class ToldWorker(RolloutWorker):
    file: File
    hold: Optional[int]

    def begin(self, step):
        super().begin(step)
        self.file.line(begins=step, first_new=self.course._first_new)

    def _samples(self, step):
        found = super()._samples(step)
        ids = [row["rollout_id"] for row in step.rows()]
        trained = sum(int(one.completion_mask.sum()) for one in found)
        tokens = [one.input_ids.tolist() for one in found]
        self.file.line(delivered=step.step, version=step.result["version"], ids=ids, tokens=tokens, trained=trained)
        if step.step == self.hold:
            threading.Event().wait()
        return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--stream", required=True)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--save", type=int, default=100)
    parser.add_argument("--hold", type=int)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rows = samples(1, 8)
    checkpoints = args.folder / "checkpoints"
    config = AsyncGRPOConfig(
        output_dir=str(checkpoints),
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        num_generations=REPEATS,
        per_device_train_batch_size=GROUPS * REPEATS,
        gradient_accumulation_steps=1,
        token_budget=0,
        max_staleness=2,
        max_completion_length=LONGEST,
        max_steps=args.steps,
        save_steps=args.save,
        learning_rate=1e-3,
        seed=7,
        report_to=[],
        disable_tqdm=True,
    )
    request = {
        "samples": rows,
        "num_repeats": REPEATS,
        "groups_per_step": GROUPS,
        "max_lag": 1,
        "max_rollout_turns": 4,
        "max_seq_len": 200,
        "generation": {"prompt_format": "raw", "max_new_tokens": 12},
    }
    client = Client.connect()
    worker = ToldWorker(client, args.stream, request, config)
    transfer = ToldTransfer(worker, client.policy(), args.folder / "weights")
    worker.file = transfer.file = file = File(args.folder)
    worker.hold = args.hold
    ToldTrainer.file = file
    trainer = ToldTrainer(
        str(args.model),
        args=config,
        train_dataset=Dataset.from_list([{"prompt": row["message_log"][0]["content"]} for row in rows]),
        processing_class=tokenizer(),
        rollout_worker=worker,
        weight_transfer=transfer,
        callbacks=[worker.callback, Told(file)],
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(checkpoints))
    print("trained", flush=True)


main()
