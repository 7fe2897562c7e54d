"""Sleep for a vLLM on a CPU, which has none: routes, scheduler and executor are vLLM's own, the memory is not.

Weights that sleep are NaN, so whatever computes with them shows it. Level 1 keeps a copy of them, level 2 keeps none.
vLLM loads this as a plugin (``tiny-vllm.sh``); ``--enable-sleep-mode`` makes use of it.
"""

from __future__ import annotations

import torch


@torch.no_grad()
def sleep(worker, level: int = 1) -> None:
    model = worker.model_runner.model
    kept = {name: one.clone() for name, one in model.named_parameters()} if level == 1 else {}
    worker.kept_while_asleep = kept
    for one in model.parameters():
        one.fill_(torch.nan)


@torch.no_grad()
def wake_up(worker, tags: list[str] | None = None) -> None:
    if tags is not None and "weights" not in tags:
        return
    weights = dict(worker.model_runner.model.named_parameters())
    for name, one in worker.kept_while_asleep.items():
        weights[name].copy_(one)
    worker.kept_while_asleep = {}


def register() -> None:
    from vllm.platforms.cpu import CpuPlatform
    from vllm.v1.worker.gpu_worker import Worker

    CpuPlatform.is_sleep_mode_available = lambda self: True
    Worker.sleep, Worker.wake_up = sleep, wake_up
