"""Puts samples into a bucket as the client does, for tests: ``s3_samples.py token INPUTS_DIR TOKEN``, or ``put INPUTS_DIR COUNT``."""

import json
import sys
import threading

from durable_rollouts import samples


def main(what, inputs_dir, argument):
    if what == "token":
        return print(json.dumps({"is_made": samples._put_token(f"{inputs_dir}/.samples/{argument}.token", argument)}))
    rows = ({"message_log": [{"role": "user", "content": f"q {at}"}], "task_name": "task"} for at in range(int(argument)))
    put = samples._put(inputs_dir, rows, most=10**9, stop=threading.Event())
    print(json.dumps(put._asdict()))


main(*sys.argv[1:])
