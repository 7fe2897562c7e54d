"""What a training says of itself, in the files of examples/learning: its board, its check and its plot read them."""

from __future__ import annotations

import hashlib
import json
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence

import numpy as np
import torch
from durable_rollouts import Client, NotFound
from durable_rollouts.integrations.trl import Publish
from run import Run
from trainer import HELD_OUT_EVERY, ROLLOUTS, of_held_out
from transformers import TrainerCallback

Columns = Dict[str, List[Any]]
MEASURED = 8
"""Rollouts of a step whose importance ratios are computed, which costs another pass through the model."""


class Notes(TrainerCallback):  # type: ignore[misc]
    def __init__(self, client: Client, folder: Path, *, id: str, publish: Publish) -> None:
        self._client, self._id, self._publish = client, id, publish
        self._run = Run(folder)
        self._evaluated = {line["step"] for line in self._run.noted("held_out")}
        self._evaluations: List[threading.Thread] = []

    def of(self, rollouts: Callable[[Sequence[Any], Any], Columns]) -> Callable[[Sequence[Any], Any], Columns]:
        """The same function, which notes what it has returned."""

        def noted(prompts: Sequence[Any], trainer: Any) -> Columns:
            columns = rollouts(prompts, trainer)
            self._step(trainer, columns)
            return columns

        return noted

    def _step(self, trainer: Any, columns: Columns) -> None:
        ratios = ratios_of(trainer.model, columns)
        version = int(self._client.policy().status()["record"]["version"] or 0)
        text = json.dumps([columns["rollout_id"], columns["completion_ids"], columns["logprobs"]])
        tokens = int(sum(map(sum, columns["env_mask"])))
        self._run.note(
            "step",
            step=trainer.state.global_step,
            version=version,
            rollouts=columns["rollout_id"],
            sha256=hashlib.sha256(text.encode()).hexdigest(),
            reward=float(np.mean(columns["rollout_reward"])),
            tokens=tokens,
            length=tokens / len(columns["rollout_id"]),
            ratio=float(ratios.mean()),
            ratio_error=float(np.abs(ratios - 1).max()),
            current=len(ratios),
            # The check reads it from the rows.
            lag=0.0,
            lag_max=0,
        )

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._run.note("start", step=state.global_step)
        self._evaluate(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._evaluate(state.global_step)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._evaluate(state.global_step)

    def _evaluate(self, step: int) -> None:
        """A batch, which outlives this process: with the weights that were just published, while no others are."""
        if step % HELD_OUT_EVERY != 0 or step in self._evaluated:
            return
        id = f"{self._id}-held-out-{step}"
        # The engines begin with the weights of step 0. While steps are replayed they have later ones.
        if step > 0 and not self._publish.are_served and not self._has_begun(id):
            return
        self._evaluated.add(step)
        batch = self._client.start_batch({**ROLLOUTS, "samples": {"path": f"{self._id}/held-out.jsonl"}}, id)
        self._evaluations.append(threading.Thread(target=lambda: self._run.note("held_out", step=step, **of_held_out(batch.rows())), daemon=True))
        self._evaluations[-1].start()

    def _has_begun(self, id: str) -> bool:
        try:
            self._client.batch(id).progress()
        except (NotFound, TimeoutError):
            return False
        return True

    def end(self) -> None:
        for one in self._evaluations:
            one.join()
        self._run.note("end", step=-1)


@torch.no_grad()
def ratios_of(model: Any, columns: Columns) -> np.ndarray:
    """Of the trainer's own probabilities and those that the engine named, for the trained tokens of some rollouts."""
    found = []
    for prompt, completion, logprobs, mask in list(zip(*(columns[name] for name in ("prompt_ids", "completion_ids", "logprobs", "env_mask"))))[:MEASURED]:
        ids = torch.tensor([[*prompt, *completion]])
        ours = torch.log_softmax(model(input_ids=ids).logits[0, :-1].double(), dim=1).gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0]
        found.append((ours - torch.tensor(logprobs, dtype=torch.float64)).exp()[torch.tensor(mask) > 0].numpy())
    return np.concatenate(found)
