"""Weights over TCP, for a real vLLM on a CPU: the trainer is rank 0, and each engine connects to it.

vLLM loads it as a plugin (``tiny-vllm.sh``), and a trainer registers ``TcpTrainer``. The engine tells in its log what
state its weights are in, and whether it computes with them: ``tcp-transfer: half``, ``whole`` and ``computes``.
They are whole once all tensors of an update have come and its end was asked for. Each step takes longer by as many
seconds as the file $TINY_VLLM_PACE says: a test keeps streams open for as long as it has to.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import torch
from vllm.distributed.weight_transfer.base import (
    TrainerInitInfo,
    TrainerWeightTransferEngine,
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory, WeightTransferTrainerFactory
from vllm.logger import init_logger

logger = init_logger("vllm.tcp_transfer")

NAME = "tcp"
CONNECT_S = 60
HAS_IT = b"+"
"""What an engine answers to each tensor."""


@dataclass
class TcpInitInfo(WeightTransferInitInfo):
    master_address: str
    master_port: int
    rank_offset: int = 1
    hang_s: float = 0
    """How long an engine waits for a sender that is gone, as a collective does."""


@dataclass
class TcpUpdateInfo(WeightTransferUpdateInfo):
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]


class State:
    """Of a model's weights, said in the log. A step of the model says that it computes, once for each state."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._computes = False
        model.register_forward_pre_hook(lambda *_: self._step())

    def says(self, state: str) -> None:
        self._computes = False
        logger.info("tcp-transfer: %s", state)

    def _step(self) -> None:
        time.sleep(_pace())
        if not self._computes:
            self._computes = True
            logger.info("tcp-transfer: computes")


def _pace() -> float:
    path = os.environ.get("TINY_VLLM_PACE")
    if path is None or not Path(path).exists():
        return 0.0
    return float(Path(path).read_text() or 0)


class TcpEngine(WeightTransferEngine[TcpInitInfo, TcpUpdateInfo]):
    init_info_cls = TcpInitInfo
    update_info_cls = TcpUpdateInfo

    def __init__(self, config, vllm_config, device, model) -> None:
        super().__init__(config, vllm_config, device, model)
        self._from = None
        self._hang_s = 0.0
        self._has_all = False
        self._state = State(model)
        _says_reloads(self._state)

    def init_transfer_engine(self, init_info: TcpInitInfo) -> None:
        self.shutdown()
        self._hang_s = init_info.hang_s
        self._from = socket.create_connection((init_info.master_address, init_info.master_port), CONNECT_S)
        self._from.settimeout(None)

    def start_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        self._has_all = False
        self._state.says("half")
        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info) -> None:
        self.receive_weights(self.parse_update_info(update_info))

    def receive_weights(self, update_info: TcpUpdateInfo) -> None:
        self._has_all = False
        for name, dtype_name, shape in zip(update_info.names, update_info.dtype_names, update_info.shapes):
            dtype = getattr(torch, dtype_name)
            whole = torch.empty(shape, dtype=dtype)
            self._read(memoryview(whole.view(-1).view(torch.uint8).numpy()))
            self.model.load_weights([(name, whole)])
            self._from.sendall(HAS_IT)
        self._has_all = True

    def finish_weight_update(self) -> None:
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)
        self._state.says("whole" if self._has_all else "half")
        self._has_all = False

    def shutdown(self) -> None:
        if self._from is not None:
            self._from.close()
            self._from = None

    def _read(self, into: memoryview) -> None:
        if self._from is None:
            raise RuntimeError("no connection to a trainer: call init_weight_transfer_engine first")
        got = 0
        while got < len(into):
            more = self._from.recv_into(into[got:])
            if more == 0:
                time.sleep(self._hang_s)
                raise ConnectionError(f"the trainer is gone, after {got} of {len(into)} bytes of a tensor")
            got += more


@dataclass
class TcpTrainerInitInfo(TrainerInitInfo):
    backend: ClassVar[str] = NAME

    engines: int
    hang_s: float = 0


class TcpTrainer(TrainerWeightTransferEngine[TcpTrainerInitInfo]):
    init_info_cls = TcpTrainerInitInfo

    def __init__(self, *, client, source, connections) -> None:
        super().__init__(client=client, source=source)
        self._connections = connections

    @classmethod
    def trainer_init(cls, init_info, *, client, source=None):
        listening = socket.create_server(("127.0.0.1", 0))
        listening.settimeout(CONNECT_S)
        port = listening.getsockname()[1]
        info = TcpInitInfo("127.0.0.1", port, hang_s=init_info.hang_s)
        with ThreadPoolExecutor(max_workers=1) as calls:
            asked = calls.submit(client.init_weight_transfer_engine, asdict(info))
            connections = [listening.accept()[0] for _ in range(init_info.engines)]
            asked.result()
        listening.close()
        return cls(client=client, source=source, connections=connections)

    def send_weights(self) -> None:
        """As vLLM's own NCCL engine: the call and the collective at once."""
        meta = self.source.metadata()
        told = TcpUpdateInfo([m.name for m in meta], [str(m.dtype).split(".")[-1] for m in meta], [list(m.shape) for m in meta])
        self.client.start_weight_update()
        calls = ThreadPoolExecutor(max_workers=1)
        try:
            asked = calls.submit(self.client.update_weights, asdict(told))
            for _, tensor in self.source:
                self.broadcast(tensor)
            asked.result()
        finally:
            calls.shutdown(wait=False)
        self.client.finish_weight_update()

    def broadcast(self, tensor: torch.Tensor) -> None:
        """As a collective's: over once every engine has it."""
        data = tensor.detach().contiguous().view(-1).view(torch.uint8).numpy()
        for connection in self._connections:
            connection.sendall(data)
        for connection in self._connections:
            if connection.recv(1) != HAS_IT:
                raise ConnectionError("an engine is gone")


_reloads: list[State] = []
_once = threading.Lock()


def _says_reloads(state: State) -> None:
    """A checkpoint is loaded past this backend."""
    from vllm.v1.worker.gpu_worker import Worker

    with _once:
        _reloads.append(state)
        if len(_reloads) > 1:
            return
        reload = Worker.reload_weights

        def reload_weights(self, *args, **kwargs):
            for one in _reloads:
                one.says("half")
            reload(self, *args, **kwargs)
            for one in _reloads:
                one.says("whole")

        Worker.reload_weights = reload_weights


def register() -> None:
    """Both sides, once in each process."""
    for factory, one in ((WeightTransferEngineFactory, TcpEngine), (WeightTransferTrainerFactory, TcpTrainer)):
        if NAME not in factory._registry:
            factory.register_engine(NAME, one)
