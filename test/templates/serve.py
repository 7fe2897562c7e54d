#!/usr/bin/env python3
"""Renders chat templates as vLLM's /tokenize does, for record.ts. Needs jinja2.

    python serve.py FOLDER PORT     each FOLDER/<name>.jinja is served below http://127.0.0.1:PORT/<name>/

The templates are those of trl 1.16 (PyPI, trl/chat_templates) and, as mistral_small.jinja, of llama.cpp's
models/templates: mistralai-Mistral-Small-3.1-24B-Instruct-2503.jinja.
Ids are the bytes of UTF-8; the special tokens that a template's family has are one id each, from 256 on.
"""
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jinja2

from chat_templates import compiled_in

SPECIAL = [
    "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|eot_id|>", "<|eom_id|>", "<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<|start|>", "<|end|>",
    "<|return|>", "<|message|>", "<|channel|>", "<s>", "</s>", "[INST]", "[/INST]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]",
]
PATTERN = re.compile("(" + "|".join(re.escape(token) for token in SPECIAL) + ")")
BOS = {"gemma": "<bos>", "gemma3": "<bos>", "llama3": "<|begin_of_text|>", "llama3_1": "<|begin_of_text|>", "mistral_small": "<s>"}
EOS = {"mistral_small": "</s>"}


def encode(text):
    ids = []
    for part in PATTERN.split(text):
        ids.extend([256 + SPECIAL.index(part)] if part in SPECIAL else part.encode())
    return ids


def decode(ids):
    return b"".join(SPECIAL[i - 256].encode() if i >= 256 else bytes([i]) for i in ids).decode(errors="replace")


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        _, name, call = self.path.split("/")
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        try:
            self.answer(200, {"prompt": decode(body["tokens"])} if call == "detokenize" else {"tokens": encode(self.text(name, body))})
        except jinja2.TemplateError as error:
            self.answer(400, {"error": {"message": str(error), "type": "BadRequestError", "param": None, "code": 400}})

    def text(self, name, body):
        if "prompt" in body:
            return body["prompt"]
        return self.server.templates[name].render(
            messages=body["messages"], add_generation_prompt=body["add_generation_prompt"], bos_token=BOS.get(name, ""),
            eos_token=EOS.get(name, ""), **body["chat_template_kwargs"],
        )

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


if __name__ == "__main__":
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2])), Handler)
    server.templates = compiled_in(Path(sys.argv[1]))
    server.serve_forever()
