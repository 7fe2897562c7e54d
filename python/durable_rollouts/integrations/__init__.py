"""Rollouts for the trainers of others (docs/trainers.md). Each module needs its trainer's own package."""
