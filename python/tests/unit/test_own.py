"""A training's hold on a service, and rows of others: refused, never trained."""

import time
import unittest
from unittest import mock

import two_turns
from durable_rollouts import ForeignWeights, NotFound, PolicyUpdateFailed
from durable_rollouts.integrations import folders
from durable_rollouts.integrations.own import Own


def row(version, id="b/0-0"):
    return two_turns.row(rollout_id=id, policy_versions=[{"start": 0, "end": 3, "version": str(version)}])


def record(*courses, version, hold=None):
    known = {"version": version, "target": version, "courses": [dict(zip(("name", "first", "found"), one)) for one in courses]}
    return {**known, **({"hold": {"name": hold}} if hold else {})}


class Service:
    service = "default"

    def __init__(self, *answers, silent_s=0.0):
        self._answers = list(answers)
        self._silent_s = silent_s
        self.asked = []
        self._aio = self

    def status(self):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise NotFound("nothing has been published")
        return {"record": answer, "heard_at": 1000 * (time.time() - self._silent_s)}

    async def _begins(self, name):
        self.asked.append(name)

    def release(self, name):
        self.asked.append(f"release {name}")


class Holding(unittest.TestCase):
    def test_a_service_that_another_training_holds_is_refused_at_the_start_with_the_ways_on(self):
        service = Service(record(("a", 1, None), version=4, hold="a"), silent_s=61)
        with self.assertRaisesRegex(
            PolicyUpdateFailed,
            r"^holder: 'a' holds service 'default', and was heard 61 s ago; got 'b'\. A hold ends 5 min after its last sign of life, "
            r"or by `temporal-rollout policy release --holder a`; take_over=True takes the service from it$",
        ):
            Own(service, "b").begin()
        self.assertEqual(service.asked, [])

    def test_its_own_one_that_is_over_and_one_that_is_to_be_taken_over_are_begun(self):
        held = record(("a", 1, None), version=4, hold="a")
        for name, silent_s, take_over in (("a", 0, False), ("b", 301, False), ("b", 0, True)):
            service = Service(held, silent_s=silent_s)
            own = Own(service, name, take_over=take_over)
            own.begin()
            own.end()
            self.assertEqual(service.asked, [name, f"release {name}"])

    def test_one_rank_gives_the_signs_of_life(self):
        service = Service(None)
        own = Own(service, "a")
        own.begin(says=False)
        own.end()
        self.assertEqual(service.asked, [])

    def test_a_service_is_taken_over_once_so_that_two_do_not_take_it_from_each_other_for_ever(self):
        own = Own(Service(None), "a", take_over=True)
        self.assertEqual(own.options, {"holder": "a", "take_over": True})
        own.published()
        self.assertEqual(own.options, {"holder": "a"})

    def test_a_refused_release_does_not_fail_a_training_that_has_ended(self):
        service = Service(None)
        with mock.patch.object(service, "release", side_effect=PolicyUpdateFailed("holder: superseded")), self.assertLogs("durable_rollouts"):
            own = Own(service, "a")
            own.begin()
            own.end()


class Labels(unittest.TestCase):
    A, B, AGAIN = ("a", 3, 2), ("b", 6, 5), ("a", 8, 7)

    def test_versions_that_it_has_published_or_found_are_its_own(self):
        own = Own(Service(record(self.A, self.B, self.AGAIN, version=9)), "a")
        own.begin()
        own.check([row(version) for version in (2, 3, 5, 7, 8, 9)])

    def test_a_version_of_another_training_is_refused_with_rollout_version_and_name(self):
        own = Own(Service(record(self.A, self.B, self.AGAIN, version=9)), "a")
        own.begin()
        with self.assertRaisesRegex(
            ForeignWeights,
            r"^b/1-0: expected versions that 'a' has published, or found when it began, got 6, of 'b': two trainings share this service$",
        ):
            own.check([row(9), row(6, "b/1-0")])

    def test_what_another_training_brings_later_is_refused_and_what_this_one_brings_is_not(self):
        before, mine = record(self.A, version=4), record(self.A, version=5)
        own = Own(Service(before, mine, record(self.A, self.B, version=6)), "a")
        own.begin()
        own.check([row(5)])
        with self.assertRaisesRegex(ForeignWeights, "got 6, of 'b'"):
            own.check([row(6)])

    def test_versions_of_a_publish_without_a_name_are_foreign_too(self):
        own = Own(Service(record(self.A, (None, 6, 5), version=6)), "a")
        with self.assertRaisesRegex(ForeignWeights, "got 6, of a trainer without a name"):
            own.check([row(6)])

    def test_versions_from_before_the_record_had_names_are_nobodys(self):
        own = Own(Service(record(self.A, version=4)), "a")
        own.begin()
        own.check([row(0), row(1)])

    def test_a_version_that_the_record_does_not_have_is_refused(self):
        own = Own(Service(record(self.A, version=4)), "a")
        with self.assertRaisesRegex(ForeignWeights, "got 40"):
            own.check([row(40)])

    def test_a_record_that_is_not_there_yet_is_waited_for(self):
        own = Own(Service(None, None, record(self.A, version=4)), "a")
        with mock.patch.object(folders, "RETRY_S", 0), self.assertLogs("durable_rollouts"):
            own.check([row(4)])

    def test_a_row_without_a_version_is_nobodys(self):
        Own(Service(None), "a").check([two_turns.row(policy_versions=[])])


if __name__ == "__main__":
    unittest.main()
