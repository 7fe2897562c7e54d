"""Counts `left` down to 0, one a turn, and rewards the length of each reply."""


class Countdown:
    thread_safe = True

    def step(self, message_log_batch, metadata):
        left = [info["left"] - 1 for info in metadata]
        return {
            "observations": [{"role": "environment", "content": f"{n} left\n"} for n in left],
            "metadata": [{"left": n} for n in left],
            "next_stop_strings": None,
            "rewards": [min(1.0, len(log[-1]["content"]) / 256) for log in message_log_batch],
            "terminateds": [n <= 0 for n in left],
        }

    def global_post_process_and_metrics(self, batch):
        return batch, {"played": len(batch), "finished": sum(one["extra_env_info"]["left"] <= 1 for one in batch)}
