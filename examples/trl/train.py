"""TRL's GRPOTrainer learns the cipher of examples/learning. Whatever is killed, nothing is sampled twice.

    python train.py --folder FOLDER --id ID --seed 1 [--rank 16] [--address 127.0.0.1:7233]

Started again with the same FOLDER and ID, it continues from its last checkpoint. FOLDER has the first model in ``model``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from datasets import Dataset
from durable_rollouts import Client
from durable_rollouts.integrations.trl import Publish, Rollouts, last_checkpoint, reward
from notes import Notes
from peft import LoraConfig
from qwen import tokenizer
from run import end_with_parent
from task import TRAIN, samples
from trainer import ROLLOUTS
from transformers import AutoModelForCausalLM
from trl import GRPOConfig, GRPOTrainer

STEPS = 100
ROLLOUTS_OF_STEP, REPEATS = 64, 8


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--id", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rank", type=int, default=0, help="of an adapter (LoRA), which alone is trained; 0: the whole model is")
    parser.add_argument("--address", help="default: TEMPORAL_ADDRESS, temporal.toml, 127.0.0.1:7233")
    given = parser.parse_args()
    end_with_parent()
    torch.set_num_threads(1)
    rows = [{"prompt": one["message_log"][0]["content"], **one} for one in samples(given.seed, TRAIN)]
    client = Client.connect(given.address)
    rollouts = Rollouts(client, rows, run=f"{given.id}-train", **ROLLOUTS)
    publish = Publish(rollouts, client.policy(), given.folder / "weights")
    notes = Notes(client, given.folder, id=given.id, publish=publish)
    args = GRPOConfig(
        str(given.folder / "checkpoints"),
        use_vllm=False,
        use_cpu=True,
        bf16=False,
        gradient_checkpointing=False,
        num_generations=REPEATS,
        per_device_train_batch_size=ROLLOUTS_OF_STEP,
        learning_rate=2e-3,
        lr_scheduler_type="constant",
        adam_beta2=0.99,
        max_steps=given.steps,
        save_steps=2,
        save_total_limit=2,
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
        seed=given.seed,
    )
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(given.folder / "model", dtype=torch.float32),
        processing_class=tokenizer(),
        train_dataset=Dataset.from_list([{"prompt": row["prompt"]} for row in rows]),
        rollout_func=notes.of(rollouts),
        reward_funcs=reward,
        callbacks=[publish, notes],
        peft_config=LoraConfig(r=given.rank, lora_alpha=2 * given.rank, target_modules="all-linear") if given.rank > 0 else None,
        args=args,
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))
    notes.end()


if __name__ == "__main__":
    main()
