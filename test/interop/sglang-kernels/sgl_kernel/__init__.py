"""In place of the package sglang-kernel, which is built for CUDA alone, so that SGLang starts without a GPU.

SGLang imports dozens of names from it and its submodules, and calls none for a small Llama on a CPU. So every name is
there, and a kernel that is called says which one it is.
"""
import sys
from importlib import util
from types import ModuleType

import torch

__version__ = "0.4.10"


class Kernel:
    def __init__(self, path):
        self._path = path

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        return Kernel(f"{self._path}.{name}")

    def __call__(self, *_args, **_kwargs):
        raise NotImplementedError(f"{self._path} needs a GPU")


class Kernels(ModuleType):
    """A package whose attributes and submodules are whatever is asked for."""

    __path__ = []

    def __getattr__(self, name):
        if name[:2] == "__":
            raise AttributeError(name)
        return Kernel(f"{self.__name__}.{name}")


class Submodules:
    """Finds and makes them."""

    def find_spec(self, name, path=None, target=None):
        return util.spec_from_loader(name, self, is_package=True) if name.startswith("sgl_kernel.") else None

    def create_module(self, spec):
        return Kernels(spec.name)

    def exec_module(self, module):
        """There is nothing to run."""


sys.modules[__name__].__class__ = Kernels
sys.meta_path.append(Submodules())


def without_pinning(make):
    """SGLang's adapters ask for pinned memory, which torch refuses without a GPU."""

    def made(*args, pin_memory=False, **kwargs):
        return make(*args, **kwargs)

    return made


if not torch.cuda.is_available():
    for name in ("arange", "empty", "full", "ones", "tensor", "zeros"):
        setattr(torch, name, without_pinning(getattr(torch, name)))
    torch.Tensor.pin_memory = lambda tensor, *_args, **_kwargs: tensor
