/** Two deployments that share an environment server and use the same ids for the same samples. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { createHttpEnvironment } from '../../src/environments/http/environment.js';
import { servePython, withoutPython as skip } from '../environments/python-server.js';
import { activityBench, AT } from '../fakes/activity-bench.js';
import { says, scriptedService } from '../fakes/scripted-service.js';
import { finish, planned } from '../fakes/sessions.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';
import { turnsOf } from '../../src/model/journal/calls.js';

/** Each session has a count of its own, which its name finds. It ends at two. */
const SOURCE = `
class Counts:
    def __init__(self):
        self.counts = {}

    def begin(self, sample):
        self.counts.setdefault(sample["session"], 0)
        return {"of": sample["session"]}

    def step(self, message_log_batch, metadata):
        name = metadata[0]["of"]
        self.counts[name] += 1
        seen = [{"role": "environment", "content": f"{self.counts[name]} of {len(self.counts)}"}]
        return {"observations": seen, "metadata": metadata, "rewards": [1.0], "terminateds": [self.counts[name] == 2]}

    def end(self, metadata, session):
        assert metadata["of"] == session
        del self.counts[session]
`;

/** One rollout of one deployment, whose policy says the same as the other's. */
async function deployment(t: TestContext, url: string) {
  const environment = createHttpEnvironment({ url, timeout_ms: 10_000 });
  t.after(() => environment.close());
  const service = scriptedService([says('on'), says('on')]);
  const bench = await activityBench(t, { environments: { task: environment }, service });
  const request = requestOf({ generation: { model: 'policy' } });
  await bench.store.createBatch({ batch_id: BATCH, request, samples: [sampleOf('go')] });
  return {
    open: () => bench.result('openRollout', REF),
    play: async (turn: number) => {
      await bench.result('generateTurn', { ...AT, turn });
      return (await bench.result('stepEnvironment', { ...AT, turn })).ended;
    },
    seen: async () => {
      const turns = turnsOf(await bench.elsewhere().readTrajectory(REF));
      return turns.map(({ observation }) => observation.message?.content);
    },
  };
}

describe('two deployments with one server, one batch id and one sample', { skip }, () => {
  test('have sessions and states of their own, turn by turn, and each ends its own', async (t) => {
    const { url } = await servePython(t, { source: SOURCE, name: 'Counts' });
    const [a, b] = [await deployment(t, url), await deployment(t, url)];
    for (const one of [a, b]) await one.open();
    assert.deepEqual([await a.play(0), await b.play(0)], [null, null]);
    assert.deepEqual([await b.play(1), await a.play(1)], ['terminated', 'terminated']);
    assert.deepEqual(await b.seen(), ['1 of 2', '2 of 2']);
    assert.deepEqual(await a.seen(), ['1 of 2', '2 of 1'], 'b has ended, and only its own');
  });
});

describe('a session', () => {
  test('is begun, played and ended under the id of its store, which its journal has', async (t) => {
    const script = [{ terminated: true }];
    const bench = await planned(t, { script, says: [says('a')] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    await bench.result('stepEnvironment', AT);
    const id = await bench.dependencies.storeId();
    assert.deepEqual(
      bench.sessions.deployments,
      ['begin', 'step', 'end'].map((call) => [call, id]),
    );
    const begins = (await bench.journalLines()).filter((line) => line.kind === 'begin');
    assert.deepEqual(
      begins.map(({ deployment: named }) => named),
      [id, id],
    );
  });

  test('that an older worker began is ended under the name that this one gave it', async (t) => {
    const bench = await planned(t);
    const journal = await bench.store.claim(REF, { activity: 'openRollout', reopen: true });
    const begin = { kind: 'begin' as const, task_name: 'task', messages: [], metadata: {} };
    for (const mark of [{ session: 'asked' as const }, {}])
      await journal.append({ ...begin, ...mark });
    await journal.commit();
    await finish(bench);
    assert.deepEqual(bench.sessions.deployments, [['end', undefined]]);
  });
});
