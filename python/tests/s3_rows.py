"""Reads results on S3 as a trainer does, for tests, which ask with the result of a batch (asked.py)."""

import numpy as np
from asked import answer
from durable_rollouts import RolloutFault, Step, to_arrays
from durable_rollouts.results import read_counted, read_rows, read_step, sequences_of


def read(result):
    try:
        rows, failures = read_counted(result, "rollouts"), read_counted(result, "failures")
        said = {"rows": [row["rollout_id"] for row in rows], "failures": [row["rollout_id"] for row in failures]}
        said["groups"] = len(list(read_rows(result["files"]["groups"])))
        if "sequences" in result["files"]:
            sequences = sequences_of(result)
            mine, theirs = to_arrays(sequences), to_arrays(rows)
            for name in ("input_ids", "loss_mask", "logprobs", "versions", "rewards"):
                np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name).astype(getattr(mine, name).dtype))
            said["sequences"] = len(sequences)
    except (RolloutFault, OSError) as error:
        said = {"fault": type(error).__name__, "message": str(error)}
        if not isinstance(error, FileNotFoundError):
            return said
    steps = result["files"]["metrics"].rsplit("/", 2)[0]
    said["step"] = (read_step(steps, int(result["step"])) or {}).get("step") if "step" in result else None
    try:
        if "step" in result:
            Step(result["step"], result).rows()
    except RolloutFault as fault:
        said["step_fault"] = fault.type
    return said


answer(read)
