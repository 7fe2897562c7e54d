"""A transfer by vLLM's own trainer code: its collective in a thread that may hang, its calls in one that does not."""

from __future__ import annotations

import importlib
import queue
import socket
import sys
import threading
from concurrent.futures import Future
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple
from urllib.parse import urlsplit

from .faults import PolicyUpdateFailed

ENDS_S = 1.0
"""For a thread whose call has failed, before it counts as one that waits."""
RESTART = "restart this trainer process before its next transfer"

Init = Callable[[int], Any]
"""From the number of ranks, the trainer's own included, to one of vLLM's ``TrainerInitInfo``."""


class Collectives:
    """The collectives that this process has made, one for each group. A failed one is not used again."""

    def __init__(self) -> None:
        self._made: Dict[Tuple[str, int], Any] = {}
        self._hung: List[threading.Thread] = []

    def send(
        self,
        weights: Any,
        *,
        place: Tuple[str, int],
        client: object,
        init: Callable[[], Any],
        is_new: bool,
        timeout: float,
    ) -> None:
        """Sends to one group, through the collective of its place: fleet and group.

        client: has the four calls of ``_Calls``, for this thread
        """
        for thread in self._hung:
            thread.join(ENDS_S)
        self._hung = [thread for thread in self._hung if thread.is_alive()]
        if self._hung:
            raise PolicyUpdateFailed(f"a collective of an earlier transfer still waits: {RESTART}")
        base = _vllm("base")
        source = source_of(weights, base)
        known = None if is_new else self._made.get(place)
        self._made.pop(place, None)

        def work(calls: "_Calls") -> Any:
            sender = known
            if sender is None:
                sender = _vllm("factory").WeightTransferTrainerFactory.trainer_init(init(), client=calls, source=source)
            sender.client, sender.source = calls, source
            sender.send_weights()
            return sender

        self._made[place] = self._bounded(work, client, timeout)

    def _bounded(self, work: Callable[["_Calls"], Any], client: object, timeout: float) -> Any:
        """Runs it in a daemon thread, and makes its calls in this one, where a failure is raised at once."""
        calls = _Calls()
        on_device = _device()

        def run() -> None:
            try:
                on_device()
                calls.over.set_result(work(calls))
            except BaseException as error:
                calls.over.set_exception(error)
            calls.asked.put(None)

        thread = threading.Thread(target=run, name="weight-transfer", daemon=True)
        thread.start()
        try:
            while True:
                try:
                    asked = calls.asked.get(timeout=timeout)
                except queue.Empty:
                    raise PolicyUpdateFailed(f"the collective has not moved for {timeout:g} s: {RESTART}") from None
                if asked is None:
                    return calls.over.result()
                name, given, answer = asked
                try:
                    answer.set_result(getattr(client, name)(*given))
                except BaseException as error:
                    answer.set_exception(error)
                    raise
        except BaseException:
            self._hung.append(thread)
            raise


PROCESS = Collectives()
"""Those of this process: a child of it has none that works."""


class _Calls:
    """What vLLM's code takes as its ``client``: each call waits until the sender's thread has made it."""

    def __init__(self) -> None:
        self.asked: "queue.Queue[Optional[Tuple[str, Tuple[Any, ...], Future[Any]]]]" = queue.Queue()
        self.over: "Future[Any]" = Future()

    def init_weight_transfer_engine(self, init_info: Mapping[str, Any]) -> None:
        self._ask("init_weight_transfer_engine", init_info)

    def start_weight_update(self) -> None:
        self._ask("start_weight_update")

    def update_weights(self, update_info: Mapping[str, Any]) -> None:
        self._ask("update_weights", update_info)

    def finish_weight_update(self, weight_version: Optional[str] = None) -> None:
        self._ask("finish_weight_update", weight_version)

    def _ask(self, name: str, *given: Any) -> None:
        answer: "Future[Any]" = Future()
        self.asked.put((name, given, answer))
        answer.result()


def source_of(weights: Any, base: Any) -> Any:
    """One of vLLM's ``WeightSource``: itself, that of a module, or of named tensors."""
    if hasattr(weights, "metadata"):
        return weights
    if hasattr(weights, "named_parameters"):
        return base.ModuleSource(weights)
    named = list(weights.items() if isinstance(weights, Mapping) else weights)

    class Named(base.WeightSource):  # type: ignore[misc]
        def metadata(self) -> List[Any]:
            return [base.ParamMeta(name, one.dtype, tuple(one.shape)) for name, one in named]

        def __iter__(self) -> Any:
            return ((name, base.materialize_full_tensor(one)) for name, one in named)

    return Named()


def nccl(engine_url: str) -> Init:
    """The collective of vLLM's backend ``nccl``, at this host's address as an engine sees it, on a free port."""
    host = urlsplit(engine_url).hostname or "127.0.0.1"
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as towards:
        towards.connect((host, 9))
        address = towards.getsockname()[0]
    with socket.create_server((address, 0), family=towards.family) as listening:
        port = listening.getsockname()[1]
    return lambda world_size: _vllm("nccl_engine").NCCLTrainerInitInfo(address, port, world_size, rank=0)


def _vllm(module: str) -> Any:
    try:
        return importlib.import_module(f"vllm.distributed.weight_transfer.{module}")
    except ImportError as error:
        raise ImportError(f"engines.send needs vLLM in the trainer's environment ({error}); engines.client() does not") from error


def _device() -> Callable[[], None]:
    """Gives a new thread, which begins with device 0, the device of this one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return lambda: None
    device = torch.cuda.current_device()
    return lambda: torch.cuda.set_device(device)
