"""Starts a batch of rollouts, takes its groups as they end, and puts its rows into arrays, as a training step would.

    python start_batch.py --batch-id step-17 [--request ../sliding-puzzle/batch.json]
        [--address 127.0.0.1:7233] [--namespace default]
"""

import argparse
import json
import logging
import sys

import numpy as np
from durable_rollouts import Client, RolloutFault, to_arrays


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-id", required=True)
    parser.add_argument("--request", default="../sliding-puzzle/batch.json")
    parser.add_argument("--address", help="default: TEMPORAL_ADDRESS, temporal.toml, 127.0.0.1:7233")
    parser.add_argument("--namespace")
    args = parser.parse_args()
    with open(args.request) as file:
        request = json.load(file)
    # The package logs whether it started the batch or joined it.
    logging.basicConfig(format="%(message)s")
    logging.getLogger("durable_rollouts").setLevel(logging.INFO)
    client = Client.connect(args.address, args.namespace)
    # A trainer that crashed joins its running batch, or continues an ended one.
    batch = client.start_batch(request, args.batch_id)
    means = {}
    for group in batch.groups(show=True):  # While others still run: a reference model could score them now.
        means[group.row] = round(float(np.mean(group.rewards)), 3) if group.rows else None
    counts = batch.wait()["counts"]
    arrays = to_arrays(batch.rows())
    members = np.bincount(arrays.group_ids)
    baselines = np.bincount(arrays.group_ids, arrays.rewards) / members
    advantages = arrays.rewards - baselines[arrays.group_ids]
    spread = np.bincount(arrays.group_ids, np.abs(advantages))
    print(f"{counts['completed']} of {counts['requested']} rollouts completed")
    print(arrays)
    print("mean reward by group:", dict(sorted(means.items())))
    print("groups with a gradient:", int((spread > 1e-6).sum()), "of", len(members))


if __name__ == "__main__":
    try:
        main()
    except (ConnectionError, RolloutFault) as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("interrupted: the batch continues, and the same command joins it")
