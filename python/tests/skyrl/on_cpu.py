"""SkyRL's FSDP worker on a CPU. What it says to CUDA is said to the CPU; all of its methods are SkyRL's own.

It asks for CUDA by name (``init_device_mesh("cuda")``, ``init_process_group("cpu:gloo,cuda:nccl")``, ``Tensor.cuda``), and its
model imports flash-attn, which it does not call with ``trainer.flash_attn=false``.
"""

import sys
from types import ModuleType

import ray
import torch
import transformers.models.qwen2.modeling_qwen2  # noqa: F401  It looks whether flash-attn is there.
from torch.distributed import device_mesh

begin_group, mesh_of = torch.distributed.init_process_group, device_mesh.init_device_mesh

torch.set_num_threads(1)
torch.cuda.current_device = lambda: "cpu"
torch.cuda.set_device = torch.cuda.synchronize = lambda *_: None
torch.Tensor.cuda = lambda tensor: tensor
torch.distributed.init_process_group = lambda backend, **named: begin_group("gloo", **named)
device_mesh.init_device_mesh = torch.distributed.init_device_mesh = lambda kind, **named: mesh_of("cpu", **named)

absent = ModuleType("flash_attn.bert_padding")
absent.pad_input = absent.unpad_input = None
sys.modules.update({"flash_attn": ModuleType("flash_attn"), absent.__name__: absent})
from skyrl.backends.skyrl_train.workers.fsdp.fsdp_worker import FSDPPolicyWorkerBase  # noqa: E402

# Others that look for it do not find it.
del sys.modules["flash_attn"], sys.modules[absent.__name__]


class Worker(FSDPPolicyWorkerBase):
    """In this module, so that Ray's workers import it."""


PolicyWorker = ray.remote(num_gpus=1)(Worker)
