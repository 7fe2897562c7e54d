#!/usr/bin/env python3
"""Renders chat templates as vLLM's /tokenize does, for record.ts. Needs jinja2.

    python serve.py FOLDER PORT     each FOLDER/<name>.jinja is served below http://127.0.0.1:PORT/<name>/

Ids are the bytes of UTF-8; the special tokens that a template's family has are one id each, from 256 on.
"""
import datetime
import json
import re
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

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


def refuse(message):
    raise jinja2.TemplateError(message)


def compiled(source):
    """The settings of transformers' apply_chat_template."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    environment.filters["tojson"] = lambda x, **more: json.dumps(x, ensure_ascii=False, indent=more.get("indent"))
    environment.globals["raise_exception"] = refuse
    # The date of every rendering is the same.
    environment.globals["strftime_now"] = lambda form: datetime.datetime(2026, 1, 1).strftime(form)
    return environment.from_string(re.sub(r"\{%-?\s*(end)?generation\s*-?%\}", "", source))


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
    server.templates = {path.stem: compiled(path.read_text()) for path in Path(sys.argv[1]).glob("*.jinja")}
    server.serve_forever()
