"""The engines of check.py: how each case starts its own, and what it asks them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Dict, Iterator, List, Tuple

INTEROP = Path(__file__).resolve().parents[2] / "test" / "interop"
STARTS_WITHIN_S = 600.0
ENDS_WITHIN_S = 30.0
LAST_LINES = 15
CPU_PACE_S = 0.02
"""What a token takes on a CPU, at least."""


@dataclass(frozen=True)
class Case:
    gpus: int
    """How many it needs. The trainer has the first, the engine the last."""
    backend: str
    tolerance: float
    """Of the mean difference between the engine's logprobs and the trainer's."""
    flags: Tuple[str, ...] = ()
    sleeps: bool = False
    context: int = 4096
    tokens: int = 1500
    """Of each rollout: it has to be open while the weights change."""


SLEEP = ("--enable-sleep-mode",)
CASES = {
    "nccl": Case(2, "nccl", 0.1),
    "ipc": Case(1, "ipc", 0.1),
    "sleep": Case(1, "ipc", 0.1, SLEEP, sleeps=True),
    "fp8": Case(1, "ipc", 0.4, ("--quantization", "fp8")),
    "cpu": Case(0, "tcp", 1e-3, SLEEP, sleeps=True, context=512, tokens=400),
}


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def command_of(case: Case, *, model: str, port: int, folder: Path) -> Tuple[List[str], Dict[str, str]]:
    """Of its engine."""
    if case.gpus == 0:
        pace = folder / "pace"
        pace.write_text(str(CPU_PACE_S))
        env = {"PORT": str(port), "TINY_VLLM_NO_ADAPTER": "1", "TINY_VLLM_TRANSFER": "1", "TINY_VLLM_PACE": str(pace)}
        return [str(INTEROP / "tiny-vllm.sh"), "serve", *case.flags], env
    seen = os.environ.get("CUDA_VISIBLE_DEVICES")
    gpu = seen.split(",")[case.gpus - 1] if seen else str(case.gpus - 1)
    # A handle of memory that is shared by CUDA IPC comes pickled over HTTP.
    env = {"VLLM_SERVER_DEV_MODE": "1", "CUDA_VISIBLE_DEVICES": gpu, "VLLM_ALLOW_INSECURE_SERIALIZATION": str(int(case.backend == "ipc"))}
    flags = f"--host 127.0.0.1 --port {port} --dtype bfloat16 --max-model-len {case.context} --gpu-memory-utilization 0.4".split()
    flags += "--logprobs-mode processed_logprobs --generation-config vllm --weight-transfer-config".split()
    return ["vllm", "serve", model, *flags, json.dumps({"backend": case.backend}), *case.flags], env


@contextmanager
def engine(case: Case, *, model: str, folder: Path) -> Iterator[str]:
    """Its URL, once it answers."""
    port = free_port()
    command, env = command_of(case, model=model, port=port, folder=folder)
    log = folder / "engine.log"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env={**os.environ, **env, "PATH": path}, stdout=out, stderr=out, start_new_session=True)
    try:
        await_that("the engine", lambda: is_up(f"http://127.0.0.1:{port}/health", process, log), within_s=STARTS_WITHIN_S)
        yield f"http://127.0.0.1:{port}"
    finally:
        for signum in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(process.pid, signum)
                process.wait(ENDS_WITHIN_S)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass


def is_up(url: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    if process.poll() is not None:
        last = "\n".join(log.read_text(errors="replace").split("\n")[-LAST_LINES:])
        raise RuntimeError(f"the engine has ended with code {process.returncode} ({log}):\n{last}")
    try:
        get(url)
        return True
    except OSError:
        return False


def await_that(what: str, is_so: Callable[[], bool], *, within_s: float) -> None:
    until = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > until:
            raise TimeoutError(f"{what}: not there after {within_s:.0f} s")
        time.sleep(0.1)
