import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { Environment } from '../../src/environments/environment.js';
import type { Row } from '../../src/model/results/row.js';
import { activityBench, AT } from '../fakes/activity-bench.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { BATCH, REF } from '../fakes/temporary-store.js';

type Bench = Awaited<ReturnType<typeof activityBench>>;

/** Gives these answers, one a turn, and ends with the last. */
function answering(answers: readonly (string | null)[]): Environment {
  const left = [...answers];
  return {
    step: () => {
      const answer = left.shift();
      assert.ok(answer !== undefined, 'a step more than there are answers');
      return Promise.resolve({
        observation: { role: 'environment', content: '' },
        reward: 0,
        terminated: left.length === 0,
        answer,
      });
    },
  };
}

/** Plays as many turns as the environment has answers, and closes the batch. */
async function rowOf(bench: Bench, turns: number): Promise<Row> {
  const a = author('');
  await bench.started();
  for (let turn = 0; turn < turns; turn++) {
    const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
    await journal.append(entryOf(a.chunk({ turn })));
    await journal.append(entryOf(a.generation({ turn })));
    await journal.commit();
    await bench.result('stepEnvironment', { ...AT, turn });
  }
  const journal = await bench.store.claim(REF, { activity: 'finishRollout' });
  await journal.append(entryOf(a.end({ stop_reason: 'terminated' })));
  await journal.commit();
  const { files } = await bench.result('closeBatch', { batch_id: BATCH, stopped: false });
  return JSON.parse(await readFile(files.rollouts, 'utf8')) as Row;
}

describe('what an environment extracts as the answer', () => {
  test('is in the journal turn by turn, and the last that it gave in the row', async (t) => {
    const environments = { task: answering(['3', '4', null]) };
    const bench = await activityBench(t, { environments });
    const row = await rowOf(bench, 3);
    assert.equal(row.extracted_answer, '4');
    const observed = (await bench.journalLines()).filter(({ kind }) => kind === 'observation');
    assert.deepEqual(
      observed.map((line) => (line as { answer?: string }).answer),
      ['3', '4', undefined],
    );
  });

  test('is a column only where it gave one', async (t) => {
    const bench = await activityBench(t, { environments: { task: answering([null]) } });
    assert.ok(!('extracted_answer' in (await rowOf(bench, 1))));
  });

  test('may be an empty text', async (t) => {
    const bench = await activityBench(t, { environments: { task: answering(['']) } });
    assert.equal((await rowOf(bench, 1)).extracted_answer, '');
  });
});
