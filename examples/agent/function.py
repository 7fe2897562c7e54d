"""Small functions with a mistake each.

function.py submit FOLDER   calls what is there now, and prints what comes back
function.py samples         writes samples.jsonl and tasks.jsonl

The first reads the task as JSON on standard input, as workers give it to `submit`: calls are in `extra_env_info`, which
the program does not get. What is called is what the policy wrote, so it may return anything. What it should return is in
verify.mjs alone, outside of the sandbox.
"""

import json
import pathlib
import subprocess
import sys

CALL_SECONDS, MOST = 5, 200

# name, source, the mistake and its mend, a mend that is wrong, calls.
FUNCTIONS = [
    ("clamp", "def clamp(x, low, high):\n    return min(low, max(x, high))\n", ("min(low, max(x, high))", "max(low, min(x, high))", "min(high, x)"),
     ["clamp(5, 0, 3)", "clamp(-1, 0, 3)", "clamp(2, 0, 3)"]),
    ("median", "def median(numbers):\n    return sorted(numbers)[len(numbers) // 2 - 1]\n", ("// 2 - 1", "// 2", "// 3"),
     ["median([3, 1, 2])", "median([5])", "median([9, 1, 4, 7, 5])"]),
    ("is_prime", "def is_prime(n):\n    return all(n % d for d in range(2, n))\n", ("return all", "return n > 1 and all", "return n > 2 and all"),
     ["is_prime(2)", "is_prime(1)", "is_prime(13)", "is_prime(15)"]),
    ("initials", "def initials(name):\n    return ''.join(word[-1] for word in name.split())\n", ("word[-1]", "word[0].upper()", "word[0]"),
     ["initials('Ada Lovelace')", "initials('grace hopper')", "initials('')"]),
]  # fmt: skip


def submit(metadata, folder):
    print(json.dumps([returned(metadata["function"], call, folder) for call in metadata["calls"]]))


def returned(function, call, folder):
    """As JSON, from a process of its own; None: nothing came. The function may print, and exit, what it likes: only a
    right value counts."""
    code = f"import json, sys; sys.path[:0] = [{folder!r}]; from {function} import {function}; print('\\n' + json.dumps({call}))"
    try:
        run = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=CALL_SECONDS)
    except (subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    return run.stdout.strip().rpartition("\n")[2][:MOST] or None


def samples():
    for name, tells in (("samples.jsonl", True), ("tasks.jsonl", False)):
        lines = [json.dumps(sample(function, tells)) for function in FUNCTIONS]
        pathlib.Path(__file__).with_name(name).write_text("".join(f"{line}\n" for line in lines))


def sample(function, tells):
    name, source, (mistake, mend, wrong), of = function
    steps = [
        ("Call", f"cat {name}.py"),
        ("Call", replaced(name, mistake, mend)),
        ("Slip", replaced(name, mistake, wrong)),
        ("Call", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"),
    ]
    script = [f"{kind}: {json.dumps({'name': 'bash', 'arguments': {'command': command}})}" for kind, command in steps]
    prompt = "\n".join([f"The function {name} in {name}.py is wrong. Mend it.", *(script if tells else [])])
    return {
        "message_log": [{"role": "user", "content": prompt}],
        "task_name": "mini",
        "extra_env_info": {"function": name, "source": source, "calls": of},
    }


def replaced(name, old, new):
    return f"python3 -c \"import pathlib; f = pathlib.Path('{name}.py'); f.write_text(f.read_text().replace({old!r}, {new!r}))\""


if __name__ == "__main__":
    what = sys.argv[1]
    if what == "samples":
        samples()
    else:
        submit(json.load(sys.stdin)["metadata"], sys.argv[2])
