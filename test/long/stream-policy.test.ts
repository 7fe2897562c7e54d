import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { streamTable } from '../../src/client/stream-table.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import type { StreamToTest } from '../../lab/bed/stream.js';
import { faultOf, overtakenIn } from '../../lab/bed/stream.js';
import { eventually } from '../../lab/bed/waiting.js';

const STEPS = 4;

async function startOn(
  bed: PolicyBed,
  { id, ...change }: { id: string } & Record<string, unknown>,
): Promise<StreamToTest> {
  const { samples, generation } = puzzleBatch({ samples: 8, repeats: 2, max_rollout_turns: 2 });
  const stream = bed.stream(id);
  const request = { samples, generation, max_rollout_turns: 2, num_repeats: 2 };
  await stream.start({ ...request, groups_per_step: 2, ...change });
  return stream;
}

async function end(stream: StreamToTest): Promise<void> {
  await stream.handle().signal('stop');
  await stream.handle().result();
}

test('while no replica could load what was published first, a stream says which, why, and what to do', async (t) => {
  const bed = await startPolicyBed({ name: 'stream-unserved', replicas: 1 });
  t.after(() => bed.end());
  const missing = { kind: 'checkpoint' as const, path: '/no/such/file' };
  const { message } = await faultOf(bed.publish({ ...(await bed.weights(1)), weights: missing }));
  assert.match(message, /was not reached/);
  const stream = await startOn(bed, { id: 'unserved', max_lag: 1 });
  const batch = bed.batch('held-up');
  const held = {
    ...puzzleBatch({ samples: 2, repeats: 2, max_rollout_turns: 2 }),
    rollout_timeout: '10s',
  };
  await batch.start(held);
  const began = Date.now();

  const replica = bed.engines[0]?.replica ?? '';
  const why = `no replica serves: ${replica} is unknown (load: `;
  const remedy = '; publish a version that loads';
  const names = (text: string): void => {
    assert.ok(text.includes(why) && text.includes('no such file') && text.includes(remedy), text);
  };
  const progress = await eventually('the stream to say it', async () => {
    const now = await stream.progress();
    return now.waiting?.message.startsWith('no replica serves') && now;
  });
  const lines = streamTable('unserved', progress);
  const line = lines.find((one) => one.startsWith('waiting for ')) ?? lines.join('\n');
  names(line);
  assert.match(
    line,
    /^waiting for policy default \(since \d{4}-\d\d-\d\d [\d:]+ UTC\): no replica/,
  );
  const answer = await stream.ask({ step: 0, wait: '2s' });
  assert.ok(!answer.ready);
  names(answer.why);

  await eventually('the batch to say it', async () => {
    const { waiting } = await batch.progress();
    return waiting?.service === 'policy default' && (names(waiting.message), true);
  });
  await sleep(Math.max(0, began + 15_000 - Date.now()));
  await bed.publish(await bed.weights(2));
  const { result } = await batch.outcome();
  assert.equal(result?.counts.completed, 4, 'rollout_timeout does not run while nothing serves');
  await eventually('nothing to wait for', async () => (await stream.progress()).waiting === null);
  assert.ok(
    !streamTable('unserved', await stream.progress())
      .join('\n')
      .includes('waiting for'),
  );
  assert.equal((await stream.step(0, 2)).version, 2);
  await end(stream);
});

describe('a stream whose policy moves', () => {
  let bed: PolicyBed;
  let version = 0;
  before(async () => {
    bed = await startPolicyBed({ name: 'stream-policy', replicas: 1 });
  });
  after(() => bed.end());

  const publish = async (): Promise<number> => {
    version += 1;
    await bed.publish(await bed.weights(version));
    return version;
  };
  const started = (id: string, change: Record<string, unknown>) => startOn(bed, { id, ...change });

  test('waits so that no token is older than max_lag, and discards nothing', async () => {
    await publish();
    const stream = await started('waits', { max_lag: 1 });
    for (let step = 0; step < STEPS; step++) {
      const { metrics, version: of } = await stream.step(step, version);
      assert.equal(of, version);
      assert.equal(metrics['lag/over'], 0, JSON.stringify(metrics));
      assert.ok((metrics['lag/max'] ?? 9) <= 1);
      assert.equal(metrics['stream/dropped'], 0);
      await publish();
    }
    await end(stream);
  });

  test('with max_lag 0 says what has to be published first', async () => {
    const stream = await started('ahead', { max_lag: 0 });
    await stream.step(0, version);
    const asked = { step: 1, version: version + 1, wait: '3s' };
    const answer = await stream.ask(asked);
    assert.equal(answer.ready, false);
    assert.match(
      JSON.stringify(answer),
      new RegExp(
        `asked with version ${version + 1}, replicas serve ${version}, max_lag 0: publish ${version + 1} first`,
      ),
    );
    await publish();
    assert.equal((await stream.step(1, version)).metrics['lag/over'], 0);
    await end(stream);
  });

  test('drops groups that a jump has made too old, and counts them', async () => {
    const stream = await started('drops', { max_lag: 1, when_stale: 'drop' });
    await stream.step(0, version);
    for (let i = 0; i < 3; i++) await publish();
    const { metrics } = await stream.step(1, version);
    assert.equal(metrics['lag/over'], 0, JSON.stringify(metrics));
    assert.ok((metrics['stream/dropped'] ?? 0) > 0, JSON.stringify(metrics));
    await end(stream);
  });

  test('masks tokens that a jump has made too old, by name', async () => {
    const stream = await started('masks', { max_lag: 1, when_stale: 'mask' });
    await stream.step(0, version);
    for (let i = 0; i < 3; i++) await publish();
    // Which they are is computed again from the rows.
    const { masked = 0, over = 0 } = (await stream.lag(await stream.step(1, version))) ?? {};
    assert.ok(masked > 0 && over > 0);
    await end(stream);
  });

  test('says aloud which groups a jump has made too old: with their step, and in each row', async () => {
    const stream = await started('jumps', { max_lag: 1 });
    const before = (await stream.step(0, version)).version ?? 0;
    await eventually('a whole step', async () => (await stream.progress()).banked >= 2);
    for (let i = 0; i < 3; i++) await publish();
    const result = await stream.step(1, version);
    const { metrics } = result;
    assert.deepEqual([metrics['lag/over'], metrics['lag/max']], [2, 3]);
    const said = `^step 1: groups \\d, \\d have tokens up to 3 versions behind version ${version}, max_lag is 1; versions went from ${before} to ${version} in one step, versions_per_step is 1$`;
    assert.match(overtakenIn(result).join('\n'), new RegExp(said));
    for (const row of await stream.rows(1)) assert.equal(row['token_lag'], 3);
    assert.deepEqual(overtakenIn(await stream.step(2, version)), []);
    await end(stream);
  });

  test('takes what was published just before, not what it saw last', async () => {
    const stream = await started('fresh', { max_lag: 1 });
    for (let step = 0; step < STEPS; step++) {
      assert.equal((await stream.step(step)).version, version);
      await publish();
    }
    await end(stream);
  });

  test('refuses versions that make its lag a lie, and says which it takes', async () => {
    const stream = await started('refuses', { max_lag: 1 });
    await stream.step(0, version);
    const refused = async (asked: { step: number; version: number }): Promise<string> => {
      const { type, message } = await faultOf(stream.ask({ ...asked, wait: '5s' }));
      assert.equal(type, 'StepOutOfOrder');
      return message;
    };
    assert.match(
      await refused({ step: 0, version: version + 1 }),
      new RegExp(
        `^version: step 0 was delivered for version ${version}, got ${version + 1}; ask for it without`,
      ),
    );
    assert.equal((await stream.step(0)).version, version);
    assert.match(
      await refused({ step: 1, version: version + 200 }),
      new RegExp(
        `^version: expected at most ${version + 1}, because ${version} is the last one published, got ${version + 200}; publish it first$`,
      ),
    );
    await publish();
    assert.match(
      await refused({ step: 1, version: version - 1 }),
      new RegExp(
        `^version: expected at least ${version}, which replicas serve, got ${version - 1}; `,
      ),
    );
    // A jump that was published a moment ago is none.
    version += 50;
    await publish();
    assert.equal((await stream.step(1, version)).version, version);
    await end(stream);
  });
});

test('what was sampled before anybody knew a version has no lag: it is counted, and masked', async (t) => {
  const bed = await startPolicyBed({ name: 'stream-unknown', replicas: 1 });
  t.after(() => bed.end());
  const waits = await startOn(bed, { id: 'waits', max_lag: 1 });
  const masks = await startOn(bed, { id: 'masks', max_lag: 1, when_stale: 'mask' });
  await eventually('a whole step', async () => (await waits.progress()).banked >= 2);
  assert.equal((await masks.progress()).admitted, 0, 'what would only be masked is not played');
  for (const version of [1, 2, 3, 4, 5]) await bed.publish(await bed.weights(version));
  const { metrics, version } = await waits.step(0);
  assert.equal(version, 5);
  const rows = await waits.rows(0);
  const tokens = rows
    .flatMap((row) => row.policy_versions)
    .reduce((sum, { start, end }) => sum + end - start, 0);
  assert.equal(metrics['lag/unknown'], tokens);
  assert.equal(metrics['lag/max'], undefined);
  for (let step = 0; step < 2; step++)
    assert.equal((await masks.step(step)).metrics['lag/unknown'], 0);
  await end(waits);
  await end(masks);
});
