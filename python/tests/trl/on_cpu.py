"""FSDP2 on CPUs: accelerate has it for devices alone. Imported before the first ``Accelerator``."""

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
