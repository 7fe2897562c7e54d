"""Rollouts for verl's trainers, V1 (docs/verl.md): an agent loop, and trainers that bring its weights to the engines.

    VERL_USE_EXTERNAL_MODULES=durable_rollouts.integrations.verl.trainer python -m verl.trainer.main_ppo \\
        trainer.v1.trainer_mode=durable_sync actor_rollout_ref.rollout.agent.agent_loop_config_path=agent.yaml …
"""
