"""Rollouts for TRL's trainers (docs/trl.md).

    from durable_rollouts import Client
    from durable_rollouts.integrations.trl import Publish, Rollouts, last_checkpoint, reward

    client = Client.connect()
    rollouts = Rollouts(client, dataset, run="math-3", task_name="math")
    trainer = GRPOTrainer(
        model=…, args=…, train_dataset=dataset,
        rollout_func=rollouts,
        reward_funcs=reward,
        callbacks=[Publish(rollouts, client.policy(), "/shared/weights")],
    )
    trainer.train(resume_from_checkpoint=last_checkpoint(args.output_dir))
"""

from .checkpoints import last_checkpoint
from .publish import Publish
from .rollouts import Rollouts, reward

__all__ = ["Publish", "Rollouts", "last_checkpoint", "reward"]
