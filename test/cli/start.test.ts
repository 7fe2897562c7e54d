import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { BatchProgress } from '../../src/activities/contract.js';
import { runCommand } from '../../src/cli/command-line.js';
import { refusedAtOnce, startedText, withSettings } from '../../src/cli/start.js';
import type { BatchHandle } from '../../src/client/batch-client.js';
import type { Look } from '../../src/client/batch-client.js';

const IN_PHASE = (phase: BatchProgress['phase']) => ({ phase }) as BatchProgress;
const look = (found: Partial<Look>): Look => ({
  closed: false,
  progress: null,
  trouble: null,
  ...found,
});

/** A batch that shows one look after the other, and the last one again and again. */
function batch(looks: (Look | Error)[], outcome: BatchHandle['outcome']): BatchHandle {
  return {
    look: () => {
      const next = looks.length > 1 ? looks.shift() : looks[0];
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next ?? assert.fail());
    },
    outcome,
  };
}
const noOutcome = (): Promise<never> => assert.fail('it has none yet');
const planning = look({ progress: IN_PHASE('planning') });

describe('start without --watch', () => {
  test('knows that the batch was refused at once, and why', async () => {
    const failure = 'samples: expected at least one sample';
    const refused = batch([planning, look({ closed: true })], () => Promise.resolve({ failure }));
    assert.equal(await refusedAtOnce(refused, 10_000), failure);
  });

  test('does not wait for a batch that runs, or that no worker checks', async () => {
    for (const found of [
      look({ progress: IN_PHASE('running') }),
      look({ trouble: 'no worker answers' }),
      new Error('the server is away'),
    ])
      assert.equal(await refusedAtOnce(batch([planning, found], noOutcome), 60_000), null);
    assert.equal(await refusedAtOnce(batch([planning], noOutcome), 300), null, 'nor for long');
    const silent = { look: () => new Promise<Look>(() => undefined), outcome: noOutcome };
    assert.equal(await refusedAtOnce(silent, 100), null);
  });

  test('takes a batch that ends at once with a result for none that was refused', async () => {
    const result = {} as never;
    const ended = batch([look({ closed: true })], () => Promise.resolve({ result }));
    assert.equal(await refusedAtOnce(ended, 10_000), null);
  });
});

describe('start says', () => {
  const AT = { batchId: 'b', place: 'host:7233, namespace ns', taskQueue: 'q' };

  test('of a batch that has ended how many rows its result has, and how they are played again', () => {
    const there = { completed: 20, requested: 20 };
    assert.equal(
      startedText({ how: 'continued', there }, AT),
      'batch b continues on host:7233, namespace ns, task queue q: its last result has 20 of 20 rows; those that the store still has are not played again\nif the code of the reward has changed: another --id, or --restart',
    );
    assert.equal(
      startedText({ how: 'continued', there: null }, AT),
      'batch b continues on host:7233, namespace ns, task queue q',
    );
    assert.equal(
      startedText({ how: 'restarted' }, AT),
      'batch b is played again from the beginning on host:7233, namespace ns, task queue q',
    );
  });
});

describe('--set', () => {
  test('changes a field, in a group of settings too, as JSON or else as a text', () => {
    const request = { samples: { path: 'a.jsonl' }, generation: { seed: 1 } };
    assert.deepEqual(
      withSettings(request, [
        'generation.temperature=0.7',
        'generation.model=null',
        'max_seq_len=100',
        'semantics=nemo-rl',
        'policy_version="17"',
        'completion.policy=min_k',
        'completion.k=2',
      ]),
      {
        samples: { path: 'a.jsonl' },
        generation: { seed: 1, temperature: 0.7, model: null },
        max_seq_len: 100,
        semantics: 'nemo-rl',
        policy_version: '17',
        completion: { policy: 'min_k', k: 2 },
      },
    );
    assert.deepEqual(request.generation, { seed: 1 });
  });

  test('refuses what is no KEY=VALUE', () => {
    for (const setting of ['temperature', '=1', '__proto__.a=1', '.a=1'])
      assert.throws(() => withSettings({}, [setting]), /expected KEY=VALUE/);
  });
});

test('fork refuses with exit code 2 what names no rollout or no place', async (t) => {
  const errors: string[] = [];
  t.mock.method(console, 'error', (line: string) => errors.push(line));
  for (const [args, said] of [
    [['a/0-0'], /expected --at/],
    [['a', '--at', 'turn:1'], /expected BATCH\/ROW-REPEAT, got "a"/],
    [['a/0-0', '--at', 'turn'], /expected turn:N or token:N, got "turn"/],
    [['a/0-0', '--at', 'turn:1', '--repeats', '0'], /--repeats: expected an integer, 1 or more/],
    [['a/0-0', '--at', 'turn:1', '--id', 'a/b'], /--id: expected a batch id/],
  ] as const) {
    errors.length = 0;
    assert.equal(await runCommand(['fork', ...args]), 2);
    assert.match(errors.join(), said);
  }
  assert.equal(await runCommand(['start', '--like', 'a', '--input-file', 'b']), 2);
  assert.equal(await runCommand(['start', '--like', 'a/b', '--id', 'c']), 2);
});
