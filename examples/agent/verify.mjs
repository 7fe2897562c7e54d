/** What a rollout is worth: the share of its tests that pass. `submit` has run them, in the program's sandbox. */
export default {
  stepOne: ({ metadata: { submission } }) => {
    const { passed, tests } = JSON.parse(submission ?? '{"passed": 0, "tests": 1}');
    return {
      observation: `${passed} of ${tests} tests pass`,
      reward: passed / tests,
      terminated: true,
    };
  },
};
