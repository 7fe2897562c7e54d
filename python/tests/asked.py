"""Answers one question after the other, each a line of JSON, for tests: Python takes longer to start than to answer."""

import json
import sys
import traceback


def answer(ask):
    """Calls ``ask`` with the arguments of each line, and prints what it returns, or what it raised."""
    for line in sys.stdin:
        try:
            said = {"said": ask(*json.loads(line))}
        except Exception:
            said = {"raised": traceback.format_exc()}
        print(json.dumps(said), flush=True)
