/** What each call of a task should return. Nothing in the sandbox knows it. */
const RIGHT = {
  clamp: [3, 0, 2],
  median: [2, 5, 5],
  is_prime: [true, false, true, false],
  initials: ['AL', 'GH', ''],
};

/** What a rollout is worth: the share of calls that return the right value. `submit` has made them, in the sandbox. */
export default {
  stepOne: ({ metadata: { function: name, submission } }) => {
    const right = RIGHT[name];
    const returned = read(submission) ?? [];
    const passed = right.filter((value, n) => read(returned[n]) === value).length;
    return {
      observation: `${passed} of ${right.length} calls return the right value`,
      reward: passed / right.length,
      terminated: true,
    };
  },
};

/** The policy may have written anything there. */
function read(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
