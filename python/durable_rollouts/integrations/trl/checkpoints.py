"""From where a training continues."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Optional, Union

PREFIX = "checkpoint-"


def last_checkpoint(folder: Union[str, "os.PathLike[str]"]) -> Optional[str]:
    """The last whole checkpoint below the trainer's ``output_dir``; None: there is none yet. A trainer that was killed
    while it wrote one leaves a folder without its last file, with which ``resume_from_checkpoint=True`` fails.

        trainer.train(resume_from_checkpoint=last_checkpoint("math-3"))
    """
    found = [one for one in Path(folder).glob(f"{PREFIX}*") if one.name.removeprefix(PREFIX).isdigit() and _is_whole(one)]
    return str(max(found, key=_step_of)) if found else None


def _step_of(checkpoint: Path) -> int:
    return int(checkpoint.name.removeprefix(PREFIX))


def _is_whole(checkpoint: Path) -> bool:
    """Its state is written last."""
    try:
        json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
