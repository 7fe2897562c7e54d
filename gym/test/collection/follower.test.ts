import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { test } from 'node:test';
import type { Follower } from '../../collection/follow/follower.js';
import { createFollower } from '../../collection/follow/follower.js';
import { openResultFile } from '../../collection/results/result-file.js';
import type { Routed } from '../../collection/follow/routing.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import { BATCH, temporaryStore } from '../../../test/fakes/temporary-store.js';
import { gymRow } from '../rows.js';
import { agentJournals } from './journals.js';

const ROWS = [0, 1, 2, 3].map((task) => gymRow({ task, rollout: 0 }));
const good = (reward: number): { text: string } => ({ text: `{"reward":${reward}}` });

interface Bed {
  store: TrajectoryStore;
  play: ReturnType<typeof agentJournals>;
  /** As a process that follows; `end` lets go of its files. */
  follow: () => Promise<
    Follower & { routed: Routed[]; reads: () => number; end: () => Promise<void> }
  >;
  main: string;
  failures: string;
  keys: (file: string) => Promise<string[]>;
}

async function bed(t: TestContext): Promise<Bed> {
  const { root, store, elsewhere } = await temporaryStore(t);
  const [main, failures] = ['out.jsonl', 'out_failures.jsonl'].map((name) =>
    path.join(path.dirname(root), name),
  ) as [string, string];
  return {
    store,
    play: agentJournals(store, { batch_id: BATCH }),
    main,
    failures,
    follow: async () => {
      const routed: Routed[] = [];
      const files = { main: await openResultFile(main), failures: await openResultFile(failures) };
      let reads = 0;
      const other = elsewhere();
      const follower = createFollower({
        store: {
          ...other,
          readTrajectory: (ref) => {
            reads += 1;
            return other.readTrajectory(ref);
          },
        },
        batch_id: BATCH,
        rows: ROWS,
        ...files,
        onRouted: (result) => routed.push(result),
      });
      const end = async (): Promise<void> => {
        await files.main.close();
        await files.failures.close();
      };
      return { ...follower, routed, reads: () => reads, end };
    },
    keys: async (file) =>
      (await readFile(file, 'utf8'))
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => {
          const row = JSON.parse(line) as Record<string, number | undefined>;
          return `${row['_ng_task_index'] ?? '?'} a${row['_ng_attempt_index'] ?? 0}`;
        }),
  };
}

test('results are written in completion order, once, and failures beside them', async (t) => {
  const { play, follow, main, failures, keys } = await bed(t);
  const follower = await follow();
  await play(2, good(1));
  await play(0, { status: 500 });
  await play(1, null);
  await play(3, good(0));
  assert.equal(await follower.sweep(), 3);
  assert.equal(await follower.sweep(), 0);
  assert.deepEqual(await keys(main), ['2 a0', '3 a0']);
  assert.deepEqual(await keys(failures), ['0 a0']);
  assert.deepEqual(
    follower.routed.map(({ to }) => to),
    ['main', 'failures', 'main'],
  );
  assert.deepEqual(
    follower.missing().map(({ key }) => key.task),
    [1],
  );
  assert.deepEqual(
    follower.running().map(({ row }) => row.key.task),
    [1],
  );
  await follower.end();
});

test('a journal that did not grow is not read again', async (t) => {
  const { play, follow } = await bed(t);
  await play(0, null);
  await play(1, good(1));
  const follower = await follow();
  for (let sweep = 0; sweep < 5; sweep++) await follower.sweep();
  assert.equal(follower.reads(), 2);
  await follower.end();
});

test('another process that follows writes only what is missing, whatever was torn', async (t) => {
  const { play, follow, main, failures, keys } = await bed(t);
  await play(0, good(1));
  await play(1, { status: 500 });
  const first = await follow();
  await first.sweep();
  await first.end();
  // Killed while it wrote row 2.
  await play(2, good(0));
  await writeFile(main, '{"reward":0,"_ng_ta', { flag: 'a' });
  const second = await follow();
  assert.equal(await second.sweep(), 1);
  await second.end();
  const lines = (await readFile(main, 'utf8')).split('\n');
  assert.equal(lines[1], '{"reward":0,"_ng_ta');
  assert.match(lines[2] ?? '', /"_ng_task_index":2/);
  assert.equal(lines.length, 4);
  assert.deepEqual(await keys(failures), ['1 a0']);
});

test('a row that failed and is played again gets its next line, and the old failure is not repeated', async (t) => {
  const { play, follow, main, failures, keys } = await bed(t);
  await play(0, { status: 500 });
  const first = await follow();
  await first.sweep();
  await first.end();
  const second = await follow();
  await second.sweep();
  await play(0, { status: 502 });
  await second.sweep();
  await play(0, good(1));
  await second.sweep();
  await second.end();
  assert.deepEqual(await keys(failures), ['0 a0', '0 a1']);
  assert.deepEqual(await keys(main), ['0 a2']);
  assert.deepEqual(
    second.missing().map(({ key }) => key.task),
    [1, 2, 3],
  );
});

test('of rows that were stopped nothing is written, of one whose time is over a failure', async (t) => {
  const { play, follow, main, failures } = await bed(t);
  await play(0, { reason: 'cancelled' });
  await play(1, { reason: 'stopped' });
  await play(2, { reason: 'timeout' });
  const follower = await follow();
  assert.equal(await follower.sweep(), 1);
  await follower.end();
  assert.equal(await readFile(main, 'utf8'), '');
  assert.match(await readFile(failures, 'utf8'), /^\{"_ng_failure_class":"timeout","error":/);
  assert.deepEqual(
    follower.missing().map(({ key }) => key.task),
    [0, 1, 3],
  );
});

test('a row whose agent is not there says so until it is sent', async (t) => {
  const { play, follow } = await bed(t);
  await play(0, { absent: 'refused' });
  await play(1, null);
  const follower = await follow();
  await follower.sweep();
  assert.deepEqual(
    follower.running().map(({ row, waiting }) => [row.key.task, waiting]),
    [
      [0, 'refused'],
      [1, null],
    ],
  );
  await follower.end();
});

test('an answer with line separators stays one line', async (t) => {
  const { play, follow, main } = await bed(t);
  await play(0, { text: '{"reward":1,"says":"a\u2028b\\nc"}' });
  const follower = await follow();
  await follower.sweep();
  await follower.end();
  const [line = '', rest] = (await readFile(main, 'utf8')).split('\n');
  assert.equal(rest, '');
  assert.equal((JSON.parse(line) as { says: string }).says, 'a\u2028b\nc');
});

test('an answer that cannot be written is a failure of its own row, and the rows behind it are written', async (t) => {
  const { play, follow, failures, main, keys } = await bed(t);
  await play(0, { text: '[1]', reward: 1 });
  await play(1, good(1));
  const follower = await follow();
  assert.equal(await follower.sweep(), 2);
  assert.equal(await follower.sweep(), 0);
  await follower.end();
  assert.deepEqual(await keys(main), ['1 a0']);
  assert.match(
    await readFile(failures, 'utf8'),
    /"_ng_failure_class":"agent_run_error".*the answer cannot be written/,
  );
});

test('what a full disk kept from being written is written by the next sweep', async (t) => {
  const { play, store, main } = await bed(t);
  await play(0, good(1));
  let isFull = true;
  const file = await openResultFile(main);
  const follower = createFollower({
    store,
    batch_id: BATCH,
    rows: ROWS,
    main: {
      ...file,
      append: (line) => (isFull ? Promise.reject(new Error('ENOSPC')) : file.append(line)),
    },
    failures: {
      found: [],
      append: () => Promise.reject(new Error('no failure')),
      close: file.close,
    },
    onRouted: () => undefined,
  });
  await assert.rejects(follower.sweep(), /ENOSPC/);
  isFull = false;
  assert.equal(await follower.sweep(), 1);
  await file.close();
});

test('a sweep ends between two rows when it is aborted, and the next one writes the rest', async (t) => {
  const { play, store, main } = await bed(t);
  for (const row of [0, 1, 2]) await play(row, good(1));
  const controller = new AbortController();
  const file = await openResultFile(main);
  const failures = {
    found: [],
    append: () => Promise.reject(new Error('no failure')),
    close: file.close,
  };
  const onRouted = (): void => {
    controller.abort();
  };
  const follower = createFollower({
    store,
    batch_id: BATCH,
    rows: ROWS,
    main: file,
    failures,
    onRouted,
  });
  assert.equal(await follower.sweep(controller.signal), 1);
  assert.equal(await follower.sweep(), 2);
  await file.close();
});

test('an answer that nests deeper than a parser follows is written as it came', async (t) => {
  const { play, follow, main } = await bed(t);
  const deep = `${'['.repeat(6000)}${']'.repeat(6000)}`;
  await play(0, { text: `{"reward": 1.0,\n "x": ${deep}}`, reward: 1 });
  const follower = await follow();
  assert.equal(await follower.sweep(), 1);
  await follower.end();
  const line = `{"reward":1.0,"x":${deep},"_ng_task_index":0,"_ng_rollout_index":0,"agent_ref":{"name":"simple_agent"}}\n`;
  assert.equal(await readFile(main, 'utf8'), line);
});

test('an answer that is to be written nowhere is reported once, however its journal grows', async (t) => {
  const { play, store, follow } = await bed(t);
  await play(0, { text: '{"_ng_no_persist":true}' });
  const follower = await follow();
  await follower.sweep();
  const journal = await store.claim({ batch_id: BATCH, row: 0, repeat: 0 }, { activity: 'test' });
  await journal.commit();
  assert.equal(await follower.sweep(), 0);
  assert.deepEqual(
    follower.routed.map(({ to }) => to),
    ['nowhere'],
  );
  await follower.end();
});

test('a journal that cannot be read costs no other row its result, and is read later', async (t) => {
  const { play, store, main } = await bed(t);
  for (const row of [0, 1]) await play(row, good(1));
  let isAway = true;
  const file = await openResultFile(main);
  const failures = {
    found: [],
    append: () => Promise.reject(new Error('no failure')),
    close: file.close,
  };
  const readTrajectory: TrajectoryStore['readTrajectory'] = (ref) =>
    isAway && ref.row === 0 ? Promise.reject(new Error('EIO')) : store.readTrajectory(ref);
  const written: number[] = [];
  const follower = createFollower({
    store: { ...store, readTrajectory },
    batch_id: BATCH,
    rows: ROWS,
    main: file,
    failures,
    onRouted: ({ row }) => written.push(row.key.task),
  });
  await assert.rejects(follower.sweep(), /EIO/);
  isAway = false;
  await follower.sweep();
  assert.deepEqual(written, [1, 0]);
  await file.close();
});

test('an answer whose reward is no use is a failure with all that it answered, so that it can still be scored', async (t) => {
  const { play, follow, main, failures } = await bed(t);
  const follower = await follow();
  const answer = '"response":{"id":"r","output":[1.0]},"answer":9007199254740993';
  await play(0, { unscored: `{${answer}}` });
  await play(1, { unscored: `{"reward":null,${answer},"error":"judge"}` });
  assert.equal(await follower.sweep(), 2);
  await follower.end();
  assert.equal(await readFile(main, 'utf8'), '');
  const [first = '', second = ''] = (await readFile(failures, 'utf8')).split('\n');
  const stamps = '"agent_ref":{"name":"simple_agent"}';
  const error =
    '{"type":"EnvironmentRejected","message":"reward: expected a finite number","status":null}';
  assert.equal(
    first,
    `{${answer},"_ng_task_index":0,"_ng_rollout_index":0,${stamps},"_ng_failure_class":"agent_run_error","error":${error}}`,
  );
  assert.match(second, /^\{"reward":null,"response":.*"error":\{"type":"EnvironmentRejected",/);
});
