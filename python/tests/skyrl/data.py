"""The samples of examples/learning as SkyRL has its data.

    python data.py --out train.parquet --seed 1 --count 16
"""

import argparse
from pathlib import Path

from datasets import Dataset
from task import samples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--environment", default="cipher")
    args = parser.parse_args()
    rows = [
        {
            "prompt": one["message_log"],
            "env_class": args.environment,
            "reward_spec": {"method": "rule", "ground_truth": one["extra_env_info"]["answers"][0]},
            **one["extra_env_info"],
        }
        for one in samples(args.seed, args.count)
    ]
    Dataset.from_list(rows).to_parquet(args.out)


main()
