"""What ``temporal-rollout report`` writes, in a notebook."""

from __future__ import annotations

import html
import json
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import List, Optional, Union

from .stack import LocalError, find_command

HEIGHT_PX = 720
DRAWN_MB = 2
"""What Jupyter's server drops without a word is larger: three megabytes in three seconds. A report goes on in other files."""
MOST_LINES = 12


class Report:
    """A page about the rollouts of a batch or a stream. A notebook draws it; elsewhere open the file in a browser.

    id: of the batch or stream
    file: the page, which needs no network; what is too large for it goes on beside it

        batch.show()
    """

    def __init__(self, id: str, file: Path) -> None:
        self.id: str = id
        self.file: Path = file

    def _repr_html_(self) -> str:
        where = f"<div>Open it in a browser for all of it: {html.escape(str(self.file))}</div>"
        if self.file.stat().st_size > 1.2 * DRAWN_MB * 10**6:
            return where
        # Its links would lead to the notebook's address.
        page = self.file.read_text(encoding="utf-8").replace("<head>", '<head><base href="about:srcdoc">', 1)
        style = f"width: 100%; height: {HEIGHT_PX}px; border: 1px solid #8888"
        # Rollouts are strangers' texts: the page may not reach the notebook. In these quotes little needs to be escaped.
        source = page.replace("&", "&amp;").replace("'", "&#39;")
        return f"<iframe sandbox='allow-scripts' title='{html.escape(self.id)}' style='{style}' srcdoc='{source}'></iframe>{where}"

    def __repr__(self) -> str:
        return f"Report({self.id!r}, open it in a browser: {self.file.as_uri()})"


def report_of(
    id: str,
    file: Optional[Union[str, Path]],
    *,
    config: Optional[Union[str, Path]] = None,
    home: Optional[Path] = None,
    store: Optional[Path] = None,
) -> Report:
    """home: has the temporal.yaml that names the store, or what a stack has left there; None: this process's folder
    store: the store's folder, where no temporal.yaml is known

    Raises ``LocalError``, which says what to run.
    """
    page = Path(file if file is not None else Path(tempfile.mkdtemp(prefix="durable-rollouts-")) / f"{id.replace(':', '.')}.html").resolve()
    args = ["report", id, "-o", str(page)]
    try:
        run = _command()
    except LocalError as error:
        there = shlex.join(["temporal-rollout", "report", id, "-o", page.name])
        raise LocalError(f"{error}; or run this where the deployment's temporal.yaml is, and open what it writes: {there}") from None
    with tempfile.TemporaryDirectory() as own:
        if config is not None:
            args += ["--config", str(Path(config).resolve())]
        elif store is not None:
            args += ["--config", str(_config_of(store, Path(own)))]
        # Only the overview of very many rollouts is larger than what is drawn.
        for size in [["--max-size", str(DRAWN_MB)], []] if file is None else [[]]:
            said = _faults_of([*run, *args, *size], home)
            if said is None:
                return Report(id, page)
    raise LocalError(said)


def _faults_of(command: List[str], home: Optional[Path]) -> Optional[str]:
    """None: it has done its work."""
    ran = subprocess.run(command, cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    said = "\n".join(ran.stderr.strip().split("\n")[-MOST_LINES:])
    return None if ran.returncode == 0 else f"{shlex.join(command)} ended with code {ran.returncode}:\n{said}"


def _command() -> List[str]:
    run, prepare = find_command()
    if prepare is not None and not Path(run[-1]).is_file():
        raise LocalError(f"{run[-1]} is not built yet: {shlex.join(prepare)} does it")
    return run


def _config_of(store: Path, folder: Path) -> Path:
    """A temporal.yaml of this store. JSON is YAML; the environment is needed, and plays nothing."""
    file = folder / "temporal.yaml"
    file.write_text(json.dumps({"store": {"root": str(store.resolve())}, "environments": {"math": {"kind": "math"}}}), encoding="utf-8")
    return file
