"""Shards on CPUs, imported before the first ``Accelerator``. accelerate has FSDP2 and DeepSpeed for devices alone, and DeepSpeed
would compile a collective of its own, in place of gloo's.
"""

import importlib
import os

from accelerate.state import AcceleratorState, PartialState
from accelerate.utils import DistributedType

_made = AcceleratorState.__init__


def made(self, *given, fsdp_plugin=None, **named):
    is_new = not AcceleratorState._shared_state
    _made(self, *given, fsdp_plugin=fsdp_plugin, **named)
    if is_new and os.environ.get("ACCELERATE_USE_FSDP") == "true" and self.distributed_type == DistributedType.MULTI_CPU:
        self.distributed_type = PartialState._shared_state["distributed_type"] = DistributedType.FSDP
        self.fsdp_plugin = fsdp_plugin


AcceleratorState.__init__ = made

if os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
    # As an attribute of its package it is torch itself.
    importlib.import_module("deepspeed.comm.torch").build_shm_op = lambda: None
    PartialState._prepare_backend = lambda *_, **__: ("gloo", DistributedType.MULTI_CPU)
