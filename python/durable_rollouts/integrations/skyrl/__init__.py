"""Rollouts for SkyRL's trainer (docs/skyrl.md). ``experiment`` is the entrypoint of a training:

    python -m skyrl.train.entrypoints.main_base trainer.override_entrypoint=durable_rollouts.integrations.skyrl.experiment \\
        durable.weights=/shared/weights environment.env_class=math trainer.placement.colocate_all=false …
"""
