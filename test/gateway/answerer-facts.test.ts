/** Which worker holds a rollout, as each store keeps it: another process reads what one has put. */
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createAnswerers } from '../../src/activities/agent/answerer-facts.js';
import { createGateway } from '../../src/gateway/gateway.js';
import { Fault } from '../../src/model/faults.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import { rolloutId } from '../../src/model/workflow-safe/rollout-id.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { onEachStore } from '../fakes/stores.js';
import { REF } from '../fakes/temporary-store.js';
import { eventually } from '../../lab/bed/waiting.js';
import { says } from './asking.js';
import { gatewayBed, kill, SECRET } from './gateway-bed.js';

const ROLLOUT = rolloutId(REF);
const TIMES = { parked_ms: 20_000, keep_alive_ms: 20 };
const ours = () => Promise.resolve();

onEachStore((openStore) => {
  /** The facts as one process puts them, and as another reads them. */
  const twoProcesses = async (t: TestContext) => {
    const { store, elsewhere } = await openStore(t);
    const other = elsewhere();
    return { store, other, answerers: createAnswerers(store), others: createAnswerers(other) };
  };

  describe('the facts of answerers', () => {
    test('name the last attempt, and of many at once one', async (t) => {
      const { answerers, others } = await twoProcesses(t);
      const writers = Array.from({ length: 8 }, (_, n) => `w${n}`);
      await Promise.all(
        writers.map((writer, n) =>
          [answerers, others][n % 2]!.take(ROLLOUT, { url: 'http://a', writer, stillOurs: ours }),
        ),
      );
      const { writer } = (await others.find(ROLLOUT)) ?? assert.fail('no answerer');
      assert.ok(writers.includes(writer));
      await answerers.take(ROLLOUT, { url: 'http://b', writer: 'last', stillOurs: ours });
      assert.deepEqual(await others.find(ROLLOUT), { url: 'http://b', writer: 'last' });
    });

    test('never name an attempt that was frozen before it could say so, behind its successor', async (t) => {
      const { answerers, others } = await twoProcesses(t);
      let wake: (() => void) | null = null;
      let isOurs = true;
      const frozen = answerers.take(ROLLOUT, {
        url: 'http://old',
        writer: 'old',
        // It is frozen behind its look, and its put comes late.
        stillOurs: async () => {
          if (!isOurs) throw new Fault({ type: 'StoreFault', message: 'taken over' });
          await new Promise<void>((resolve) => (wake = resolve));
        },
      });
      const thaw = await eventually('its look', () => wake);
      isOurs = false;
      await others.take(ROLLOUT, { url: 'http://new', writer: 'new', stillOurs: ours });
      thaw();
      await assert.rejects(frozen, /taken over/);
      assert.deepEqual(await answerers.find(ROLLOUT), { url: 'http://new', writer: 'new' });
    });

    test('are gone when their rollout is over, but not those of another attempt', async (t) => {
      const { answerers, others } = await twoProcesses(t);
      const own = { url: 'http://a', writer: 'one' };
      await answerers.take(ROLLOUT, { ...own, stillOurs: ours });
      await others.leave(ROLLOUT, { ...own, writer: 'another' });
      assert.deepEqual(await others.find(ROLLOUT), own);
      await answerers.leave(ROLLOUT, own);
      assert.equal(await others.find(ROLLOUT), null);
    });
  });

  test('a call at a worker of another process is led to the answerer, then to the next one, then is 410', async (t) => {
    const { store, other, answerers, others } = await twoProcesses(t);
    const bed = await gatewayBed(t, { store, answerers, times: TIMES });
    const door = await createGateway({
      listen: '127.0.0.1:0',
      secret: SECRET,
      answerers: others,
      times: TIMES,
    });
    t.after(() => door.close());
    const before = await bed.open();
    const ask = () =>
      fetch(`${door.base_url}/chat/completions`, {
        method: 'POST',
        headers: before.headers,
        body: JSON.stringify(says('yes')),
      });
    const first = await ask();
    assert.deepEqual([first.status, first.redirected], [200, true]);
    const text = await first.text();
    // The next attempt is that of a worker which reads the journal with eyes of its own.
    await kill(before);
    const waiting = ask();
    const next = await gatewayBed(t, { store: other, answerers: others, times: TIMES });
    const after = await next.open({ again: true });
    const second = await waiting;
    assert.equal(second.status, 200);
    assert.ok(second.url.startsWith(after.url.replace('/v1', '')), second.url);
    // Whether the first answer arrived, nobody has written down: it is given again.
    assert.equal(await second.text(), text);
    assert.equal(after.journal.trajectory.calls.length, 1);
    await after.session.end('over');
    const by = author(after.journal.writer);
    const glance = glanceOf(after.journal.trajectory);
    await after.journal.append(entryOf(by.exit({ life: 1 })));
    await after.journal.append(entryOf(by.end({ stop_reason: 'terminated', glance })));
    await after.journal.sync();
    assert.deepEqual([await answerers.find(ROLLOUT), (await ask()).status], [null, 410]);
  });
});
