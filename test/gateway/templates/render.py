#!/usr/bin/env python3
"""Renders chat templates as vLLM's /tokenize does, for record.ts: questions on stdin, texts on stdout, one JSON a line.

    python render.py FOLDER     FOLDER/<name>.jinja; needs jinja2

The templates are those of trl 1.16.0 (PyPI, trl/chat_templates; Apache-2.0).
"""
import json
import sys
from pathlib import Path

import jinja2

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "templates"))
from chat_templates import compiled_in  # noqa: E402

# (bos, eos) of each family, as its tokenizer has them.
TOKENS = {
    "cohere": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "deepseek": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"),
    "diffusion_gemma": ("<bos>", "<eos>"),
    "gemma": ("<bos>", "<eos>"),
    "lfm2": ("<|startoftext|>", "<|im_end|>"),
    "llama3": ("<|begin_of_text|>", "<|eot_id|>"),
    "llava": ("<s>", "</s>"),
    "phi3": ("<s>", "<|endoftext|>"),
}
# Their messages have lists of parts: vLLM sees that in the template.
IN_PARTS = ("idefics3", "smolvlm", "llava_next")


def wire(message, in_parts):
    message = dict(message)
    if in_parts and isinstance(message.get("content"), str):
        message["content"] = [{"type": "text", "text": message["content"]}]
    if "tool_calls" in message:
        message["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}} for call in message["tool_calls"]
        ]
    return message


def tokens_of(name):
    return next((pair for family, pair in TOKENS.items() if name.startswith(family)), ("", ""))


templates = compiled_in(Path(sys.argv[1]))
for line in sys.stdin:
    question = json.loads(line)
    template, in_parts = templates[question["name"]], question["name"] in IN_PARTS
    bos, eos = tokens_of(question["name"])
    try:
        text = template.render(
            messages=[wire(message, in_parts) for message in question["messages"]],
            tools=question["tools"],
            add_generation_prompt=question["add_generation_prompt"],
            bos_token=bos,
            eos_token=eos,
        )
        print(json.dumps({"text": text}), flush=True)
    except (jinja2.TemplateError, TypeError) as error:
        print(json.dumps({"error": str(error)[:80]}), flush=True)
