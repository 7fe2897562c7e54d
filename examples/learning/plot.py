"""Draws what a run has written: held-out reward over time, with kills; lag, importance ratio and length over steps.

    python plot.py --run FOLDER [--run FOLDER …] [--starts-over FOLDER] --out plot.png

Several runs are seeds beside each other. FOLDER has metrics.jsonl, and kills.jsonl where something was killed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from run import lines_of

Line = Dict[str, Any]
COLOURS = ["#0b5394", "#38761d", "#b45f06", "#741b47", "#444444"]
STARTS_OVER = "#999999"
VICTIMS = {"trainer": "o", "engine": "s", "worker": "^", "Temporal server": "D"}
TARGET = 0.9
LONGEST_SHOWN = 1.5
"""How much of the loop that starts over is shown, as a share of the longest run."""


class Told:
    """The content of a run's folder."""

    def __init__(self, folder: Path) -> None:
        lines = list(lines_of(folder / "metrics.jsonl"))
        self.begun = min(line["at"] for line in lines)
        self.lasted = max(line["at"] for line in lines) - self.begun
        self.held_out = sorted((line for line in lines if line["kind"] == "held_out"), key=lambda line: line["step"])
        # If a step was requested again, the first answer counts; the others are equal.
        self.steps: List[Line] = list({line["step"]: line for line in reversed(lines) if line["kind"] == "step"}.values())[::-1]
        self.kills = list(lines_of(folder / "kills.jsonl"))

    def seconds(self, line: Line) -> float:
        return line["at"] - self.begun

    def step_at(self, line: Line) -> int:
        return max((one["step"] for one in self.steps if one["at"] <= line["at"]), default=0)


def draw(runs: List[Told], starts_over: Optional[Told]) -> plt.Figure:
    figure = plt.figure(figsize=(9, 6), layout="constrained")
    grid = figure.add_gridspec(2, 3, height_ratios=[1.5, 1])
    rewards(figure.add_subplot(grid[0, :]), runs, starts_over)
    below: List[Tuple[str, str, Tuple[str, ...]]] = [
        ("lag of a step's tokens, in versions", "mean, and highest (thin)", ("lag", "lag_max")),
        ("importance ratio", "mean over a step's tokens", ("ratio",)),
        ("length", "sampled tokens a rollout", ("length",)),
    ]
    for place, (title, label, names) in enumerate(below):
        over_steps(figure.add_subplot(grid[1, place]), runs, (title, label, names))
    return figure


def rewards(axes: Axes, runs: List[Told], starts_over: Optional[Told]) -> None:
    seeds = "" if len(runs) == 1 else f", {len(runs)} seeds"
    label = "durable rollouts" + (", under kills" if any(run.kills for run in runs) else "") + seeds
    for run, colour in zip(runs, COLOURS):
        curve(axes, run, {"color": colour, "label": label if run is runs[0] else None})
        marks(axes, run)
    if starts_over is not None:
        curve(axes, starts_over, {"color": STARTS_OVER, "label": "a loop that starts over, under the same kills"})
        last = starts_over.held_out[-1:]
        axes.hlines([line["reward"] for line in last], [starts_over.seconds(line) for line in last], starts_over.lasted, STARTS_OVER, "dashed")
        axes.set_xlim(right=LONGEST_SHOWN * max(run.lasted for run in runs))
    axes.axhline(TARGET, color="black", linewidth=0.6, linestyle=":")
    axes.set(title="held-out reward", xlabel="seconds", ylim=(-0.03, 1.03))
    axes.legend(loc="center right", fontsize=8, frameon=False)


def curve(axes: Axes, run: Told, style: Dict[str, Any]) -> None:
    axes.plot([run.seconds(line) for line in run.held_out], [line["reward"] for line in run.held_out], marker=".", **style)


def marks(axes: Axes, run: Told) -> None:
    for victim, marker in VICTIMS.items():
        at = [run.seconds(kill) for kill in run.kills if kill["what"] == victim]
        if at:
            axes.plot(at, [0] * len(at), marker, color="#cc0000", markersize=4, label=f"kill -9: {victim}")


def over_steps(axes: Axes, runs: List[Told], what: Tuple[str, str, Tuple[str, ...]]) -> None:
    title, label, names = what
    for run, colour in zip(runs, COLOURS):
        for name, width in zip(names, (1.2, 0.5)):
            axes.plot([line["step"] for line in run.steps], [line[name] for line in run.steps], color=colour, linewidth=width)
        for kill in run.kills:
            axes.axvline(run.step_at(kill), color="#cc0000", linewidth=0.4, alpha=0.4)
    axes.set(title=title, xlabel="step")
    axes.title.set_fontsize(9)
    axes.set_ylabel(label, fontsize=8)
    axes.tick_params(labelsize=8)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--run", type=Path, action="append", required=True)
    parser.add_argument("--starts-over", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    starts_over = None if args.starts_over is None else Told(args.starts_over)
    draw([Told(folder) for folder in args.run], starts_over).savefig(args.out, dpi=95, pil_kwargs={"optimize": True})


if __name__ == "__main__":
    main()
