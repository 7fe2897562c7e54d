import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { chooseBatch } from '../../collection/start/choose.js';
import { playBatch } from '../../collection/follow/play.js';
import { createCaptures } from '../../capture/captures.js';
import { prepare } from '../../collection/start/prepare.js';
import { RolloutCollectionConfig } from '../../config/schemas.js';
import { collectionFiles } from '../../collection/files.js';
import type { BatchClient } from '../../../src/client/batch-client.js';
import { createScreen } from '../../../src/client/screen.js';
import { parseJson } from '../../json/exact.js';
import { createFileStore } from '../../../src/trajectories/files/file-store.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { readRows } from '../harness/collection-files.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';
import { agentJournals } from './journals.js';

/** Whole collections as upstream's code played them; what its agents answered is played into journals here. */
type Row = Record<string, unknown>;
interface Golden {
  name: string;
  input_lines: Row[];
  config: Row;
  replies_by_key: Partial<Record<string, Row>>;
  default_reply: Row;
  completion_order_of_dispatched_rows: number[];
  existing_files: {
    materialized_inputs: Row[] | null;
    main_jsonl: Row[] | null;
    failures_jsonl: Row[] | null;
  } | null;
  expected: { dispatched: Row[]; files: Record<string, Row[]> };
}

const FOLDER = path.join(PROJECT_ROOT, 'test', 'goldens', 'gym_resume');
const GOLDENS = readdirSync(FOLDER)
  .filter((file) => file.startsWith('collect_'))
  .map((file) => JSON.parse(readFileSync(path.join(FOLDER, file), 'utf8')) as Golden);

interface Sample {
  extra_env_info: { row: string; attempt_index: number; task_index: number; rollout_index: number };
}

/** What upstream's `_post_subroutine` is given. */
function dispatchedRow({ extra_env_info: { row, attempt_index } }: Sample): Row {
  const bare = JSON.parse(row) as Row;
  return attempt_index > 0 ? { ...bare, _ng_attempt_index: attempt_index } : bare;
}

async function collected(golden: Golden, t: TestContext) {
  const cwd = await temporaryFolder(t);
  const at = (name: string): string => path.join(cwd, name);
  const jsonl = (rows: Row[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  await writeFile(at('in.jsonl'), jsonl(golden.input_lines));
  const {
    materialized_inputs = null,
    main_jsonl = null,
    failures_jsonl = null,
  } = golden.existing_files ?? {};
  for (const [name, rows] of [
    ['out_materialized_inputs.jsonl', materialized_inputs],
    ['out.jsonl', main_jsonl],
    ['out_failures.jsonl', failures_jsonl],
  ] as const) {
    if (rows !== null) await writeFile(at(name), jsonl(rows));
  }
  // The recording's materialised rows are no rows of its input: upstream does not look.
  if (materialized_inputs !== null)
    await writeFile(at('in.jsonl'), jsonl(inputsOf(materialized_inputs)));
  const text = { ...golden.config, input_jsonl_fpath: 'in.jsonl', output_jsonl_fpath: 'out.jsonl' };
  const config = RolloutCollectionConfig.parse(parseJson(JSON.stringify(text)));
  const said: string[] = [];
  const screen = createScreen({ write: (line) => said.push(line), on: () => 0, off: () => 0 }, {});
  const files = collectionFiles(at('out.jsonl'));
  const shown = collectionFiles('out.jsonl');
  const signal = new AbortController().signal;
  const context = { cwd, env: {}, screen, signal, giveUp: () => undefined, files, shown };
  const settings = {
    config: null,
    environment: null,
    folder: cwd,
    batch_id: null,
    run_timeout: null,
    rollout_timeout: '1d',
    replace: false,
  };
  const request = { config, head_server: 'http://127.0.0.1:1', settings };
  const prepared = await prepare(request, context);

  const store = createFileStore({ root: at('store'), max_cached_bytes: 0 });
  const deployment = {
    server: { options: { address: '' }, namespace: '' },
    task_queue: 'q',
    store,
    store_root: at('store'),
    inputs_dir: cwd,
    environment: 'nemo_gym',
    agents: {
      kind: 'gym_agent' as const,
      head_server: null,
      agents: {},
      timeout: '1m',
      max_answer: '1MiB',
    },
    ui_url: null,
    folder: null,
    close: () => Promise.resolve(),
  };
  const dispatched: Row[] = [];
  const captures = createCaptures({ say: (line) => said.push(line) });
  const chosen = await chooseBatch({
    request,
    files,
    deployment,
    client: player({ golden, at, store, dispatched }),
    max_attempts: 3,
    prepared,
    captures,
    say: (line) => said.push(line),
  });
  const { running, rows } = chosen;
  assert.ok(running !== null);
  await playBatch(
    { rows, running },
    { files, deployment, screen, signal, title: '', agents: new Map(), captures },
  );
  return { dispatched, files, said: said.join('\n') };
}

/** An input file that these rows come from. */
function inputsOf(materialized: Row[]): Row[] {
  const first = materialized.filter((row) => row['_ng_rollout_index'] === 0);
  return first.map((row) =>
    Object.fromEntries(Object.entries(row).filter(([key]) => !key.startsWith('_ng_'))),
  );
}

/** A Temporal server whose workers play the batch at once, in the recorded order. */
function player({
  golden,
  at,
  store,
  dispatched,
}: {
  golden: Golden;
  at: (name: string) => string;
  store: ReturnType<typeof createFileStore>;
  dispatched: Row[];
}): BatchClient {
  const refuse = (): never => {
    throw new Error('not part of this recording');
  };
  return {
    start: async ({ batchId, request }) => {
      const { samples } = request as { samples: { path: string } };
      const all = readRows(at(samples.path)) as unknown as Sample[];
      dispatched.push(...all.map(dispatchedRow));
      const before = (row: number): number => all[row]?.extra_env_info.attempt_index ?? 0;
      const play = agentJournals(store, { batch_id: batchId, before });
      const order = golden.completion_order_of_dispatched_rows;
      const rest = all.map((_, i) => i).filter((i) => !order.includes(i));
      for (const row of [...order, ...rest]) {
        const { task_index, rollout_index } = all[row]?.extra_env_info ?? refuse();
        const reply =
          golden.replies_by_key[`${task_index}:${rollout_index}`] ?? golden.default_reply;
        await play(row, 'raise' in reply ? { status: 500 } : { text: JSON.stringify(reply) });
      }
      return {
        started: { how: 'started' },
        look: () => Promise.resolve({ closed: true, progress: null, trouble: null }),
        outcome: () => Promise.resolve({ failure: 'not asked for' }),
      };
    },
    status: () => Promise.resolve(null),
    typeOf: refuse,
    attach: refuse,
    stop: refuse,
    cancel: refuse,
    setMaxInFlight: refuse,
    unfinished: refuse,
    close: refuse,
  };
}

describe('a collection that upstream recorded', () => {
  for (const golden of GOLDENS.filter(({ name }) => name !== 'collect_one_run_raises')) {
    test(`${golden.name} dispatches and writes the same`, async (t) => {
      const { dispatched, files } = await collected(golden, t);
      const { expected } = golden;
      assert.deepEqual(dispatched, expected.dispatched);
      for (const [name, rows] of Object.entries(expected.files)) {
        const file = path.join(path.dirname(files.main), name);
        // The metrics have goldens of their own.
        if (file !== files.aggregate) assert.deepEqual(readRows(file), rows, name);
      }
    });
  }

  test('collect_one_run_raises continues where upstream stopped: the failed run is a failure, the others are results', async (t) => {
    const golden = GOLDENS.find(({ name }) => name === 'collect_one_run_raises');
    assert.ok(golden !== undefined);
    const { dispatched, files } = await collected(golden, t);
    assert.deepEqual(dispatched, golden.expected.dispatched);
    const main = readRows(files.main);
    // What upstream had written before it stopped, and then the row that it lost.
    assert.deepEqual(main.slice(0, 2), golden.expected.files['out.jsonl']);
    assert.equal(main.length, 3);
    const failures = readRows(files.failures);
    assert.deepEqual(
      failures.map((row) => [
        row['_ng_task_index'],
        row['_ng_rollout_index'],
        row['_ng_failure_class'],
      ]),
      [[0, 1, 'agent_run_error']],
    );
    assert.ok(failures.every((row) => !('reward' in row)));
  });

  test('with an output and without materialized inputs says so and starts anew, as upstream does', async (t) => {
    const golden = GOLDENS.find(({ name }) => name === 'collect_resume_materialized_missing');
    assert.ok(golden !== undefined);
    const { said, files } = await collected(golden, t);
    assert.match(
      said,
      /Skipping resume_from_cache because materialized_jsonl_fpath out_materialized_inputs\.jsonl doesn't exist!/,
    );
    assert.ok(existsSync(files.materialized));
  });
});
