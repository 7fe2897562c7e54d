"""verl's own trainer, V1, on a CPU: its loop, data loader, replay buffer, queue, agent-loop workers, checkpoints, advantages and
metrics. Its workers with GPUs are replaced: a tiny model trains in this process, and an engine of the tests is its replica.

    python train.py --folder FOLDER --model MODEL --url http://127.0.0.1:8000/v1 --data train.parquet --steps 4

FOLDER/steps.jsonl has what each step trained on, and each number of steps whose weights were synced.
"""

import argparse
import json
import os
import urllib.request
from pathlib import Path

import ray
import torch
import transfer_queue as tq
from hydra import compose, initialize_config_module
from ray_node import begin_ray
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from verl.checkpoint_engine import CheckpointEngineManager
from verl.trainer.main_ppo import TaskRunnerV1
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.config import omega_conf_to_dataclass

AGENT = Path(__file__).parent / "agent.yaml"
TEMPERATURE = 0.9
RESPONSE_LENGTH = 16
"""Less than many rollouts have (agent.yaml): nothing is cut at it."""


class Log:
    def __init__(self, folder):
        self._path = folder / "steps.jsonl"

    def add(self, line):
        with open(self._path, "a") as file:
            file.write(json.dumps(line) + "\n")
            file.flush()
            os.fsync(file.fileno())


class Replica:
    """verl starts a vLLM here."""

    def __init__(self, url):
        self.server_address = url.removeprefix("http://").removesuffix("/v1")

    async def sleep(self):
        """As one with ``free_cache_engine=False``: it stays awake."""

    async def resume_generation(self):
        """The engine of the tests has no gate of verl's."""

    async def abort_all_requests(self, reject_request=False):
        """Likewise."""


class Actor:
    """What verl's trainer calls of its workers."""

    _dispatch_info = {"actor": [0]}
    world_size = 1

    def __init__(self, args, log):
        torch.manual_seed(1)
        self._model = AutoModelForCausalLM.from_pretrained(args.model, dtype=torch.float32)
        self._optimizer = torch.optim.Adam(self._model.parameters(), lr=1e-3)
        self._folder, self._url, self._log = args.folder, args.url, log

    def update_weights(self, global_steps=None, mode="auto"):
        assert mode == "naive", mode
        folder = self._folder / "weights" / str(global_steps)
        folder.mkdir(parents=True, exist_ok=True)
        save_file({name: one.detach().clone() for name, one in self._model.state_dict().items()}, folder / "model.safetensors")
        body = json.dumps({"method": "reload_weights", "kwargs": {"weights_path": str(folder)}}).encode()
        request = urllib.request.Request(self._url.removesuffix("/v1") + "/collective_rpc", data=body, method="POST")
        urllib.request.urlopen(request, timeout=60).close()
        self._log.add({"synced": global_steps})
        return [ray.put(None)]

    def load_checkpoint(self, local_path, del_local_after_load):
        saved = torch.load(Path(local_path) / "actor.pt")
        self._model.load_state_dict(saved["model"])
        self._optimizer.load_state_dict(saved["optimizer"])

    def save_checkpoint(self, local_path, remote_path, step, max_ckpt_to_keep=None):
        Path(local_path).mkdir(parents=True, exist_ok=True)
        torch.save({"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}, Path(local_path) / "actor.pt")

    def update_actor(self, batch):
        fields = ["prompts", "responses", "input_ids", "response_mask", "loss_mask", "old_log_probs", "advantages", "rm_scores"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        furthest, sequences = 0.0, []
        for at, tag in enumerate(batch.tags):
            one = {name: data[name][at] for name in fields}
            if tag.get("is_padding", False):
                continue
            loss, distance = self._trained_on(one)
            loss.backward()
            furthest = max(furthest, distance)
            names = {"prompt": "prompts", "response": "responses", "mask": "loss_mask", "logprobs": "old_log_probs", "rewards": "rm_scores"}
            listed = {name: one[field].tolist() for name, field in names.items()}
            steps = [tag["min_global_steps"], tag["max_global_steps"]]
            sequences.append({**listed, "advantages": one["advantages"].tolist(), "steps": steps, "key": batch.keys[at]})
        self._optimizer.step()
        self._optimizer.zero_grad()
        self._log.add({"step": batch.tags[0]["global_steps"], "furthest": furthest, "sequences": sequences})
        return Metrics({"metrics": {"mfu": [0.0], "loss": [0.0]}})

    def _trained_on(self, one):
        """Minus ratio times advantage, and how far a ratio is from 1."""
        assert torch.equal(one["input_ids"], torch.cat([one["prompts"], one["responses"]]))
        first, mask = len(one["prompts"]), one["response_mask"].bool()
        logits = self._model(input_ids=one["input_ids"][None], use_cache=False).logits[0, first - 1 : -1].double() / TEMPERATURE
        logprobs = torch.log_softmax(logits, dim=1).gather(1, one["responses"][:, None])[:, 0]
        ratios = (logprobs - one["old_log_probs"].double()).exp()[mask]
        return -(ratios * one["advantages"][mask]).sum(), float((ratios.detach() - 1).abs().max())


class Metrics(dict):
    def get(self, *key):
        """A future of verl's, without a key."""
        return super().get(*key) if key else self


class Servers:
    def __init__(self, replica):
        self._replica = replica

    def get_replicas(self):
        return [self._replica]

    def get_client(self, **_):
        """Nobody asks verl's client."""


class Pool:
    def get_n_gpus(self):
        return 1


class Rewards:
    reward_loop_worker_handles = ()


def without_gpus(args, log):
    def setup(self):
        self._init_tokenizer()
        self._init_dataloader()
        self._init_dump_executor()
        self.resource_pool_manager, self.reward_loop_manager = Pool(), Rewards()
        self.actor_rollout_wg = Actor(args, log)
        self.llm_server_manager = Servers(Replica(args.url))
        config = omega_conf_to_dataclass(self.config.actor_rollout_ref.rollout.checkpoint_engine)
        self.checkpoint_manager = CheckpointEngineManager(config, self.actor_rollout_wg, self.llm_server_manager.get_replicas())
        self.checkpoint_manager.sleep_replicas()
        self._load_checkpoint()

    return setup


def config_of(args):
    given = {
        "actor_rollout_ref.model.path": args.model,
        "actor_rollout_ref.rollout.name": "vllm",
        "actor_rollout_ref.rollout.free_cache_engine": False,
        "actor_rollout_ref.rollout.n": 4,
        "actor_rollout_ref.rollout.temperature": TEMPERATURE,
        "actor_rollout_ref.rollout.prompt_length": 16,
        "actor_rollout_ref.rollout.response_length": RESPONSE_LENGTH,
        "actor_rollout_ref.rollout.agent.num_workers": 2,
        "actor_rollout_ref.rollout.agent.agent_loop_config_path": AGENT,
        "actor_rollout_ref.rollout.agent.default_agent_loop": "durable",
        "actor_rollout_ref.actor.ppo_mini_batch_size": 2,
        "algorithm.adv_estimator": "grpo",
        "algorithm.rollout_correction.bypass_mode": True,
        "data.train_files": args.data,
        "data.val_files": args.data,
        "data.train_batch_size": 2,
        "data.val_max_samples": 2,
        "data.filter_overlong_prompts": False,
        "data.dataloader_num_workers": 0,
        "data.shuffle": True,
        "data.seed": 1,
        "trainer.v1.trainer_mode": args.mode,
        "trainer.experiment_name": args.run,
        "trainer.logger": "[console]",
        "trainer.total_training_steps": args.steps,
        "trainer.save_freq": 2,
        "trainer.test_freq": args.steps,
        "trainer.val_before_train": False,
        "trainer.default_local_dir": args.folder / "checkpoints",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
    }
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=[f"{name}={value}" for name, value in given.items()])


def main():
    parser = argparse.ArgumentParser()
    for name in ("folder", "model", "data"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--run", required=True)
    parser.add_argument("--mode", default="durable_sync")
    parser.add_argument("--steps", type=int, required=True)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    PPOTrainer._setup = without_gpus(args, Log(args.folder))
    # An actor of verl's asks for a CPU; they share those that there are.
    begin_ray(num_cpus=16)
    # Not in a process of its own, so that the replaced parts are verl's here.
    TaskRunnerV1.__ray_metadata__.modified_class().run(config_of(args))
    print("trained", flush=True)


if __name__ == "__main__":
    main()
