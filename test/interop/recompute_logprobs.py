#!/usr/bin/env python3
"""What torch says of sampled tokens: their logprobs under softmax(logits / temperature), in float32.

    python recompute_logprobs.py MODEL_DIR < turns.json

Reads [{prompt_ids, token_ids, temperature}], prints a list of logprobs for each.
"""
import json
import sys

import torch
from transformers import AutoModelForCausalLM


def logprobs(model, turn):
    prompt, sampled = turn["prompt_ids"], turn["token_ids"]
    ids = torch.tensor([prompt + sampled])
    with torch.no_grad():
        logits = model(ids).logits[0, len(prompt) - 1 : -1].float()
    processed = torch.log_softmax(logits / turn["temperature"], dim=-1)
    return processed[range(len(sampled)), sampled].tolist()


model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
print(json.dumps([logprobs(model, turn) for turn in json.load(sys.stdin)]))
