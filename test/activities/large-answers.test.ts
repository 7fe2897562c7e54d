import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Environment } from '../../src/environments/environment.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { idsOf, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { settled } from '../fakes/manual-clock.js';

const a = author('');

test('a large answer keeps its room while it is encoded, until it is journalled', async (t) => {
  const seen: Record<string, boolean> = {};
  const isFree = async (): Promise<boolean> => {
    const leave = new AbortController();
    const share = bench.dependencies.answers.share();
    let has = false;
    const taking = share.take(1, leave.signal).then(
      () => (has = true),
      () => undefined,
    );
    await settled();
    leave.abort(new Error('enough'));
    await taking;
    share.giveBack();
    return has;
  };
  const environment: Environment = {
    step: async (_input, { share, signal }) => {
      assert.ok(share !== undefined, 'a step has a share');
      seen['before'] = await isFree();
      await share.take(1_000_000, signal);
      return {
        observation: { role: 'environment', content: 'large' },
        reward: 1,
        terminated: true,
      };
    },
  };
  const scripted = scriptedService([]);
  const service = {
    ...scripted,
    tokenize: async (...given: Parameters<typeof scripted.tokenize>) => {
      seen['while it is encoded'] = await isFree();
      return await scripted.tokenize(...given);
    },
  };
  const bench = await activityBench(t, {
    environments: { task: environment },
    replicas: [service],
  });
  await bench.started();
  const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
  await journal.append(entryOf(a.chunk({ token_ids: idsOf('hello') })));
  await journal.append(
    entryOf(a.generation({ content: 'hello', token_count: 5, finish_reason: 'stop' })),
  );
  await journal.commit();
  await bench.result('stepEnvironment', AT);
  seen['behind it'] = await isFree();
  assert.deepEqual(seen, { before: true, 'while it is encoded': false, 'behind it': true });
});
