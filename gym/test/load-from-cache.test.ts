import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { changedInputs } from '../resume/changed-inputs.js';
import { maxAttempts } from '../collection/collect.js';
import type { Resumed } from '../resume/load-from-cache.js';
import { loadFromCache, readMaterialized } from '../resume/load-from-cache.js';
import type { GymRow } from '../row.js';

const row = (task: number, more = ''): string =>
  `{"_ng_task_index": ${task}, "_ng_rollout_index": 0, "agent_ref": {"name": "ag"}, "responses_create_params": {"input": "q${task}"}${more}}`;
const failure = (task: number, more = ''): string =>
  `{"_ng_task_index": ${task}, "_ng_rollout_index": 0, "_ng_failure_class": "x"${more}}`;

const rowsOf = async (...lines: string[]): Promise<GymRow[]> =>
  (await readMaterialized(lines)).rows;

async function resume(files: { main?: string[]; failures?: string[] }): Promise<Resumed> {
  const rows = await rowsOf(row(0), row(1), row(2));
  return loadFromCache({
    rows,
    main: files.main ?? [],
    failures: files.failures ?? [],
    max_attempts: 3,
  });
}
const left = ({ rows }: Resumed): string[] =>
  rows.map(({ key, attempt_index }) => `${key.task}:${attempt_index}`);

describe('resuming', () => {
  // Upstream fails on a blank line of the main file.
  test('a blank line is passed over and reported, wherever it is', async () => {
    const resumed = await resume({ main: ['', row(0)], failures: ['  ', failure(1)] });
    assert.deepEqual(left(resumed), ['1:1', '2:0']);
    assert.deepEqual(resumed.problems, [
      'results, line 1: a blank line: passed over',
      'failures, line 1: a blank line: passed over',
    ]);
  });

  test('a line that is JSON but no object is passed over and reported', async () => {
    const { problems } = await resume({ main: ['[1]'], failures: ['5'] });
    assert.deepEqual(problems, [
      'results, line 1: no JSON object: passed over',
      'failures, line 1: no JSON object: passed over',
    ]);
  });

  test('a result that nests deeper than a parser follows is one', async () => {
    const deep = `${'['.repeat(6000)}${']'.repeat(6000)}`;
    const { done, problems } = await resume({ main: [row(0, `, "x": ${deep}`)] });
    assert.deepEqual([done, problems], [[{ task: 0, rollout: 0 }], []]);
  });

  test('a second result of a row is reported, and both stay', async () => {
    const { problems, done } = await resume({ main: [row(0), row(0)] });
    assert.equal(done.length, 2);
    assert.deepEqual(problems, ['results, line 2: a second result of 0-0: both stay']);
  });

  // Upstream writes a line for each attempt; this project one for all tries of a collection.
  test('one failure line is one, however often its collection tried the row, and no attempt’s index is given twice', async () => {
    const third = failure(0, ', "_ng_attempt_index": 2');
    const second = failure(1, ', "_ng_attempt_index": 1');
    const resumed = await resume({ failures: [third, second] });
    assert.deepEqual(left(resumed), ['0:3', '1:2', '2:0']);
    assert.match(resumed.summary, /- 2 prior failure attempts \(2 unique tasks\) in sidecar/);
    assert.match(resumed.summary, /- 0 hit max_attempts=3/);
  });

  test('three lines are the end of a row, and the largest index continues where lines are fewer', async () => {
    const resumed = await resume({
      failures: [
        ...[failure(0), failure(0, ', "_ng_attempt_index": 5'), failure(0)],
        ...[failure(1), failure(1, ', "_ng_attempt_index": 4')],
      ],
    });
    assert.deepEqual(left(resumed), ['1:5', '2:0']);
  });

  // Upstream's fresh run leaves the sidecar as it is, and counts what is in it at the next resume.
  test('failures of another collection are reported and never count', async () => {
    const resumed = await resume({
      failures: [
        failure(7),
        failure(0, ', "agent_ref": {"name": "other"}'),
        failure(
          1,
          ', "responses_create_params": {"input": [{"role": "user", "content": "older"}]}',
        ),
        '{"_ng_failure_class": "x"}',
      ],
    });
    assert.deepEqual(left(resumed), ['0:0', '1:0', '2:0']);
    assert.deepEqual(resumed.problems, [
      'failures, line 1: a failure of 7-0, which is no row of this collection: not counted',
      'failures, line 2: a failure of 0-0 with another agent or input: not counted',
      'failures, line 3: a failure of 1-0 with another agent or input: not counted',
      'failures, line 4: no task and rollout index: not counted',
    ]);
  });

  test("a failure that echoes the input in the agent's own form counts", async () => {
    const messages =
      '[{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "input_text", "text": "q1"}]}]';
    const resumed = await resume({
      failures: [
        failure(0, ', "agent_ref": {"type": "responses_api_agents", "name": "ag"}'),
        failure(1, `, "responses_create_params": {"input": ${messages}, "temperature": 1.0}`),
      ],
    });
    assert.deepEqual(left(resumed), ['0:1', '1:1', '2:0']);
    assert.deepEqual(resumed.problems, []);
  });
});

describe('changed inputs', () => {
  const changes = async (cached: string[], now: string[]): Promise<string[]> =>
    changedInputs({ cached: await rowsOf(...cached), now: await rowsOf(...now) });

  test('the same rows, in another order and with numbers in another form, are no change', async () => {
    const a = row(0, ', "x": 1e-07, "y": 12345678901234567890, "_ng_attempt_index": 1');
    const b = row(0, ', "y": 12345678901234567890, "x": 1e-7');
    assert.deepEqual(await changes([a, row(1)], [row(1), b]), []);
  });

  test('each changed row is named with its first field that differs', async () => {
    assert.deepEqual(
      await changes(
        [row(0, ', "a": {"b": [1, 2]}'), row(1), row(2), row(3, ', "n": 9007199254740993')],
        [
          row(0, ', "a": {"b": [1, 3]}'),
          row(1, ', "new": "x"'),
          row(4),
          row(3, ', "n": 9007199254740992'),
        ],
      ),
      [
        'row 0-0: a.b.1 was 2, is 3',
        'row 1-0: new was not there, is "x"',
        'row 4-0: is new',
        'row 3-0: n was 9007199254740993, is 9007199254740992',
        'row 2-0: is gone',
      ],
    );
  });

  test('one field that changed in many rows is one line', async () => {
    const three = (more: (task: number) => string): string[] =>
      [0, 1, 2].map((task) => row(task, more(task)));
    const cached = three(() => ', "t": 1');
    assert.deepEqual(
      await changes(
        cached,
        three(() => ', "t": 2'),
      ),
      ['all 3 rows: t was 1, is 2'],
    );
    assert.deepEqual(
      await changes(
        cached,
        three((task) => `, "t": ${task + 5}`),
      ),
      ['all 3 rows: t was 1, is 5 in row 0-0'],
    );
    assert.deepEqual(
      await changes(
        cached,
        three((task) => (task < 2 ? ', "t": 2' : ', "t": 1')),
      ),
      ['row 0-0 and 1 more: t was 1, is 2'],
    );
    assert.deepEqual(await changes(cached, cached.slice(2)), ['row 0-0 and 1 more: are gone']);
  });

  test('at most ten fields are named', async () => {
    const many = (value: number): string[] =>
      Array.from({ length: 13 }, (_, task) => row(task, `, "f${task}": ${value}`));
    const found = await changes(many(1), many(2));
    assert.equal(found.length, 11);
    assert.equal(found.at(-1), '… and 3 more fields');
  });

  test('rows that were lost with a torn line are no change', async () => {
    const { rows, whole, problems } = await readMaterialized([row(0), '{"_ng_ta']);
    assert.equal(whole, false);
    assert.match(problems[0]!, /^materialized inputs, line 2: torn/);
    assert.deepEqual(changedInputs({ cached: rows, now: await rowsOf(row(0), row(1)), whole }), []);
  });
});

describe('NEMO_GYM_MAX_ROLLOUT_ATTEMPTS', () => {
  const read = (value?: string): { max_attempts: number; warning: string | null } => {
    let warning: string | null = null;
    const env = value === undefined ? {} : { NEMO_GYM_MAX_ROLLOUT_ATTEMPTS: value };
    const max_attempts = maxAttempts(env, (text) => {
      warning = text;
    });
    return { max_attempts, warning };
  };

  test('a positive integer counts, as Python reads one; unset and empty are 3', () => {
    for (const [value, count] of [
      ['5', 5],
      [' 1_0 ', 10],
      ['+2', 2],
      ['', 3],
    ] as const) {
      assert.deepEqual(read(value), { max_attempts: count, warning: null });
    }
    assert.deepEqual(read(), { max_attempts: 3, warning: null });
  });

  test("anything else is 3, with upstream's warning", () => {
    assert.deepEqual(read('x'), {
      max_attempts: 3,
      warning:
        "WARNING: could not parse NEMO_GYM_MAX_ROLLOUT_ATTEMPTS='x' (invalid literal for int() with base 10: 'x'); falling back to default 3.",
    });
    assert.match(read('-1').warning ?? '', /must be >= 1, got -1/);
  });
});
