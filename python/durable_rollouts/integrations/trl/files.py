"""The trainer's weights as files of the engines: its adapter where engines take one, else the whole model."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, Mapping, Union

from ...connection import log
from ...faults import PolicyUpdateFailed
from ..folders import lacks_adapters
from ..own import Own
from .lora import Kind, path_below
from .ranks import told
from .tensors import Named, adapter_of, base_of, collected, whole_of


class Files:
    """folder, kind, options: as ``Publish`` has them. run: names the training"""

    def __init__(self, own: Own, folder: "Union[str, os.PathLike[str]]", *, run: str, kind: Kind, options: Mapping[str, Any]) -> None:
        self._own, self._run, self._options = own, run, options
        self._folder = Path(folder).resolve()
        self._below = self._folder / f"{run}-base"
        self._kind = kind
        self._is_on_base = False

    def bring(self, model: Any) -> None:
        """By all ranks at once, without what runs the model on them. Raises what ``Policy.publish`` raises."""
        if self._kind != "checkpoint" and hasattr(model, "peft_config") and self._bring_adapter(model):
            return
        self._put(base_of(model), whole_of(model), self._folder)

    def _put(self, model: Any, tensors: Named, folder: Path, *, kind: Literal["lora", "checkpoint"] = "checkpoint") -> bool:
        """Returns whether the engines have them: those that take no adapter may have none."""
        files = collected(tensors)

        def put() -> bool:
            try:
                self._own.put(lambda path: model.save_pretrained(path, state_dict=files), folder=folder, options=self._options, kind=kind)
                return True
            except PolicyUpdateFailed as error:
                if self._kind != "auto" or kind != "lora" or not lacks_adapters(error):
                    raise
                log.warning("%s: the whole model is published, with the adapter added to it, and each update pauses the engines: %s", self._run, error)
                return False

        return told(put)

    def _bring_adapter(self, model: Any) -> bool:
        if not self._is_on_base:
            self._begin(model)
        if self._kind == "checkpoint" or not self._put(model, adapter_of(model), self._folder, kind="lora"):
            self._kind = "checkpoint"
        return self._kind != "checkpoint"

    def _begin(self, model: Any) -> None:
        """An adapter is for the weights that it was trained on. An engine that nobody has given any began with those."""
        below = told(lambda: path_below(self._own.record()))
        parent = None if below is None else Path(below).parent
        if parent == self._folder and self._kind == "auto":
            log.warning("%s: the whole model is published, as before (%s); kind='lora' publishes its adapter", self._run, below)
            self._kind = "checkpoint"
        elif parent is not None and parent != self._below:
            log.warning("%s: the model is published without its adapter, since engines have other weights (%s)", self._run, below or "sent ones")
            self._put(base_of(model), whole_of(model, merged=False), self._below)
        self._is_on_base = True
