import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { JournalLine } from '../../src/model/journal.js';
import type { BatchOutcome } from '../../lab/bed/batch.js';
import { readJournal } from '../../lab/bed/batch.js';
import type { HoldingEnvironment, HoldingEvent } from '../harness/holding-environment.js';
import { startHoldingEnvironment } from '../harness/holding-environment.js';
import type { KeptWorker } from '../../lab/bed/kept-worker.js';
import type { RecoveryBatch, RecoveryBed } from '../../lab/bed/bed.js';
import { startRecoveryBed } from '../../lab/bed/bed.js';
import { assertEachOnce } from '../harness/row-comparison.js';
import { eventually } from '../../lab/bed/waiting.js';

/** `npm run test:leaks` plays 200. */
const ROLLOUTS = Number(process.env['LEAK_ROLLOUTS'] ?? 20);
const BATCHES = ['played', 'stopped', 'cancelled', 'timed-out', 'terminated'] as const;
type Name = (typeof BATCHES)[number];
const SIZE = { samples: ROLLOUTS / BATCHES.length, repeats: 1 };
const STORE = 'held';
const TURNS = 4;
/** More turns than are ever played: the test decides when a rollout ends. */
const TURNS_TOO_MANY = 1000;
const DOWN_MS = 1000;
const WAIT_MS = 300_000;

const skip = spawnSync('python3', ['--version']).status !== 0 ? 'there is no python3' : false;

const requestOf = (name: Name) => ({
  samples: Array.from({ length: SIZE.samples }, (_, row) => ({
    message_log: [{ role: 'user', content: `Play, ${row}.` }],
    task_name: 'holding',
    extra_env_info: { left: name === 'played' ? TURNS : TURNS_TOO_MANY },
  })),
  // A generation that is cut by its length would end its rollout.
  generation: { max_new_tokens: 200 },
  max_rollout_turns: TURNS_TOO_MANY,
  max_seq_len: 100_000,
  // Some have not begun when the batch is ended.
  max_in_flight: Math.ceil(SIZE.samples * 0.6),
  rollout_timeout: name === 'timed-out' ? '5s' : '10m',
});

describe(`${ROLLOUTS} rollouts that each hold something from begin to end`, { skip }, () => {
  let bed: RecoveryBed;
  let environment: HoldingEnvironment;
  let worker: KeptWorker;
  let batches: Record<Name, RecoveryBatch>;

  before(async () => {
    const environments = { holding: { kind: 'http' as const, url: '' } };
    bed = await startRecoveryBed({
      name: 'session-leaks',
      own_server: true,
      simulator: { tokens_per_second: 30, thinking_tokens: [8, 24], max_model_len: 100_000 },
      environments,
    });
    environment = await startHoldingEnvironment(bed.directory);
    environments.holding.url = environment.url;
    worker = await bed.startWorker(STORE);
    batches = Object.fromEntries(
      BATCHES.map((name) => [name, bed.batch(STORE, name)]),
    ) as typeof batches;
  });
  after(async () => {
    await bed.end();
    await environment.kill();
  });

  const batchOf = ({ session }: Pick<HoldingEvent, 'session'>): string =>
    session.split('/')[0] ?? '';
  const heldBy = async (name: Name): Promise<string[]> =>
    (await environment.held()).filter((session) => batchOf({ session }) === name);

  /** Moments are counted in the environment's calls, since machines differ in speed. */
  async function untilAsked(event: HoldingEvent['event'], share: number): Promise<void> {
    const count = Math.ceil(share * ROLLOUTS);
    await eventually({ what: `${count} times ${event}`, timeout_ms: WAIT_MS }, async () => {
      const events = await environment.events();
      return events.filter((one) => one.event === event).length >= count;
    });
  }

  const untilHeld = (name: Name): Promise<unknown> =>
    eventually(
      { what: `something that ${name} holds`, timeout_ms: WAIT_MS },
      async () => (await heldBy(name)).length > 0,
    );

  async function restartEnvironment(): Promise<void> {
    await environment.kill();
    await sleep(DOWN_MS);
    await environment.start();
  }

  async function restartServer(): Promise<void> {
    await bed.killServer();
    await sleep(DOWN_MS);
    await bed.startServer();
  }

  /** The journal's lines of a session's rollout. */
  async function linesOf(session: string): Promise<JournalLine[]> {
    const [batch_id = '', place = ''] = session.split('/');
    const [row, repeat] = place.split('-').map(Number) as [number, number];
    return await readJournal(bed.storeRoot(STORE), { batch_id, row, repeat });
  }

  /** Each session that the environment began was ended after its last beginning. */
  async function assertAllEnded(names: readonly Name[]): Promise<void> {
    const events = (await environment.events()).filter((one) =>
      names.includes(batchOf(one) as Name),
    );
    const last = new Map<string, HoldingEvent['event']>();
    for (const { event, session } of events) if (event !== 'step') last.set(session, event);
    const open = [...last].filter(([, event]) => event === 'begin').map(([session]) => session);
    assert.deepEqual(open, []);
    for (const name of names) assert.deepEqual(await heldBy(name), []);
  }

  test('end what they hold, whatever was killed and however they were ended; what was terminated keeps it', () =>
    bed.observed(async () => {
      for (const name of BATCHES) await batches[name].start(requestOf(name));
      await untilAsked('begin', 0.3);
      await worker.kill();
      await untilAsked('step', 0.5);
      await restartEnvironment();
      await untilAsked('step', 1);
      await restartServer();
      for (const name of ['stopped', 'cancelled', 'terminated'] as const) await untilHeld(name);
      await batches.stopped.handle().signal('stop');
      await batches.cancelled.handle().cancel();
      await batches.terminated.handle().terminate();
      // In the middle of their endings.
      await worker.kill(() => environment.kill());
      await sleep(DOWN_MS);
      await environment.start();

      const outcomes = {} as Record<Name, BatchOutcome>;
      for (const name of BATCHES) outcomes[name] = await batches[name].outcome();
      for (const name of BATCHES) if (name !== 'terminated') assertEachOnce(outcomes[name], SIZE);
      assert.equal(outcomes.played.rollouts.length, SIZE.samples);
      for (const { failure } of outcomes['timed-out'].failures)
        assert.equal(failure?.type, 'TimedOut');
      assert.equal(outcomes.terminated.failure?.type, 'TerminatedFailure');

      await assertAllEnded(['played', 'stopped', 'cancelled', 'timed-out']);
      const left = await environment.held();
      assert.deepEqual(left, await heldBy('terminated'));
      assert.ok(left.length > 0, 'the kills and endings came too late to leave anything');
      for (const session of left) {
        const kinds = (await linesOf(session)).map(({ kind }) => kind);
        assert.ok(kinds.includes('begin'), session);
        assert.deepEqual(
          kinds.filter((kind) => kind === 'close' || kind === 'end'),
          [],
          session,
        );
      }
      console.log(`${left.length} of ${SIZE.samples} rollouts were left with what they held`);
    }));

  test('whose batch was terminated continue with what they hold when it is started again, and end it', () =>
    bed.observed(async () => {
      const left = await environment.held();
      const before = (await environment.events()).length;
      await environment.letEnd();
      await batches.terminated.start(requestOf('terminated'));
      const { rollouts } = await batches.terminated.outcome();
      assert.equal(rollouts.length, SIZE.samples);
      await assertAllEnded(BATCHES);
      const since = (await environment.events()).slice(before);
      for (const session of left) {
        assert.ok(
          since.some((one) => one.event === 'end' && one.session === session),
          session,
        );
        assert.ok(
          since.some((one) => one.event === 'step' && one.session === session),
          `${session}: the same life goes on`,
        );
      }
    }));

  test('begin a session in one life only, play no step without it, and end none that was never asked for', async () => {
    const events = await environment.events();
    const named = new Set(events.map(({ session }) => session));
    for (const session of named) {
      const lines = await linesOf(session);
      const asked = lines.filter((line) => line.kind === 'begin' && line.session === 'asked');
      const life = Number(session.split('/')[2]);
      assert.ok(asked.length > life, `${session}: ${asked.length} lives were begun`);
      const [first] = events.filter((one) => one.session === session);
      // A `begin` that never arrived is ended, too, because the worker cannot tell.
      assert.ok(first?.event === 'begin' || first?.event === 'end', session);
      if (first.event === 'end') assert.equal(first.held, false, session);
    }
    const ended = new Set<string>();
    for (const { event, session, held } of events) {
      if (event === 'end') ended.add(session);
      // An abandoned `begin` may arrive after the end.
      if (event === 'step' && !held) assert.ok(ended.has(session), session);
    }
    const repeats = (event: HoldingEvent['event']): number =>
      events.filter((one) => one.event === event).length -
      new Set(events.filter((one) => one.event === event).map(({ session }) => session)).size;
    console.log(
      `${named.size} lives, ${repeats('begin')} repeated beginnings, ${repeats('end')} repeated ends; the worker ended ${worker.ownEnds()} times by itself`,
    );
  });
});
