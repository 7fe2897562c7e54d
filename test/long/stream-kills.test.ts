/** Streams under kill -9: STREAM_KILLS (default 6) of worker, Temporal server and engine, then the database is lost. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import type { StreamToTest } from '../../lab/bed/stream.js';
import { within } from '../../lab/bed/waiting.js';
import { createRandom } from '../../simulator/random.js';

const KILLS = Number(process.env['STREAM_KILLS'] ?? 6);
const SEED = Number(process.env['STREAM_KILLS_SEED'] ?? 1);

describe('a stream', () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({ name: 'stream-kills', own_server: true, replicas: 1 });
  });
  after(() => bed.end());

  const victims: Record<string, () => Promise<void>> = {
    worker: () => bed.worker.kill(),
    server: async () => {
      await bed.killServer();
      await bed.startServer();
    },
    engine: async () => {
      await bed.engines[0]!.kill();
      await bed.engines[0]!.start();
    },
  };
  const request = (): Record<string, unknown> => {
    const { samples, generation } = puzzleBatch({ samples: 8, repeats: 2, max_rollout_turns: 2 });
    return { samples, generation, max_rollout_turns: 2, num_repeats: 2, groups_per_step: 2 };
  };
  /** A disconnected trainer asks again. */
  const stepThrough = async (stream: StreamToTest, step: number): Promise<string> => {
    for (const end = Date.now() + 600_000; ;) {
      try {
        // A call on a broken connection may hang.
        await within({ what: `step ${step}`, timeout_ms: 40_000 }, stream.step(step, step));
        return await stream.hash(step);
      } catch (error) {
        if (Date.now() > end) throw error;
        await sleep(1000);
      }
    }
  };
  const groupsOf = async (stream: StreamToTest, steps: number): Promise<number[]> =>
    (
      await Promise.all(
        Array.from({ length: steps }, async (_, step) => (await stream.fact(step)).groups),
      )
    ).flat();

  test(`delivers each group once through ${KILLS} kills (seed ${SEED}), and loses no database that matters`, async () => {
    const stream = bed.stream('killed');
    await stream.start(request());
    const hashes: string[] = [];
    const check = async (): Promise<void> => {
      for (const [step, hash] of hashes.entries())
        assert.equal(await stream.hash(step), hash, `step ${step}`);
    };
    const random = createRandom(SEED);
    const names = Object.keys(victims);
    for (let kill = 0; kill < KILLS; kill++) {
      const name = names[kill % names.length]!;
      const asked = stepThrough(stream, hashes.length);
      // Somewhere in the step: admitted, played, put, written.
      await sleep(random() * 2500);
      await victims[name]!();
      hashes.push(await asked);
      await check();
    }
    await bed.killServer();
    await bed.loseDatabase();
    await bed.startServer();
    await stream.start(request());
    for (let i = 0; i < 2; i++) hashes.push(await stepThrough(stream, hashes.length));
    await check();
    const groups = await groupsOf(stream, hashes.length);
    assert.equal(new Set(groups).size, groups.length);
    assert.equal(groups.length, 2 * hashes.length);
    // No group is lost: every undelivered one is still open.
    const { admitted, in_flight, banked, out } = await stream.progress();
    assert.equal(admitted, in_flight + banked + out.delivered + out.failed + out.dropped);
    await stream.handle().signal('stop');
    await stream.handle().result();
  });
});
