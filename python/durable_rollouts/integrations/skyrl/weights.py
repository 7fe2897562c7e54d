"""The trainer's weights, on their way to the engines of a policy: each of SkyRL's own syncs publishes its model's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, Optional

from ..own import Own


class Weights:
    """SkyRL's dispatch of its workers. Its syncs are published; all else is its own.

    A trainer that continues from a checkpoint gets the rows of the steps behind it again. Meanwhile it publishes nothing:
    rollouts of the step in which it died may be open, and the engines have the weights that they began with.

    save: puts the model's files into a folder
    """

    def __init__(self, dispatch: Any, *, save: Callable[[str], Any], own: Own, folder: str, options: Mapping[str, Any]) -> None:
        self._dispatch, self._save, self._own = dispatch, save, own
        self._folder, self._options = Path(folder).resolve(), options
        self.are_served = False
        """The engines have the trainer's weights; else they may have later ones."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dispatch, name)

    def init_weight_sync_state(self, inference_engine_client: Any) -> None:
        """SkyRL connects its workers with its engines here."""
        self._own.begin()

    async def save_weights_for_sampler(self, model_id: Optional[str] = None) -> None:
        if self.are_served:
            self.bring()

    def bring(self) -> None:
        """Under a new number, also those of a checkpoint. Waits until the engines serve them."""
        self._own.put(lambda path: self._save(str(path)), folder=self._folder, options=self._options)
        self.are_served = True

    def end(self) -> None:
        """A trainer that has asked for nothing new leaves the engines with its last weights, too."""
        if not self.are_served:
            self.bring()
        self._own.end()
