"""The trainer of check.py: a model, a step, and what the model says of sampled tokens."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Dict, List

from engine import INTEROP, Case

CHANGE = 0.1
"""Of each weight by a step: more than FP8 rounds."""


class Trainer:
    """A model, with the weights of each version that engines were sent."""

    def __init__(self, model: str, case: Case, folder: Path) -> None:
        import torch
        from transformers import AutoModelForCausalLM

        self._device, dtype = ("cuda:0", torch.bfloat16) if case.gpus > 0 else ("cpu", torch.float32)
        self.model = AutoModelForCausalLM.from_pretrained(model if case.gpus > 0 else tiny_model(), dtype=dtype).to(self._device)
        self._folder = folder
        self.kept: Dict[int, Dict[str, Any]] = {}
        torch.manual_seed(0)

    @property
    def bytes(self) -> int:
        return sum(one.numel() * one.element_size() for one in self.model.parameters())

    def keep(self, version: int) -> None:
        self.kept[version] = {name: one.detach().cpu().clone() for name, one in self.model.state_dict().items()}

    def step(self) -> None:
        """Uses the memory of a real one, and changes each weight at random."""
        import torch

        ids = torch.randint(3, 500, (4, 400), device=self._device)
        self.model(input_ids=ids, labels=ids).loss.backward()
        self.model.zero_grad(set_to_none=True)
        with torch.no_grad():
            for one in self.model.parameters():
                one.mul_(1 + CHANGE * torch.randn_like(one))
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def save(self) -> str:
        path = self._folder / f"checkpoint-{len(self.kept) + 1}"
        self.model.save_pretrained(path)
        return str(path)

    def logprobs(self, version: int, sequences: List[Any]) -> List[Any]:
        """Under the weights of a version, of each sampled id."""
        import numpy as np
        import torch

        now = {name: one.detach().clone() for name, one in self.model.state_dict().items()}
        self.model.load_state_dict(self.kept[version])
        found = []
        for one in sequences:
            ids = torch.tensor(np.concatenate([one.prompt_ids, one.completion_ids]), dtype=torch.long, device=self._device)
            with torch.no_grad():
                logits = self.model(input_ids=ids[None]).logits[0, len(one.prompt_ids) - 1 : -1].float()
            sampled = ids[len(one.prompt_ids) :, None]
            found.append((logits.gather(1, sampled)[:, 0] - logits.logsumexp(1)).cpu().numpy())
        self.model.load_state_dict(now)
        return found


def init_of(backend: str) -> Any:
    """What makes the connection; None: NCCL on a free port."""
    if backend == "ipc":
        from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

        return lambda ranks: IPCTrainerInitInfo(rank=0)
    if backend == "tcp":
        sys.path.insert(0, str(INTEROP / "tcp-transfer"))
        from tcp_transfer import TcpTrainerInitInfo, register

        register()
        return lambda ranks: TcpTrainerInitInfo(engines=ranks - 1, rank=0)
    return None


def free_memory() -> int:
    import torch

    return int(torch.cuda.mem_get_info(0)[0]) if torch.cuda.is_available() else 0


def tiny_model() -> Path:
    """Where tiny-vllm.sh has it."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("TINY_VLLM_DIR") or cache / "durable-rollouts" / "tiny-vllm") / "model"
