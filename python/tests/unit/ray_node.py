"""Ray on this machine, for trainers' own loops."""

import ray


def begin_ray(tries=5, **resources):
    """Ray gives its own node half a minute to start."""
    while True:
        try:
            ray.init(**resources, object_store_memory=200_000_000, include_dashboard=False)
            return
        except Exception as error:
            tries -= 1
            if tries == 0 or "timed out during startup" not in str(error):
                raise
            ray.shutdown()
