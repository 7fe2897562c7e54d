"""A type checker names each of the lines that say so."""

from durable_rollouts import BatchRequest, Client, gym, to_arrays
from rollout_environment import create_server
from rollout_environment.retriever import Retriever

request: BatchRequest = {"samples": [], "num_repeat": 8}  # wrong
client = Client.connect()
client.start_batch({"samples": 5}, "a")  # wrong
batch = client.batch("a")
n: str = batch.wait()["counts"]["completed"]  # wrong
batch.wait("5")  # wrong
client.stream("s").next_step("0")  # wrong
client.stream("s").progress()["phases"]  # wrong
client.policy().publish(1, "x", mode="keeps")  # wrong
to_arrays(batch.rows()).logprob  # wrong
create_server(object(), port="9000")  # wrong
Retriever("/data/wiki").search("text")[0].title  # wrong
gym.collect(input_jsonl_fpath="i", output_jsonl_fpath="o", num_repeat=2)  # wrong
