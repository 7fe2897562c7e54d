#!/usr/bin/env python3
"""Chat templates and tokenizers of models, for forks.ts: questions on stdin, answers on stdout, one JSON a line.

    python templates.py TEMPLATES TOKENIZERS     needs jinja2 and tokenizers
"""
import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "test" / "templates"))
from chat_templates import compiled  # noqa: E402

MODELS = {
    "qwen2.5": ("qwen2_5", "qwen3", "", "<|im_end|>"),
    "qwen3": ("qwen3", "qwen3", "", "<|im_end|>"),
    "llama3.1": ("llama3_1", "llama3_1", "<|begin_of_text|>", "<|eot_id|>"),
}
"""Template, tokenizer, begin and end. The vocabulary of Qwen 2.5 is that of Qwen 3."""


def wire(message):
    """As vLLM gives it to templates."""
    message = dict(message)
    if isinstance(message.get("content"), list):
        message["content"] = "\n".join(part["text"] for part in message["content"])
    if message.get("tool_calls"):
        message["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}} for call in message["tool_calls"]
        ]
    return message


class Model:
    def __init__(self, name):
        template, tokenizer, self.begin, self.end = MODELS[name]
        self.template = compiled((Path(sys.argv[1]) / f"{template}.jinja").read_text())
        self.tokenizer = Tokenizer.from_file(str(Path(sys.argv[2]) / f"{tokenizer}.json"))

    def answer(self, question):
        if "ids" in question:
            return self.tokenizer.decode(question["ids"], skip_special_tokens=False)
        text = question.get("text")
        if text is None:
            text = self.template.render(
                messages=[wire(message) for message in question["messages"]],
                tools=question["tools"],
                add_generation_prompt=True,
                bos_token=self.begin,
                eos_token=self.end,
            )
        return self.tokenizer.encode(text, add_special_tokens=False).ids


models = {}
for line in sys.stdin:
    question = json.loads(line)
    name = question["model"]
    model = models[name] = models.get(name) or Model(name)
    print(json.dumps(model.answer(question)), flush=True)
