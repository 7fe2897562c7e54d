"""The engine of examples/learning with a torch model: what a trainer of transformers trains is what samples.

    python torch_engine.py --model FOLDER --port 8000 --log engine.jsonl [--tick 0.01] [--max-lora-rank 8]

Wire and log are the same; the log has a line for each load and each pause, too. A version is a folder with that name. With
``--max-lora-rank`` it loads adapters, as PEFT writes them, beside the weights.
"""

from __future__ import annotations

import argparse
import copy
import json
import threading
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, DynamicCache

from engine import GREEDY, Engine
from model import Weights
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

    @torch.no_grad()
    def prompt_logprobs(self, ids: List[int]) -> List[float]:
        """Of all ids but the first."""
        logits = self._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1].double()
        found: List[float] = torch.log_softmax(logits, dim=1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()
        return found

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
    def __init__(self, folder: Path, *, log: Path, tick_s: float, most_rank: int = 0) -> None:
        super().__init__({}, log=log, tick_s=tick_s)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self._sampler = Sampler(self._model)
        self._most_rank = most_rank
        self.takes_adapters = most_rank > 0
        self._adapters: Dict[str, Tuple[Sampler, str]] = {}
        """With their versions. An adapter is a model of its own: it is added to a copy of the weights."""

    def tick(self) -> None:
        """A sequence whose adapter is gone ends."""
        for name in {one.request.adapter for one in self._due()}:
            running = [one for one in self._due() if one.request.adapter == name]
            found = (self._sampler, None) if name is None else self._adapters.get(name)
            if found is None:
                for one in running:
                    one.emit([], "abort", None)
                    self._leave(one)
                continue
            sampler, version = found
            temperatures = [one.request.temperature or GREEDY for one in running]
            logprobs = sampler.next({one.name: one.ids for one in running}, temperatures)
            self._pass_on(running, logprobs, draw(logprobs, np.array([one.random.random() for one in running])), version)

    def pause(self, mode: str) -> None:
        append(self._log, {"paused": mode, "at": time.time()})
        super().pause(mode)

    def load(self, path: str) -> None:
        weights = load_file(Path(path) / "model.safetensors")
        with self._changed:
            self._model.load_state_dict(weights)
            self._sampler.forget()
            self._version = Path(path).name
            append(self._log, {"loaded": path, "at": time.time()})

    def _take_weights(self, arrays: Weights) -> None:
        """Those that a trainer has sent."""
        version = str(int(arrays.pop("version")))
        with self._changed:
            self._model.load_state_dict({name: torch.from_numpy(array) for name, array in arrays.items()})
            self._sampler.forget()
            self._version = version

    @property
    def adapters(self) -> List[str]:
        return list(self._adapters)

    def load_adapter(self, name: str, path: str) -> None:
        model = with_adapter(self._model, Path(path), self._most_rank)
        with self._changed:
            self._adapters[name] = (Sampler(model), Path(path).name)
            append(self._log, {"loaded": path, "at": time.time()})

    def unload_adapter(self, name: str) -> None:
        with self._changed:
            del self._adapters[name]

    def prompt_logprobs(self, ids: List[int], adapter: Optional[str] = None) -> List[float]:
        sampler = self._sampler if adapter is None else self._adapters[adapter][0]
        return sampler.prompt_logprobs(ids)


@torch.no_grad()
def with_adapter(model: Any, folder: Path, most_rank: int) -> Any:
    """A copy of the model, with a LoRA adapter of PEFT added to it. Raises ``ValueError`` for what it does not take."""
    settings = json.loads((folder / "adapter_config.json").read_text())
    if settings["r"] > most_rank:
        raise ValueError(f"LoRA rank {settings['r']} is greater than max_lora_rank {most_rank}.")
    merged, factors = copy.deepcopy(model), load_file(folder / "adapter_model.safetensors")
    for name, a in factors.items():
        place, _, factor = name.removeprefix("base_model.model.").rpartition(".lora_")
        if factor == "A.weight":
            b = factors[name.replace(".lora_A.", ".lora_B.")]
            merged.get_parameter(f"{place}.weight").add_(settings["lora_alpha"] / settings["r"] * (b @ a))
        elif factor != "B.weight":
            raise ValueError(f"expected factors of layers, got {name}")
    return merged


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True, help="0: a free one")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--tick", type=float, default=0.01, help="seconds between two tokens")
    parser.add_argument("--max-lora-rank", type=int, default=0, help="0: it takes no adapters")
    args = parser.parse_args()
    torch.set_num_threads(1)
    server = serve(TorchEngine(args.model, log=args.log, tick_s=args.tick, most_rank=args.max_lora_rank), args.port)
    print(f"engine on http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    end_with_parent()
    threading.Event().wait()


if __name__ == "__main__":
    main()
