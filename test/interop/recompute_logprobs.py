#!/usr/bin/env python3
"""What torch says of sampled tokens: their logprobs under softmax(logits / temperature), in float32.

    python recompute_logprobs.py MODEL_DIR < turns.json

Reads [{prompt_ids, token_ids, temperature, pictures?, checkpoint?}], prints a list of logprobs for each. `pictures` are
the data: URLs of the pictures that the prompt has ids for, in order; `checkpoint` is the folder of another model.
"""
import base64
import functools
import io
import json
import sys

import torch
from transformers import AutoConfig, AutoModelForCausalLM


def logprobs(model, turn, seen):
    prompt, sampled = turn["prompt_ids"], turn["token_ids"]
    ids = torch.tensor([prompt + sampled])
    with torch.no_grad():
        logits = model(ids, **seen(ids, turn)).logits[0, len(prompt) - 1 : -1].float()
    processed = torch.log_softmax(logits / turn["temperature"], dim=-1)
    return processed[range(len(sampled)), sampled].tolist()


def text_model(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), lambda ids, turn: {}


def vision_model(folder):
    from PIL import Image
    from transformers import AutoImageProcessor, AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    processor = AutoImageProcessor.from_pretrained(folder)

    def opened(url):
        return Image.open(io.BytesIO(base64.b64decode(url.split(",", 1)[1]))).convert("RGB")

    def seen(ids, turn):
        pictures = [opened(url) for url in turn.get("pictures", [])]
        if not pictures:
            return {}
        kinds = (ids == model.config.image_token_id).int()
        return {**processor(images=pictures, return_tensors="pt"), "mm_token_type_ids": kinds}

    return model, seen


@functools.lru_cache(maxsize=None)
def opened(folder):
    has_pictures = getattr(AutoConfig.from_pretrained(folder), "vision_config", None) is not None
    return (vision_model if has_pictures else text_model)(folder)


def asked(turn):
    model, seen = opened(turn.get("checkpoint", sys.argv[1]))
    return logprobs(model, turn, seen)


print(json.dumps([asked(turn) for turn in json.load(sys.stdin)]))
