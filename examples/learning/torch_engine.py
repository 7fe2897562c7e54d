"""The engine of examples/learning with a torch model: what a trainer of transformers trains is what samples.

    python torch_engine.py --model FOLDER --port 8000 --log engine.jsonl [--tick 0.01]

Wire and log are the same; the log has a line for each load, too. A version is a folder with that name.
"""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, DynamicCache

from engine import GREEDY, Engine
from policy import draw
from run import append, end_with_parent
from wire import serve

Seen = List[Tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of the ids of a sequence, a pair for each layer: ``(heads, ids, size)``."""


class Sampler:
    """What comes next in many sequences, each of which only grows. The keys and values of earlier ids are kept."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._seen: Dict[str, Seen] = {}

    def forget(self) -> None:
        """For other weights."""
        self._seen.clear()

    @torch.no_grad()
    def next(self, sequences: Dict[str, List[int]], temperatures: List[float]) -> np.ndarray:
        """Float64 logprobs of the id behind each one. A sequence that is not named is forgotten."""
        self._seen = {name: seen for name, seen in self._seen.items() if name in sequences}
        self._read({name: ids[:-1] for name, ids in sequences.items() if name not in self._seen and len(ids) > 1})
        logits = self._step(sequences).double() / torch.tensor(temperatures, dtype=torch.float64)[:, None]
        return torch.log_softmax(logits, dim=1).numpy()

    def _read(self, sequences: Dict[str, List[int]]) -> None:
        if not sequences:
            return
        longest = max(map(len, sequences.values()))
        # Padding follows, and attention never looks ahead.
        ids = torch.tensor([[*one, *[0] * (longest - len(one))] for one in sequences.values()])
        layers = self._model(input_ids=ids, use_cache=True).past_key_values.layers
        for row, (name, one) in enumerate(sequences.items()):
            self._seen[name] = [(layer.keys[row, :, : len(one)], layer.values[row, :, : len(one)]) for layer in layers]

    def _step(self, sequences: Dict[str, List[int]]) -> torch.Tensor:
        """The last id of each one: its logits. What stands before it is padded on the left."""
        lengths = [len(ids) - 1 for ids in sequences.values()]
        longest = max(lengths)
        cache = DynamicCache()
        for layer in range(len(next(iter(self._seen.values()), []))):
            keys, values = (torch.stack([_padded(self._seen[name][layer][part], longest) for name in sequences]) for part in (0, 1))
            cache.update(keys, values, layer)
        answer = self._model(
            input_ids=torch.tensor([ids[-1:] for ids in sequences.values()]),
            attention_mask=torch.tensor([[0] * (longest - length) + [1] * (length + 1) for length in lengths]),
            position_ids=torch.tensor(lengths)[:, None],
            past_key_values=cache,
            use_cache=True,
        )
        for row, (name, length) in enumerate(zip(sequences, lengths)):
            self._seen[name] = [(layer.keys[row, :, longest - length :], layer.values[row, :, longest - length :]) for layer in cache.layers]
        return answer.logits[:, -1]


def _padded(seen: torch.Tensor, longest: int) -> torch.Tensor:
    return torch.nn.functional.pad(seen, (0, 0, longest - seen.shape[1], 0))


class TorchEngine(Engine):
    def __init__(self, folder: Path, *, log: Path, tick_s: float) -> None:
        super().__init__({}, log=log, tick_s=tick_s)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._sampler = Sampler(self._model)

    def tick(self) -> None:
        running = self._due()
        temperatures = [one.request.temperature or GREEDY for one in running]
        logprobs = self._sampler.next({one.name: one.ids for one in running}, temperatures)
        self._pass_on(running, logprobs, draw(logprobs, np.array([one.random.random() for one in running])))

    def load(self, path: str) -> None:
        weights = load_file(Path(path) / "model.safetensors")
        with self._changed:
            self._model.load_state_dict(weights)
            self._sampler.forget()
            self._version = Path(path).name
            append(self._log, {"loaded": path, "at": time.time()})

    def prompt_logprobs(self, ids: List[int]) -> List[float]:
        with torch.no_grad():
            logits = self._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1].double()
        found: List[float] = torch.log_softmax(logits, dim=1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="0: a free one")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--tick", type=float, default=0.01, help="seconds between two tokens")
    args = parser.parse_args()
    torch.set_num_threads(1)
    server = serve(TorchEngine(args.model, log=args.log, tick_s=args.tick), args.port)
    print(f"engine on http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    end_with_parent()
    threading.Event().wait()


if __name__ == "__main__":
    main()
