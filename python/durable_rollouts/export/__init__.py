"""Rollouts for other programs: Parquet for ``datasets``, and scalars and tables for Weights & Biases.

    from durable_rollouts import export

    export.parquet(batch, "step-17.parquet")      # load_dataset("parquet", data_files="step-17.parquet")
    log = export.wandb()
    log(stream.next_step(17))

docs/columns.md says what the columns are.
"""

from .columns import rows
from .parquet_file import parquet
from .wandb_log import WandbLog, wandb

__all__ = ["WandbLog", "parquet", "rows", "wandb"]
