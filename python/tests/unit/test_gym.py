"""``durable_rollouts.gym`` with a program in place of ``temporal-rollout``, which says and writes what a test tells it."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from durable_rollouts import InvalidBatchRequest, gym
from durable_rollouts.gym import program
from durable_rollouts.gym.fields import value_text
from durable_rollouts.stack import Command

PATIENCE_S = 180

FAKE = """
import json, os, signal, sys, time

def given(name):
    [value] = [one for one in sys.argv if one.startswith(f"+{name}=")]
    return value.partition("=")[2].strip("'")

def write(suffix, *lines):
    path = given("output_jsonl_fpath")[: -len(".jsonl")] + suffix
    with open(path, "a") as file:
        file.write("".join(json.dumps(line) + "\\n" for line in lines))

def say(*lines):
    print(*lines, sep="\\n", flush=True)

def end(*_):
    open("interrupted", "w").close()
    os._exit(130)

signal.signal(signal.SIGINT, end)
json.dump(sys.argv[1:], open("argv.json", "w"))
"""


def result(task, rollout=0, **more):
    return {"_ng_task_index": task, "_ng_rollout_index": rollout, **more}


class WithProgram(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name).resolve()
        before = os.getcwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)

    def program(self, text):
        """From now on, this is what ``temporal-rollout`` does."""
        (self.folder / "fake.py").write_text(FAKE + text)
        command = Command([sys.executable, str(self.folder / "fake.py")], None)
        patch = mock.patch.object(program, "find_command", return_value=command)
        patch.start()
        self.addCleanup(patch.stop)

    def argv(self):
        return json.loads((self.folder / "argv.json").read_text())

    def collect(self, **more):
        return gym.collect(input_jsonl_fpath="in.jsonl", output_jsonl_fpath=Path("out/r.jsonl"), show=False, **more)


class Collect(WithProgram):
    def test_is_the_command_with_the_fields_as_its_arguments_and_returns_the_files(self):
        self.program('say("Aggregate metrics: out/r_aggregate_metrics.json")')
        done = self.collect(
            config="temporal.yaml",
            arguments=["--run-timeout", "30m"],
            agent_name="it's",
            num_repeats={"a": 32, "_default": 1},
            limit=None,
            resume_from_cache=True,
            responses_create_params={"temperature": 0.6},
        )
        self.assertEqual(
            self.argv(),
            [
                *("collect", "--config", "temporal.yaml", "--run-timeout", "30m"),
                *("+input_jsonl_fpath='in.jsonl'", "+output_jsonl_fpath='out/r.jsonl'", "+agent_name='it\\'s'"),
                *("+num_repeats={'a':32,'_default':1}", "+limit=null", "+resume_from_cache=true"),
                "+responses_create_params={'temperature':0.6}",
            ],
        )
        out = self.folder / "out"
        self.assertEqual(
            done,
            gym.Collection(out / "r.jsonl", out / "r_materialized_inputs.jsonl", out / "r_failures.jsonl", out / "r_aggregate_metrics.json"),
        )

    def test_without_metrics_names_none_also_where_an_earlier_run_left_some(self):
        self.program('os.mkdir("out"); write("_aggregate_metrics.json", []); say("Aggregate metrics: None")')
        self.assertIsNone(self.collect(disable_aggregation=True).aggregate_metrics)

    def test_returns_its_results_sorted_and_without_torn_lines(self):
        self.program('os.mkdir("out")')
        done = self.collect()
        done.rollouts.write_text("\n".join(json.dumps(one) for one in (result(1), result(0, 1), result(0), "no object")) + '\n{"_ng_ta')
        self.assertEqual(done.results(), [result(0), result(0, 1), result(1)])

    def test_that_fails_raises_the_last_words_of_the_command_and_its_code(self):
        self.program('say(*(f"line {n}" for n in range(99)), "2 rows failed"); sys.exit(1)')
        with self.assertRaisesRegex(gym.CollectionFailed, r"(?s)^temporal-rollout collect ended with code 1:\nline 88\n.*\n2 rows failed$") as raised:
            self.collect()
        self.assertEqual(raised.exception.code, 1)

    def test_refuses_an_unknown_field_with_the_nearest_and_a_value_that_json_lacks_before_anything_starts(self):
        self.program("")
        with self.assertRaisesRegex(TypeError, r"^collect: unknown field 'num_repeat'; did you mean num_repeats\?$"):
            self.collect(num_repeat=4)
        with self.assertRaisesRegex(TypeError, r"unknown field 'zzz'; other keys of Gym's configuration: arguments=\[\"\+zzz=…\"\]"):
            self.collect(zzz=4)
        with self.assertRaisesRegex(InvalidBatchRequest, "responses_create_params.temperature: .*nan"):
            self.collect(responses_create_params={"temperature": float("nan")})
        self.assertFalse((self.folder / "argv.json").exists())

    def test_runs_the_set_up_of_a_clone_first_and_names_it_where_it_fails(self):
        command = Command([sys.executable, "-c", "raise SystemExit('never')"], [sys.executable, "-c", "raise SystemExit('no network')"])
        with mock.patch.object(program, "find_command", return_value=command), self.assertRaisesRegex(gym.CollectionFailed, "^the project's set-up ended with code 1:\nno network$"):
            self.collect()

    def test_interrupts_the_command_and_waits_for_its_end(self):
        self.program('say("begun"); time.sleep(600)')

        def interrupt(line):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            program.Program(show=False, heard=interrupt).run(["collect"])
        self.assertTrue((self.folder / "interrupted").exists())

    def test_ends_the_command_by_the_end_of_this_process_however_it_dies(self):
        self.program('say("begun"); sys.stdin.read(); open("ended", "w").close()')
        trainer = """
import sys
from durable_rollouts.gym import program
from durable_rollouts.stack import Command
program.find_command = lambda: Command([sys.executable, "fake.py"], None)
program.Program(show=False, heard=lambda line: print(line, flush=True)).run(["collect"])
"""
        with subprocess.Popen([sys.executable, "-c", trainer], stdout=subprocess.PIPE) as process:
            self.assertEqual(process.stdout.readline(), b"begun\n")
            process.send_signal(signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while not (self.folder / "ended").exists():
            self.assertLess(time.monotonic(), until, "the command lives on")
            time.sleep(0.05)


class Aggregate(WithProgram):
    def test_is_the_command_and_returns_the_file_of_metrics(self):
        self.program('say("Aggregate metrics: out_aggregate_metrics.json")')
        found = gym.aggregate(input_glob=["a.jsonl", Path("b.jsonl")], output_jsonl_fpath="out.jsonl", merge_shards=False, show=False)
        self.assertEqual(found, self.folder / "out_aggregate_metrics.json")
        self.assertEqual(self.argv(), ["aggregate", "+input_glob='a.jsonl,b.jsonl'", "+output_jsonl_fpath='out.jsonl'", "+merge_shards=false"])

    def test_without_results_returns_none(self):
        self.program('say("Aggregate metrics: <no results>")')
        self.assertIsNone(gym.aggregate(input_glob="*", output_jsonl_fpath="out.jsonl", show=False))


class Examples(WithProgram):
    ROWS = [{"q": 1}, {"q": 2}, {"q": 1}, {"q": 3}]
    """The third is a second rollout of the first one's task."""

    def ended(self, rows=ROWS, **more):
        """What awaiting each gives, in the order in which they end."""

        async def all_of_them():
            found = []
            for future in gym.run_examples(rows, show=False, **more):
                try:
                    found.append(await asyncio.wait_for(future, PATIENCE_S))
                except (gym.RowFailed, gym.CollectionFailed) as error:
                    found.append(error)
            return found

        return asyncio.run(all_of_them())

    def test_come_as_they_end_each_with_the_row_that_was_given(self):
        self.program(
            """
say("Collecting rollouts: 4 rows")
for key in ((1, 0), (0, 1), (2, 0), (0, 0)):
    write(".jsonl", {"_ng_task_index": key[0], "_ng_rollout_index": key[1], "reward": sum(key)})
assert [json.loads(line)["q"] for line in open(given("input_jsonl_fpath"))] == [1, 2, 1, 3]
"""
        )
        found = self.ended(head_server_config={"host": "h", "port": 5, "more": 1}, num_samples_in_parallel=2)
        self.assertEqual([one["reward"] for _, one in found], [1, 1, 2, 0])
        for (row, _), given in zip(found, (1, 2, 3, 0)):
            self.assertIs(row, self.ROWS[given])
        argv = self.argv()
        for one in ("+head_server={'host':'h','port':5}", "+num_samples_in_parallel=2", "+resume_from_cache=true", "--folder"):
            self.assertIn(one, argv)
        [output] = [one for one in argv if one.startswith("+output_jsonl_fpath=")]
        # The last row comes before the program ends.
        for thread in threading.enumerate():
            if thread.name == "run_examples":
                thread.join(PATIENCE_S)
        self.assertFalse(Path(output.partition("'")[2]).parent.exists(), "its files are left")

    def test_that_fail_raise_alone_and_so_do_those_without_a_line(self):
        self.program(
            """
say("Collecting rollouts: 4 rows")
write("_failures.jsonl", {"_ng_task_index": 1, "_ng_rollout_index": 0, "_ng_failure_class": "timeout", "error": {"message": "4 h are over"}})
write(".jsonl", *({"_ng_task_index": 0, "_ng_rollout_index": n} for n in (0, 1)))
"""
        )
        found = self.ended()
        results = [one for one in found if isinstance(one, tuple)]
        failed = [one for one in found if isinstance(one, gym.RowFailed)]
        self.assertEqual(len(results), 2)
        self.assertEqual([(str(one), one.row, one.failure is None) for one in failed], [("timeout: 4 h are over", {"q": 2}, False), ("no result", {"q": 3}, True)])

    def test_raise_the_words_of_a_command_that_fails_and_no_result_of_other_rows_that_is_there(self):
        self.program('say("The inputs have changed"); sys.exit(1)')
        (self.folder / "kept.jsonl").write_text(json.dumps(result(0, reward=9)) + "\n")
        found = self.ended(output_jsonl_fpath="kept.jsonl")
        self.assertEqual([type(one) for one in found], [gym.CollectionFailed] * 4)
        self.assertIn("The inputs have changed", str(found[0]))

    def test_continue_with_their_file_whose_failures_of_earlier_runs_are_over(self):
        (self.folder / "kept.jsonl").write_text("".join(json.dumps(result(*key)) + "\n" for key in ((0, 0), (0, 1))))
        (self.folder / "kept_failures.jsonl").write_text("".join(json.dumps(result(*key)) + "\n" for key in ((1, 0), (2, 0))))
        self.program('say("Collecting rollouts: 4 rows"); write(".jsonl", *({"_ng_task_index": n, "_ng_rollout_index": 0} for n in (1, 2)))')
        self.assertEqual([type(one) for one in self.ended(output_jsonl_fpath="kept.jsonl")], [tuple] * 4)

    def test_have_their_results_also_where_nothing_was_left_to_play(self):
        (self.folder / "kept.jsonl").write_text(json.dumps(result(0)) + "\n")
        self.program("")
        self.assertEqual(self.ended([{"q": 1}], output_jsonl_fpath="kept.jsonl"), [({"q": 1}, result(0))])

    def test_that_nobody_waits_for_any_more_are_interrupted(self):
        self.program('write(".jsonl", {"_ng_task_index": 1, "_ng_rollout_index": 0}); say("Collecting rollouts: 4 rows"); time.sleep(600)')

        async def first():
            rows = gym.run_examples(self.ROWS, show=False)
            found = await asyncio.wait_for(next(rows), PATIENCE_S)
            rows.close()
            return found

        self.assertEqual(asyncio.run(first())[0], {"q": 2})
        for thread in threading.enumerate():
            if thread.name.startswith("run_examples"):
                thread.join(PATIENCE_S)
        self.assertTrue((self.folder / "interrupted").exists())

    def test_may_be_none_and_unknown_fields_are_refused_at_once(self):
        self.program("raise SystemExit('never')")
        self.assertEqual(self.ended([]), [])
        with self.assertRaisesRegex(TypeError, "run_examples: unknown field 'num_repeats'"):
            gym.run_examples(self.ROWS, num_repeats=2)


class Values(unittest.TestCase):
    def test_are_written_in_hydras_grammar(self):
        for value, text in (
            (None, "null"),
            (True, "true"),
            (1e-07, "1e-07"),
            ("a,b=${c}", "'a,b=${c}'"),
            ("\\'", "'\\\\\\''"),
            ("end\\", "'end\\\\'"),
            ([1, ["x"]], "[1,['x']]"),
            ({"a.b": {}}, "{'a.b':{}}"),
        ):
            self.assertEqual(value_text(value), text)


if __name__ == "__main__":
    unittest.main()
