"""`command.py PROGRAM [ARGUMENT]...`: runs it, and ends with it all that it has started, also in the background.

Descriptor 3 is the lifeline: when its other end closes, because the worker wants it or has died, all of it is ended.
"""

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "rollout_environment"))
from guard import guarded  # noqa: E402

LIFELINE = 3
NOT_STARTED = 127


def main():
    argv = sys.argv[1:]
    guarded(lifeline=LIFELINE)
    # Python ignores these, and what it starts would, too.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(2, f"{argv[0]} cannot be started: {error.strerror}\n".encode(errors="replace"))
        os._exit(NOT_STARTED)


main()
