"""SkyRL's own trainer on a CPU: its experiment, loop, data loader, FSDP worker in a Ray actor, loss, optimizer, checkpoints and
export. Only CUDA and flash-attn are not there (on_cpu.py).

    python train.py --folder FOLDER --model MODEL --data train.parquet --run NAME --steps 3

FOLDER/steps.jsonl has what each step trained on.
"""

import argparse
import json
import os
from pathlib import Path

import torch
from durable_rollouts.integrations.skyrl.experiment import DurableExp, config_of
from on_cpu import PolicyWorker
from ray_node import begin_ray
from skyrl.train.dataset import PromptDataset

TEMPERATURE = 0.9


class Exp(DurableExp):
    """SkyRL's workers get no GPU, and FOLDER/steps.jsonl has their batches."""

    def get_train_dataset(self):
        # SkyRL measures prompts by a template, which the model does not have, in eight processes.
        self.tokenizer.chat_template = "{% for one in messages %}{{ one.content }}{% endfor %}"
        return PromptDataset(self.cfg.data.train_data, self.tokenizer, self.cfg.trainer.max_prompt_length, num_workers=1)

    def get_eval_dataset(self):
        return self.train_dataset

    def get_trainer(self, **given):
        trainer = super().get_trainer(**given)
        build, worth, train = trainer.build_models, trainer.compute_advantages_and_returns, trainer.train_critic_and_policy
        found = {}

        def before(batch):
            found.update(uids=list(batch.metadata["uids"]), rewards=batch["rewards"].clone())
            return worth(batch)

        def trained(batch):
            with open(Path(self.cfg.trainer.export_path) / "steps.jsonl", "a") as file:
                file.write(json.dumps({"step": trainer.global_step, **step_of({**batch, **found})}) + "\n")
                file.flush()
                os.fsync(file.fileno())
            return train(batch)

        trainer.build_models = lambda *_: build(PolicyWorker, None, None)
        trainer.compute_advantages_and_returns, trainer.train_critic_and_policy = before, trained
        return trainer


def step_of(batch):
    """Its sequences without padding, and how far the trainer's logprobs are from the engine's."""
    lengths, responses = batch["attention_mask"].sum(dim=1).tolist(), batch["response_mask"].sum(dim=1).tolist()
    apart = (batch["rollout_logprobs"] - batch["action_log_probs"]).abs()[batch["loss_mask"] > 0]
    names = {"mask": "loss_mask", "logprobs": "rollout_logprobs", "rewards": "rewards", "advantages": "advantages"}
    sequences = [
        {
            "uid": batch["uids"][at],
            "prompt": batch["sequences"][at, -length:-response].tolist(),
            "response": batch["sequences"][at, -response:].tolist(),
            **{name: batch[field][at, -response:].tolist() for name, field in names.items()},
        }
        for at, (length, response) in enumerate(zip(lengths, responses))
    ]
    return {"furthest": float(apart.max()), "sequences": sequences}


def config(args):
    given = {
        "durable.weights": args.folder / "weights",
        "durable.settings.max_seq_len": 64,
        "durable.settings.generation.prompt_format": "raw",
        "trainer.policy.model.path": args.model,
        "trainer.run_name": args.run,
        "trainer.placement.colocate_all": False,
        "trainer.placement.colocate_policy_ref": False,
        "trainer.placement.policy_num_gpus_per_node": 1,
        "trainer.algorithm.use_kl_loss": False,
        "trainer.algorithm.advantage_estimator": "grpo",
        "trainer.policy.optimizer_config.lr": 1e-3,
        "trainer.policy.fsdp_config.mixed_precision.param_dtype": "fp32",
        "trainer.flash_attn": False,
        "trainer.remove_microbatch_padding": False,
        "trainer.gradient_checkpointing": False,
        "trainer.train_batch_size": 2,
        "trainer.policy_mini_batch_size": 2,
        "trainer.micro_train_batch_size_per_gpu": 4,
        "trainer.micro_forward_batch_size_per_gpu": 4,
        "trainer.max_prompt_length": 16,
        "trainer.max_training_steps": args.steps,
        "trainer.ckpt_interval": 2,
        "trainer.ckpt_path": args.folder / "checkpoints",
        "trainer.export_path": args.folder,
        "trainer.log_path": args.folder / "logs",
        "trainer.eval_interval": args.steps,
        "trainer.eval_before_train": False,
        "trainer.eval_batch_size": 16,
        "trainer.logger": "console",
        "trainer.enable_ray_gpu_monitor": False,
        "generator.inference_engine.enable_ray_prometheus_stats": False,
        "generator.n_samples_per_prompt": 4,
        "generator.max_turns": 4,
        "generator.max_input_length": 52,
        "generator.sampling_params.max_generate_length": 12,
        "generator.sampling_params.temperature": TEMPERATURE,
        "data.train_data": f"[{args.data}]",
        "data.dataloader.num_workers": 0,
    }
    return config_of([f"{name}={value}" for name, value in given.items()])


def main():
    parser = argparse.ArgumentParser()
    for name in ("folder", "model", "data"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--steps", type=int, required=True)
    args = parser.parse_args()
    torch.set_num_threads(1)
    cfg = config(args)
    # With a GPU that Ray only counts.
    begin_ray(num_cpus=4, num_gpus=1)
    # Not in a process of Ray's, so that the replaced parts are SkyRL's here.
    Exp(cfg).run()
    print("trained", flush=True)


if __name__ == "__main__":
    main()
