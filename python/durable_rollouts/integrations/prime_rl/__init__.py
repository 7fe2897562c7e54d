"""Rollouts for prime-rl's trainer (docs/prime-rl.md): this takes the place of its orchestrator.

    python -m durable_rollouts.integrations.prime_rl orchestrator.toml
"""
