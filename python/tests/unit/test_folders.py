"""Weights in folders: engines that are away are waited for, and the log says so without repeating itself."""

import tempfile
import unittest
from pathlib import Path
from unittest import mock

from durable_rollouts import NotFound, PolicyUpdateFailed
from durable_rollouts.integrations import folders


class Publishing(unittest.TestCase):
    def publish(self, *faults):
        """Of a policy whose engines answer with these first."""
        policy = mock.Mock()
        policy.publish.side_effect = [*map(PolicyUpdateFailed, faults), {"version": 7}]
        with mock.patch.object(folders, "RETRY_S", 0):
            return folders.publish(policy, 7, "/weights/7", options={"cache": "keep"}), policy

    def test_why_it_waits_is_said_once_and_again_when_it_is_something_else(self):
        with self.assertLogs("durable_rollouts", "WARNING") as logs:
            result, policy = self.publish("a is away", "a is away", "a is away", "b is away", "a is away")
        self.assertEqual(result, {"version": 7})
        self.assertEqual(policy.publish.call_args_list, [mock.call(7, "/weights/7", cache="keep")] * 6)
        said = [line.partition(" s: ")[2] for line in logs.output]
        self.assertEqual(said, ["a is away", "b is away", "a is away"])
        self.assertIn("version 7 is not published yet, tried again for 300 s: a is away", logs.output[0])

    def test_another_trainer_that_holds_the_service_is_not_waited_for(self):
        with self.assertNoLogs("durable_rollouts"), self.assertRaisesRegex(PolicyUpdateFailed, '^holder: "a" has held'):
            self.publish('holder: "a" has held the service since then')

    def test_nothing_is_said_where_engines_are_there(self):
        with self.assertNoLogs("durable_rollouts"):
            self.publish()

    def test_a_query_waits_for_a_worker_and_an_unknown_policy_has_the_number_1(self):
        policy = mock.Mock()
        policy.status.side_effect = [TimeoutError("no worker answers"), {"record": {"version": 3, "target": 4}}, NotFound("nothing is published")]
        with mock.patch.object(folders, "RETRY_S", 0), self.assertLogs("durable_rollouts", "WARNING") as logs:
            self.assertEqual([folders.next_version(policy), folders.next_version(policy)], [5, 1])
        self.assertEqual([line.partition(": ")[2] for line in (one.partition(" s")[2] for one in logs.output)], ["no worker answers"])

    def test_at_last_it_raises_their_fault(self):
        with mock.patch.object(folders, "WAIT_S", 0), self.assertRaisesRegex(PolicyUpdateFailed, "a is away"):
            self.publish("a is away")

    def test_what_a_killed_trainer_had_begun_to_write_goes_with_the_next_weights(self):
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root)
            for left in (".6.4711", ".7.4712", "6"):
                (folder / left).mkdir()
            policy = mock.Mock()
            policy.publish.return_value = {"version": 7}
            save = lambda path: (path / "model").touch()  # noqa: E731
            folders.put_and_publish(policy, 7, save, folder=folder, options={})
            self.assertEqual(sorted(one.name for one in folder.iterdir()), ["6", "7"])
            self.assertTrue((folder / "7" / "model").exists())


if __name__ == "__main__":
    unittest.main()
