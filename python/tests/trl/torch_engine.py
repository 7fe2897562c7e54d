"""The engine of examples/learning with a torch model: what a trainer of transformers trains is what samples.

    python torch_engine.py --model FOLDER --port 0 --log engine.jsonl [--tick 0.01]

Its log has each token under the label of the engine, and a line for each load.
"""

import argparse
import threading
import time
from pathlib import Path

import torch
from engine import GREEDY, Engine, Token, likeliest
from policy import draw
from run import append, end_with_parent
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM
import wire
from wire import serve

import numpy as np


class TorchEngine(Engine):
    def __init__(self, folder, **settings):
        super().__init__({}, **settings)
        self._model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    @torch.no_grad()
    def _next(self, sequences, temperatures):
        """Float64 logprobs of the id behind each sequence."""
        longest = max(map(len, sequences))
        ids = torch.tensor([[*one, *[0] * (longest - len(one))] for one in sequences])
        # Padding follows, and attention never looks ahead.
        logits = self._model(input_ids=ids, use_cache=False).logits
        last = torch.stack([logits[row, len(one) - 1] for row, one in enumerate(sequences)]).double()
        return torch.log_softmax(last / torch.tensor(temperatures)[:, None], dim=1).numpy()

    def tick(self):
        running = self._due()
        logprobs = self._next([one.ids for one in running], [one.request.temperature or GREEDY for one in running])
        drawn = draw(logprobs, np.array([one.random.random() for one in running]))
        tokens = [
            Token(int(id), float(logprobs[row, id]), likeliest(logprobs[row], one.request.likeliest))
            for row, (one, id) in enumerate(zip(running, drawn))
        ]
        append(self._log, {"label": self.label, "tokens": [[one.request.id, token.id] for one, token in zip(running, tokens)]})
        for one, token in zip(running, tokens):
            self._take(one, token)
        self._changed.notify_all()

    def load(self, path):
        weights = load_file(Path(path) / "model.safetensors")
        with self._changed:
            self._model.load_state_dict(weights)
        append(self._log, {"loaded": path, "at": time.time()})

    def prompt_logprobs(self, ids):
        with torch.no_grad():
            logits = self._model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, :-1].double()
        return torch.log_softmax(logits, dim=1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--tick", type=float, default=0.002)
    args = parser.parse_args()
    torch.set_num_threads(1)
    # An engine that joins is asked for the ids of texts in any script.
    wire.encode = lambda text: [ord(letter) if letter.isascii() else ord("?") for letter in text]
    server = serve(TorchEngine(args.model, log=args.log, tick_s=args.tick), args.port)
    print(f"engine on http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    end_with_parent()
    threading.Event().wait()


main()
