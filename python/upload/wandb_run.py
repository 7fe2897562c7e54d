"""A run of Weights & Biases, as ``temporal-rollout collect`` and ``aggregate`` ask for it.

Each line of standard input is a call, ``[name, argument]`` in JSON. Its answer is a line on descriptor 3: null, or the text
of its error. ``rollout``, one result, has no answer. With ``--check`` it ends with 1 where the package is not installed.
"""

import importlib.util
import json
import os
import signal
import sys

ANSWERS = 3
MOST_BYTES = 10_000_000
"""Of one value, before the package warns of its size (upstream's exporter at 07d6b0d)."""


def main():
    # Ctrl-C reaches the whole terminal; whoever started this process decides what becomes of it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.set_inheritable(ANSWERS, False)
    with os.fdopen(ANSWERS, "w", buffering=1) as answers:
        calls = Calls()
        for line in sys.stdin.buffer:
            name, given = json.loads(line)
            if name == "rollout":
                calls.rows.append([given])
                continue
            try:
                getattr(calls, name)(given)
                problem = None
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            answers.write(json.dumps(problem) + "\n")


class Calls:
    """What upstream's exporter does with the package: the same run, table and names."""

    def __init__(self):
        self.run = None
        self.rows = []

    def open(self, given):
        import wandb
        import wandb.util

        wandb.util.VALUE_BYTES_LIMIT = MOST_BYTES
        os.makedirs(given["dir"], exist_ok=True)
        self.run = wandb.init(project=given["project"], name=given["name"], dir=given["dir"])
        self.run.config.update(given["config"])

    def rollouts(self, _):
        import wandb

        rows, self.rows = self.rows, []
        self.run.log({"Rollouts": wandb.Table(data=rows, columns=["Rollout"])})

    def metrics(self, given):
        self.run.log(given)

    def close(self, _):
        self.run.finish()


def is_installed():
    """A folder of this name, as runs leave one, is no package."""
    found = importlib.util.find_spec("wandb")
    return found is not None and found.origin is not None


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(None if is_installed() else "it has no package wandb")
    main()
