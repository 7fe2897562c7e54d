"""A training of TRL's GRPOTrainer on a tiny model, whose steps are written down.

    python train.py --folder FOLDER --store STORE --run NAME [--hand FOLDER] [--steps 3] [--rollouts 8] [--prompts 6] [--tokens 12] [--save 1] [--longest 256]

FOLDER/steps.jsonl: with which step the training begins; of each call of the rollout function its columns, and how far the ratios of the trained tokens are from 1;
then what the tensors have for which the trainer computes its loss.
FOLDER/grads-STEP.pt: the gradients. ``--hand``: the rows that another run has played are fed by hand, without this package's
integration. ``--longest``: TRL's ``max_completion_length``. ``--rank``: of an adapter, which alone is trained. ``--send``: weights
are sent, as arrays over HTTP. The training continues from its last checkpoint.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import on_cpu  # noqa: F401
import torch
from datasets import Dataset
from durable_rollouts import Client
from durable_rollouts import open as open_store
from durable_rollouts.integrations.trl import Publish, Rollouts, last_checkpoint, reward
from peft import LoraConfig
from qwen import tokenizer
from task import samples
from trainer import packed
from transformers import AutoModelForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

REPEATS = 4


def dataset(prompts):
    """Prompts of the cipher; its environment's columns are for the rollouts alone."""
    rows = samples(1, prompts)
    return Dataset.from_list(
        [{"prompt": row["message_log"][0]["content"], "extra_env_info": row["extra_env_info"], "task_name": "cipher"} for row in rows]
    )


def rank():
    return int(os.environ.get("RANK", "0"))


def world_size():
    return int(os.environ.get("WORLD_SIZE", "1"))


def line(folder, **what):
    with open(folder / (f"steps-{rank()}.jsonl" if rank() > 0 else "steps.jsonl"), "a") as file:
        file.write(json.dumps(what) + "\n")
        file.flush()
        os.fsync(file.fileno())


def send(engines, tensors):
    """As arrays, which the engine of the example takes."""
    client = engines.client()
    client.start_weight_update()
    for name, one in tensors:
        client.update_weights({"names": [name], "npz": packed({name: one.full_tensor().cpu().numpy()})})
    client.update_weights({"npz": packed({"version": np.array(engines.version)})})
    client.finish_weight_update()


def by_hand(store, ids):
    """Rows as TRL has completions, made here from the journal's own messages."""
    columns = {name: [] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask", "rollout_reward", "rollout_id")}
    for id in ids:
        [row] = open_store(store).batch(id.partition("/")[0]).rows()
        first, *rest = row["message_log"]
        flat = [
            (token, logprob, message["role"] == "assistant")
            for message in rest
            for token, logprob in zip(message["token_ids"], message.get("generation_logprobs", [0.0] * len(message["token_ids"])))
        ]
        given = {
            "prompt_ids": first["token_ids"],
            "completion_ids": [one[0] for one in flat],
            "logprobs": [one[1] for one in flat],
            "env_mask": [int(one[2]) for one in flat],
            "rollout_reward": row["total_reward"],
            "rollout_id": row["rollout_id"],
        }
        for name, value in given.items():
            columns[name].append(value)
    return columns


@torch.no_grad()
def furthest_ratio(model, columns):
    """From 1, over the trained tokens: of the trainer's own probabilities and those that the engine named."""
    furthest = 0.0
    for prompt, completion, logprobs, mask in zip(*(columns[name] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask"))):
        ids = torch.tensor([[*prompt, *completion]])
        ours = torch.log_softmax(model(input_ids=ids).logits[0, :-1].double(), dim=1).gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0]
        ratios = (ours - torch.tensor(logprobs, dtype=torch.float64)).exp()[torch.tensor(mask) > 0]
        furthest = max(furthest, float((ratios - 1).abs().max()))
    return furthest


class Told(GRPOTrainer):
    folder: Path

    def compute_loss(self, model, inputs, **more):
        """The tensors of the loss, without their padding."""
        trains = inputs["completion_mask"] * inputs["tool_mask"]
        tensors = [
            {"ids": [*prompt[seen > 0].tolist(), *completion[there > 0].tolist()], "mask": [0] * int(seen.sum()) + mask[there > 0].tolist()}
            for prompt, seen, completion, there, mask in zip(
                inputs["prompt_ids"], inputs["prompt_mask"], inputs["completion_ids"], inputs["completion_mask"], trains
            )
        ]
        line(self.folder, tensors=tensors)
        return super().compute_loss(model, inputs, **more)


class Grads(TrainerCallback):
    def __init__(self, folder):
        self.folder = folder

    def on_train_begin(self, args, state, control, **_):
        line(self.folder, begins=state.global_step, pid=os.getpid())

    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        if world_size() > 1:
            return
        grads = {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}
        torch.save(grads, self.folder / f"grads-{state.global_step}.pt")


def main():
    parser = argparse.ArgumentParser()
    for name in ("--folder", "--store", "--model"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--hand", type=Path)
    parser.add_argument("--take-over", action="store_true")
    parser.add_argument("--send", action="store_true")
    for name, default in (("--rank", 0), ("--steps", 3), ("--rollouts", 2 * REPEATS), ("--prompts", 6), ("--tokens", 12), ("--save", 1), ("--longest", 256)):
        parser.add_argument(name, type=int, default=default)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    data = dataset(args.prompts)
    callbacks = [Grads(args.folder)]
    if args.hand is None:
        client = Client.connect()
        rollouts = Rollouts(
            client,
            data,
            run=args.run,
            generation={"prompt_format": "raw", "max_new_tokens": args.tokens},
            max_seq_len=200,
            max_rollout_turns=4,
        )
        way = {"send": send} if args.send else {"folder": args.folder / "weights"}
        callbacks.append(Publish(rollouts, client.policy(), **way, take_over=args.take_over))

    def rollout_func(prompts, trainer):
        step = trainer.state.global_step
        if args.hand is None:
            line(args.folder, asked=step)
            columns = rollouts(prompts, trainer)
        else:
            told = [json.loads(one) for one in (args.hand / "steps.jsonl").read_text().splitlines()]
            ids = next(one["columns"]["rollout_id"] for one in told if one.get("step") == step)
            columns = by_hand(args.store, ids)
        line(args.folder, step=step, columns=columns, furthest=furthest_ratio(trainer.model, columns))
        return columns

    model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
    Told.folder = args.folder
    trainer = Told(
        model=model,
        processing_class=tokenizer(),
        reward_funcs=reward,
        rollout_func=rollout_func,
        train_dataset=data,
        callbacks=callbacks,
        peft_config=LoraConfig(r=args.rank, lora_alpha=2 * args.rank, target_modules="all-linear") if args.rank > 0 else None,
        args=GRPOConfig(
            output_dir=str(args.folder / "checkpoints"),
            use_vllm=False,
            # DeepSpeed has CPUs as devices of its own.
            use_cpu=os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true",
            bf16=False,
            num_generations=REPEATS,
            per_device_train_batch_size=args.rollouts // world_size(),
            gradient_accumulation_steps=1,
            max_completion_length=args.longest,
            max_steps=args.steps,
            save_steps=args.save,
            logging_steps=1,
            learning_rate=1e-3,
            seed=7,
            report_to=[],
            disable_tqdm=True,
        ),
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(args.folder / "checkpoints"))
    losses = {one["step"]: {name: one[name] for name in ("loss", "grad_norm", "reward")} for one in trainer.state.log_history if "loss" in one}
    print(json.dumps(losses))


main()
