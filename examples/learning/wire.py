"""vLLM's wire for the engine: completions with token ids, the tokenizer, and the control routes of its development
mode.

    python wire.py --port 8000 --seed 1 --log engine.jsonl [--tick 0.01]

It uses threads of the standard library, on 127.0.0.1 only. Unsupported fields are refused with 400, by name.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import socket
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional
from urllib.parse import parse_qs, urlsplit

import numpy as np
from engine import Engine, Request, Sequence, Token
from policy import END, VOCABULARY, untrained
from run import end_with_parent
from task import LETTERS

MODEL = "cipher"
LONGEST = 256
"""``max_model_len``."""
HOTTEST = 100
UNKNOWN = "?"
"""What a letter that is not ASCII becomes."""
SLOW_S = 5.0
"""A client that takes nothing for this long has gone."""
NOT_DONE = {
    "n": 1,
    "top_p": 1,
    "min_p": 0,
    "repetition_penalty": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "min_tokens": 0,
    "ignore_eos": False,
    "bad_words": [],
    "structured_outputs": None,
    "stop_token_ids": [],
    "include_stop_str_in_output": True,
}
"""The only supported value of each of these fields, if present."""

Body = Dict[str, Any]


class Refused(Exception):
    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


def encode(text: str) -> List[int]:
    if not text.isascii():
        raise Refused("prompt: expected ASCII")
    return [ord(letter) for letter in text]


def decode(ids: List[int]) -> str:
    return "".join(chr(id) for id in ids if id != END)


def request_of(body: Body, id: str) -> Request:
    """Raises ``Refused``."""
    for name, only in NOT_DONE.items():
        if body.get(name, only) != only:
            raise Refused(f"{name}: this engine does {only!r} alone, got {body[name]!r}")
    if (body.get("top_k") or 0) > 0:
        raise Refused(f"top_k: this engine does none, got {body['top_k']!r}")
    prompt = encode(body["prompt"]) if isinstance(body.get("prompt"), str) else body.get("prompt")
    if not isinstance(prompt, list) or not prompt or not all(type(id) is int for id in prompt):
        raise Refused("prompt: expected ids or a text")
    if not all(0 <= id < VOCABULARY for id in prompt):
        raise Refused(f"prompt: expected ids below {VOCABULARY}")
    if len(prompt) >= LONGEST:
        counts = f"maximum context length is {LONGEST} tokens. However, your request has {len(prompt)} input tokens."
        raise Refused(f"This model's {counts}")
    stop = body.get("stop") or []
    if isinstance(stop, str):
        stop = [stop]
    if not isinstance(stop, list) or not all(isinstance(text, str) for text in stop):
        raise Refused("stop: expected texts")
    # What the engine's own thread would stumble over ends the engine.
    most, seed, likeliest = (whole_number(body, name) for name in ("max_tokens", "seed", "logprobs"))
    temperature = body.get("temperature")
    if temperature is not None and not (type(temperature) in (int, float) and 0 <= temperature < HOTTEST):
        raise Refused(f"temperature: expected a number from 0 to {HOTTEST}, got {temperature!r}")
    return Request(
        id=id,
        prompt=prompt,
        max_tokens=min(16 if most is None else most, LONGEST - len(prompt)),
        temperature=float(1 if temperature is None else temperature),
        seed=seed,
        stop=stop,
        likeliest=likeliest or 0,
        adapter=body["model"] if body.get("model") not in (None, MODEL) else None,
    )


def whole_number(body: Body, name: str) -> Optional[int]:
    value = body.get(name)
    if value is None or (type(value) is int and value >= 0):
        return value
    raise Refused(f"{name}: expected a whole number from 0 on, got {value!r}")


class Choice:
    """A completion's JSON, piece by piece."""

    def __init__(self, request: Request, body: Body) -> None:
        self._request, self._body = request, body
        self._head = {"id": f"cmpl-{request.id}", "object": "text_completion", "created": int(time.time()), "model": MODEL}
        self._tokens: List[Token] = []
        options = body.get("stream_options") or {}
        self._counts = body.get("stream") is True and options.get("continuous_usage_stats") is True

    def piece(self, tokens: List[Token], reason: Optional[str], stop: Optional[str]) -> Body:
        first = not self._tokens
        self._tokens += tokens
        choice = {
            "index": 0,
            "text": decode([token.id for token in tokens]),
            "logprobs": self._logprobs(tokens) if self._body.get("logprobs") is not None else None,
            "finish_reason": reason,
            "stop_reason": stop,
            "prompt_token_ids": self._request.prompt if first else None,
            "token_ids": [token.id for token in tokens],
        }
        return {**self._head, "choices": [choice], **({"usage": self.usage()} if self._counts else {})}

    def whole(self, reason: str, prompt_logprobs: Optional[List[float]]) -> Body:
        tokens, self._tokens = self._tokens, []
        body = self.piece(tokens, reason, None)
        if prompt_logprobs is not None:
            named = [{str(id): {"logprob": p}} for id, p in zip(self._request.prompt[1:], prompt_logprobs)]
            body["choices"][0]["prompt_logprobs"] = [None, *named]
        return {**body, "usage": self.usage()}

    def usage(self) -> Body:
        prompt, completion = len(self._request.prompt), len(self._tokens)
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def usage_piece(self) -> Body:
        return {**self._head, "choices": [], "usage": self.usage()}

    def _logprobs(self, tokens: List[Token]) -> Body:
        by_id = self._body.get("return_tokens_as_token_ids")
        name = (lambda id: f"token_id:{id}") if by_id else (lambda id: decode([id]))
        return {
            "token_logprobs": [token.logprob for token in tokens],
            "tokens": [name(token.id) for token in tokens],
            "top_logprobs": [{name(id): p for id, p in {**t.likeliest, t.id: t.logprob}.items()} for t in tokens],
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    engine: Engine

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self) -> None:
        self._answer("GET")

    def do_POST(self) -> None:
        self._answer("POST")

    def log_message(self, *_: Any) -> None:
        """The engine's log has everything important."""

    def _answer(self, method: str) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        url = urlsplit(self.path)
        route = ROUTES.get(url.path)
        try:
            if route is None or (url.path in ADAPTERS and not self.engine.takes_adapters):
                raise Refused("Not Found", 404)
            if method != route[0]:
                raise Refused("Method Not Allowed", 405)
            query = {name: values[-1] for name, values in parse_qs(url.query).items()}
            said = route[1](self, {**query, **(json.loads(body) if body else {})})
            if said is not None:
                self._send(200, said)
        except Refused as refused:
            error = {"message": str(refused), "type": "BadRequestError", "param": None, "code": refused.status}
            self._send(refused.status, {"error": error})
        except ValueError as error:
            self._send(400, {"error": {"message": f"malformed: {error}", "type": "BadRequestError", "param": None, "code": 400}})

    def _send(self, status: int, body: Body) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def complete(self, body: Body) -> Optional[Body]:
        request = request_of(body, self.headers.get("x-request-id") or uuid.uuid4().hex)
        if request.adapter is not None and request.adapter not in self.engine.adapters:
            raise Refused(f"The model `{request.adapter}` does not exist.", 404)
        if request.max_tokens < 1:
            raise Refused(f"max_tokens must be at least 1, got {request.max_tokens}")
        choice = Choice(request, body)
        if body.get("stream"):
            self._stream(request, choice)
            return None
        reasons: List[str] = []

        def collect(tokens: List[Token], reason: Optional[str], stop: Optional[str]) -> bool:
            choice.piece(tokens, reason, stop)
            reasons.extend([reason] if reason else [])
            return True

        self.engine.submit(request, collect).done.wait()
        asked = body.get("prompt_logprobs") is not None
        return choice.whole(reasons[-1], self.engine.prompt_logprobs(request.prompt, request.adapter) if asked else None)

    def _stream(self, request: Request, choice: Choice) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self.connection.settimeout(SLOW_S)

        def emit(tokens: List[Token], reason: Optional[str], stop: Optional[str]) -> bool:
            """Called on the engine's thread: one write, which the socket's buffer takes."""
            events = [json.dumps(choice.piece(tokens, reason, stop))]
            if reason is not None:
                events += [json.dumps(choice.usage_piece()), "[DONE]"]
            data = "".join(f"data: {event}\n\n" for event in events).encode()
            end = b"0\r\n\r\n" if reason is not None else b""
            try:
                self.wfile.write(b"%x\r\n%b\r\n%b" % (len(data), data, end))
                return True
            except OSError:
                self.close_connection = True
                return False

        sequence: Sequence = self.engine.submit(request, emit)
        sequence.done.wait()
        self.connection.settimeout(None)

    def pause(self, query: Body) -> Body:
        mode = query.get("mode", "abort")
        if mode not in ("abort", "wait", "keep"):
            raise Refused(f"mode: expected abort, wait or keep, got {mode}")
        self.engine.pause(mode)
        return {"status": "paused"}

    def resume(self, _: Body) -> Body:
        self.engine.resume()
        return {"status": "resumed"}

    def load(self, body: Body) -> Body:
        if body.get("method") != "reload_weights":
            raise Refused(f"method: expected reload_weights, got {body.get('method')}")
        try:
            self.engine.load(body["kwargs"]["weights_path"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise Refused(f"Call to collective_rpc method failed: {error!r}", 500) from error
        return {"results": [None]}

    def label(self, body: Body) -> Body:
        self.engine.label = str(body["new_version"])
        return {"success": True, "new_version": self.engine.label}

    def sleep(self, query: Body) -> Body:
        level = int(query.get("level", 1))
        self.engine.sleep(level)
        return {"status": "sleeping", "level": level}

    def wake_up(self, query: Body) -> Body:
        tags = [query["tags"]] if "tags" in query else None
        return {"status": "awake" if self.engine.wake_up(tags) else "sleeping", "tags": tags}

    def start_update(self, _: Body) -> Body:
        return self._updates(self.engine.start_update)

    def update_weights(self, body: Body) -> Body:
        packed = base64.b64decode(body["update_info"]["npz"])
        with np.load(io.BytesIO(packed)) as arrays:
            part = {name: arrays[name] for name in arrays}
        return self._updates(lambda: self.engine.receive(part))

    def finish_update(self, body: Body) -> Body:
        said = self._updates(self.engine.finish_update)
        if body.get("weight_version") is not None:
            self.engine.label = str(body["weight_version"])
        return said

    def _updates(self, run: Callable[[], None]) -> Body:
        try:
            run()
        except ValueError as error:
            raise Refused(str(error), 500) from error
        return {"message": "done"}

    def models(self, _: Body) -> Body:
        served = [(MODEL, None), *((name, MODEL) for name in self.engine.adapters)]
        return {"object": "list", "data": [{"id": id, "object": "model", "parent": parent, "max_model_len": LONGEST} for id, parent in served]}

    def load_adapter(self, body: Body) -> Body:
        try:
            self.engine.load_adapter(body["lora_name"], body["lora_path"])
        except (OSError, ValueError, KeyError) as error:
            raise Refused(f"Call to add_lora method failed: {error!r}", 500) from error
        return {"message": f"Success: LoRA adapter '{body['lora_name']}' added successfully."}

    def unload_adapter(self, body: Body) -> Body:
        try:
            self.engine.unload_adapter(body["lora_name"])
        except KeyError as error:
            raise Refused(f"The lora adapter '{body['lora_name']}' cannot be found.", 404) from error
        return {"message": f"Success: LoRA adapter '{body['lora_name']}' removed successfully."}

    def tokenize(self, body: Body) -> Body:
        if not isinstance(body.get("prompt"), str):
            raise Refused("prompt: expected a text; this engine has no chat template")
        # An engine that joins is asked for the ids of texts in any script.
        tokens = encode("".join(letter if letter.isascii() else UNKNOWN for letter in body["prompt"]))
        return {"count": len(tokens), "max_model_len": LONGEST, "tokens": tokens, "token_strs": None}


ADAPTERS = ("/v1/load_lora_adapter", "/v1/unload_lora_adapter")
"""Routes of engines that take some."""

Answer = Callable[[Handler, Body], Optional[Body]]
ROUTES: Dict[str, tuple[str, Answer]] = {
    "/health": ("GET", lambda *_: {}),
    "/version": ("GET", lambda *_: {"version": "0.32.0+example"}),
    "/v1/models": ("GET", Handler.models),
    "/v1/load_lora_adapter": ("POST", Handler.load_adapter),
    "/v1/unload_lora_adapter": ("POST", Handler.unload_adapter),
    "/v1/completions": ("POST", Handler.complete),
    "/tokenize": ("POST", Handler.tokenize),
    "/detokenize": ("POST", lambda _, body: {"prompt": decode(body["tokens"])}),
    "/pause": ("POST", Handler.pause),
    "/resume": ("POST", Handler.resume),
    "/is_paused": ("GET", lambda here, _: {"is_paused": here.engine.is_paused}),
    "/is_sleeping": ("GET", lambda here, _: {"is_sleeping": here.engine.is_asleep}),
    "/sleep": ("POST", Handler.sleep),
    "/wake_up": ("POST", Handler.wake_up),
    "/start_weight_update": ("POST", Handler.start_update),
    "/update_weights": ("POST", Handler.update_weights),
    "/finish_weight_update": ("POST", Handler.finish_update),
    "/collective_rpc": ("POST", Handler.load),
    "/update_weight_version": ("POST", Handler.label),
    "/weight_info": ("GET", lambda here, _: {"weight_version": here.engine.label}),
    # There is no cache: each token is computed from its window.
    "/reset_prefix_cache": ("POST", lambda *_: {"success": True}),
}


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024


def serve(engine: Engine, port: int) -> Server:
    """Listens, and samples in a separate thread."""
    server = Server(("127.0.0.1", port), type("Bound", (Handler,), {"engine": engine}))
    threading.Thread(target=engine.run, daemon=True).start()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True, help="of the weights that it begins with")
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--tick", type=float, default=0.01, help="seconds that a token takes")
    args = parser.parse_args()
    engine = Engine(untrained(args.seed, LETTERS), log=args.log, tick_s=args.tick)
    server = serve(engine, args.port)
    print(f"engine on http://127.0.0.1:{server.server_address[1]}/v1, process {os.getpid()}", flush=True)
    end_with_parent()
    threading.Event().wait()


if __name__ == "__main__":
    main()
