"""Programs of test_agent."""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request


def echoes(task):
    print("hello", task.key)
    return {"reward": 0.5, "metadata": {"prompt": task.prompt, "given": task.metadata, "id": task.id}}


async def awaits(task):
    await asyncio.sleep(0)
    return float(task.prompt)


def asks_the_model(task):
    with urllib.request.urlopen(f"{os.environ['OPENAI_BASE_URL']}/models") as answer:
        return float(answer.read())


def submits(task):
    return "diff --git"


def nothing(task):
    pass


def raises(task):
    return task.metadata["absent"]


def leaves(task):
    sys.exit(7)


def is_killed(task):
    os.kill(os.getpid(), 9)


def sleeps(task):
    child = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    pathlib.Path(task.prompt).write_text(json.dumps([os.getpid(), child.pid, task.folder]))
    time.sleep(1000)


def waits(task):
    while not os.path.exists(task.prompt):
        time.sleep(0.01)
    return 1


def returns_nan(task):
    return float("nan")


def returns_too_much(task):
    return {"metadata": {"text": "x" * 2**20}}


def returns_other(task):
    return {"score": 1}


def returns_large(task):
    return {"metadata": {"text": "x" * 900_000}}


def prints_much(task):
    for _ in range(1000):
        print("é" * 1000)
    print("the end")


def is_pointed_at_the_model(task):
    names = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
    return {"metadata": {name: os.environ[name] for name in names}}
