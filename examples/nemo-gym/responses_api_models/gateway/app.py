"""
Stands for a worker's gateway among the servers of NeMo Gym, whose configuration knows only servers that it starts.

Nothing asks this process: ``host`` and ``port`` of its configuration are the gateway's, so agents ask that itself.
"""

import threading

if __name__ == "__main__":
    threading.Event().wait()
