import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import type { Sample } from '../../src/model/sample.js';
import type { ProgramBench } from '../fakes/program-bench.js';
import { programBench } from '../fakes/program-bench.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';
import type { Ended, Running } from '../servers/agent-service.js';

/** Forks of a program: it begins again, and is answered from the journal up to the call. */

const FORK = { ...REF, batch_id: 'fork' };

/** Three calls, each behind the answers to those before. */
const thrice = async ({ task, ask }: Running): Promise<Ended> => {
  const messages = [...task.message_log];
  for (const turn of [0, 1, 2]) {
    messages.push({ role: 'assistant', content: await ask(messages) });
    messages.push({ role: 'user', content: `more of ${turn}` });
  }
  return { reward: 1 };
};

async function played(t: TestContext, agent: object = {}): Promise<ProgramBench> {
  const bench = await programBench(t, { program: thrice, agent });
  const generation = { max_new_tokens: 8 };
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ max_seq_len: 4096, generation }),
    samples: [sampleOf('Go on.')],
  });
  await bench.result('openRollout', REF);
  return bench;
}

const plans = (bench: ProgramBench, at: string) =>
  bench.run('planBatch', {
    input: { fork: { rollout_id: `${BATCH}/0-0`, at } },
    workflow_id: 'fork',
  });

describe('a fork of a program', () => {
  test('at a call gives it the answers before, and samples this one anew', async (t) => {
    const bench = await played(t);
    const before = await bench.elsewhere().readTrajectory(REF);
    assert.equal((await plans(bench, 'turn:2')).error, undefined);
    const { error } = await bench.run('openRollout', { input: FORK, workflow_id: 'fork/0-0' });
    assert.equal(error, undefined);
    const trajectory = await bench.elsewhere().readTrajectory(FORK);
    const { calls, lives, end } = trajectory;
    assert.deepEqual([calls.length, lives.length, end?.stop_reason], [3, 2, 'terminated']);
    const idsOf = (one: typeof calls) => one.map(({ sampled }) => sampled.token_ids);
    assert.deepEqual(idsOf(calls).slice(0, 2), idsOf(before.calls).slice(0, 2));
    assert.deepEqual(
      calls.map(({ line, given }) => [line.life, given.get(2) ?? line.life === 2]),
      [
        [1, true],
        [1, true],
        [2, true],
      ],
    );
    const row = toRow({
      sample: JSON.parse(sampleOf('Go on.')) as Sample,
      ...{ ref: FORK, semantics: 'standard', trajectory },
      outcome: outcomeOf(trajectory, { stop_reason: 'cancelled' }),
    });
    const [first = 0, second = 0, third = 0] = idsOf(calls).map(({ length }) => length);
    assert.deepEqual(row.masked, [{ start: 0, end: first + second }]);
    assert.equal(row.all_tokens?.trained, third);
  });

  test('is refused at a token, behind the end, and where a program begins anew', async (t) => {
    const bench = await played(t);
    const refusal = async (at: string) =>
      ((await plans(bench, at)).error as { message?: string }).message;
    assert.match(
      (await refusal('token:3')) ?? '',
      /\(turn:0 to turn:3, calls of an agent\), got token:3$/,
    );
    assert.match(
      (await refusal('turn:4')) ?? '',
      /\(turn:0 to turn:3, calls of an agent\), got turn:4$/,
    );
    const anew = await played(t, { restart: 'fresh' });
    const { error } = await plans(anew, 'turn:1');
    assert.match(
      (error as { message: string }).message,
      /^fork\.at: expected turn:0, since environment task answers a program that begins again anew/,
    );
  });
});
