"""Limits that the kernel enforces for one process and one user. The parent watches the sums of a whole tree."""

import os
import resource
import sys

FEW = 256


def fork_within(limits):
    """A limit of forks: the user may have roughly `others` more processes than now. If code has the worker's user id,
    the
    kernel counts all processes of that id on this machine, including invisible ones.
    """
    if limits["processes"] is not None:
        return os.fork()
    hard = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    bound = sys.maxsize if hard == resource.RLIM_INFINITY else hard
    few = FEW
    while few < bound:
        try:
            resource.setrlimit(resource.RLIMIT_NPROC, (few, hard))
            child = os.fork()
        except BlockingIOError:
            few *= 2
            continue
        if child == 0:
            most = min(few + limits["others"], bound)
            resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
        return child
    resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    return os.fork()


def set_limits(limits):
    """`memory` and `disk` are bytes, of one process and one file."""
    bounds = {
        resource.RLIMIT_AS: limits["memory"],
        resource.RLIMIT_FSIZE: limits["disk"],
        resource.RLIMIT_NOFILE: 64,
        # 0 would still start the machine's core-dump program, outside and at each crash.
        resource.RLIMIT_CORE: 1,
    }
    if limits["processes"] is not None:
        bounds[resource.RLIMIT_NPROC] = limits["processes"]
    for name, value in bounds.items():
        hard = resource.getrlimit(name)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(name, (value, value))


def offer():
    """If the machine runs out of memory, the largest process here is ended before any other."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass
