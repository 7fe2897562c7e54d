import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { chooseBatch } from '../../../src/gym/collection/choose.js';
import { prepare } from '../../../src/gym/collection/prepare.js';
import type { CollectionState } from '../../../src/gym/collection/state.js';
import { readState } from '../../../src/gym/collection/state.js';
import { RolloutCollectionConfig } from '../../../src/gym/config/schemas.js';
import { collectionFiles } from '../../../src/gym/files.js';
import { materializedLine } from '../../../src/gym/rows/materialize.js';
import type { BatchClient } from '../../../src/local/batch-client.js';
import { createScreen } from '../../../src/local/screen.js';
import { parseJson } from '../../../src/model/lossless-json.js';
import { createFileStore } from '../../../src/trajectories/file-store.js';
import { readRows, writeInput } from '../../harness/collection-files.js';
import { temporaryFolder } from '../../local/fakes.js';
import { agentJournals } from './journals.js';

/** Collects 3 rows into one folder, again and again; what Temporal was asked is noted. */
async function bed(t: TestContext) {
  const cwd = await temporaryFolder(t);
  const at = (name: string): string => path.join(cwd, name);
  await writeInput(at('in.jsonl'), 3);
  const files = collectionFiles(at('out.jsonl'));
  const asked: string[] = [];
  const said: string[] = [];
  const statuses = new Map<string, 'running' | 'ended'>();
  const handle = {
    look: () => Promise.reject(new Error('not followed here')),
    outcome: () => Promise.reject(new Error('not followed here')),
  };
  const note = (text: string): Promise<void> => {
    asked.push(text.replace(/out-\d{8}T\d{6}Z-[0-9a-f]{4}/g, 'ID'));
    return Promise.resolve();
  };
  const client: BatchClient = {
    start: async ({ batchId }) => {
      await note(`start ${batchId}`);
      statuses.set(batchId, 'running');
      return handle;
    },
    attach: (batchId) => {
      void note(`attach ${batchId}`);
      return handle;
    },
    status: (batchId) => Promise.resolve(statuses.get(batchId) ?? null),
    cancel: (batchId) => {
      statuses.set(batchId, 'ended');
      return note(`cancel ${batchId}`);
    },
    setMaxInFlight: (batchId, width) => note(`width ${batchId} ${width}`),
    unfinished: () => Promise.resolve([]),
    close: () => Promise.resolve(),
  };
  const go = async (fields: object = {}, { replace = false, store_root = at('store') } = {}) => {
    asked.length = 0;
    const config = RolloutCollectionConfig.parse(
      parseJson(
        JSON.stringify({
          agent_name: 'ag',
          input_jsonl_fpath: 'in.jsonl',
          output_jsonl_fpath: 'out.jsonl',
          ...fields,
        }),
      ),
    );
    const screen = createScreen(
      { write: (line) => said.push(line), on: () => 0, off: () => 0 },
      {},
    );
    const settings = { config: null, environment: null, folder: cwd, batch_id: null, run_timeout: null, rollout_timeout: '1d', replace }; // prettier-ignore
    const request = { config, head_server: 'http://127.0.0.1:1', settings };
    const signal = new AbortController().signal;
    const context = { cwd, env: {}, screen, signal, giveUp: () => undefined };
    const prepared = await prepare(request, { ...context, files, shown: files });
    const store = createFileStore({ root: store_root, max_cached_bytes: 0 });
    const deployment = {
      server: { options: { address: '' }, namespace: '' },
      task_queue: 'q',
      store,
      store_root,
      inputs_dir: cwd,
      environment: 'nemo_gym',
      agents: { kind: 'gym_agent' as const, head_server: null, agents: {}, timeout: '1m', max_answer: '1MiB' }, // prettier-ignore
      ui_url: null,
      own: true,
      close: () => Promise.resolve(),
    };
    const say = (line: string) => said.push(line);
    const chosen = await chooseBatch({ request, files, deployment, client, max_attempts: 3, prepared, say }); // prettier-ignore
    return { rows: chosen.rows.map(({ key }) => key.task), running: chosen.running !== null };
  };
  const batchId = async (): Promise<string> => (await readState(files.state))?.batch_id ?? '';
  const play = async () =>
    agentJournals(createFileStore({ root: at('store'), max_cached_bytes: 0 }), {
      batch_id: await batchId(),
    });
  return { at, files, asked, said, go, batchId, play, statuses };
}

async function stateOf(file: string): Promise<CollectionState> {
  const state = await readState(file);
  assert.ok(state !== null);
  return state;
}

const RESUME = { resume_from_cache: true };
const good = { text: '{"reward":1}' };

describe('a collection that is resumed', () => {
  test('collects from its batch while that runs, as wide as it is asked to be now', async (t) => {
    const { go, asked } = await bed(t);
    await go({ num_samples_in_parallel: 2 });
    assert.deepEqual(asked, ['start ID']);
    assert.deepEqual(await go({ ...RESUME, num_samples_in_parallel: 2 }), { rows: [0, 1, 2], running: true }); // prettier-ignore
    assert.deepEqual(asked, ['attach ID']);
    await go({ ...RESUME, num_samples_in_parallel: 8 });
    assert.deepEqual(asked, ['attach ID', 'width ID 8']);
  });

  test('starts its batch id again where that was cut before all rows ended, with what ended written', async (t) => {
    const { go, asked, play, statuses, batchId, files } = await bed(t);
    await go();
    const id = await batchId();
    const journal = await play();
    await journal(1, good);
    await journal(2, null);
    statuses.set(id, 'ended');
    assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: true });
    assert.deepEqual(asked, ['start ID']);
    assert.equal(await batchId(), id);
    assert.deepEqual(
      readRows(files.main).map((row) => row['_ng_task_index']),
      [1],
    );
  });

  test('plays what failed in a batch of its own once the first has ended, with how often it failed', async (t) => {
    const { go, play, statuses, batchId, files } = await bed(t);
    await go();
    const id = await batchId();
    const journal = await play();
    for (const [row, ending] of [good, { status: 500 }, good].entries()) await journal(row, ending);
    statuses.set(id, 'ended');
    const before = await stateOf(files.state);
    assert.deepEqual(await go(RESUME), { rows: [1], running: true });
    const state = await stateOf(files.state);
    assert.notEqual(state.batch_id, id);
    assert.deepEqual(state.rows, [[1, 0, 1]]);
    assert.ok(state.failures_from > 0, 'older failures are not this batch’s');
    assert.ok(existsSync(state.samples_file) && !existsSync(before.samples_file));
  });

  test('starts nothing where all is done, though the last results were not written yet', async (t) => {
    const { go, asked, play, statuses, batchId, files } = await bed(t);
    await go();
    const journal = await play();
    for (const row of [2, 0, 1]) await journal(row, good);
    statuses.set(await batchId(), 'ended');
    assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: false });
    assert.deepEqual(asked, []);
    assert.deepEqual(
      readRows(files.main).map((row) => row['_ng_task_index']),
      [2, 0, 1],
    );
  });

  test('goes on from upstream’s files where its batch is in another store', async (t) => {
    const { go, play, statuses, batchId, at, said, files } = await bed(t);
    await go();
    await (
      await play()
    )(0, good);
    statuses.set(await batchId(), 'ended');
    await writeFile(files.main, '{"reward":1,"_ng_task_index":2,"_ng_rollout_index":0,"agent_ref":{"name":"ag"}}\n'); // prettier-ignore
    const { rows } = await go(RESUME, { store_root: at('other') });
    assert.deepEqual(rows, [0, 1]);
    assert.match(said.join('\n'), /is in another store/);
  });

  test('is refused where its inputs changed, by what changed; and goes on without an input file', async (t) => {
    const { go, at, files } = await bed(t);
    await go();
    await writeInput(at('in.jsonl'), 4);
    await assert.rejects(go(RESUME), /The inputs have changed since this collection began.*row 3-0: is new/s); // prettier-ignore
    await assert.rejects(
      go({ ...RESUME, input_jsonl_fpath: 'in.jsonl', num_repeats: 2 }),
      /row 0-1 and 4 more: are new/,
    );
    const first = (await readFile(files.materialized, 'utf8')).split('\n')[0] ?? '';
    assert.equal(first, materializedLine({ key: { task: 0, rollout: 0 }, agent: 'ag', attempt_index: 0, row: parseJson(first) as never })); // prettier-ignore
    assert.deepEqual(await go({ ...RESUME, input_jsonl_fpath: 'gone.jsonl' }), { rows: [0, 1, 2], running: true }); // prettier-ignore
  });
});

describe('a fresh collection', () => {
  test('is refused while a batch still plays into its file, unless that is to be replaced', async (t) => {
    const { go, asked, files, batchId } = await bed(t);
    await go();
    await writeFile(files.main, 'kept\n');
    const id = await batchId();
    await assert.rejects(go(), /still plays an earlier collection into out\.jsonl\.\nContinue it with \+resume_from_cache=true/); // prettier-ignore
    assert.equal(await readFile(files.main, 'utf8'), 'kept\n');
    await go({}, { replace: true });
    assert.deepEqual(asked, ['cancel ID', 'start ID']);
    assert.notEqual(await batchId(), id);
    assert.ok(!existsSync(files.main));
  });

  test('clears the failures of the one before: they count for nobody', async (t) => {
    const { go, files } = await bed(t);
    await writeFile(files.failures, '{"_ng_task_index":0,"_ng_rollout_index":0,"_ng_failure_class":"x"}\n'); // prettier-ignore
    await writeFile(files.aggregate, '[]');
    await go();
    assert.ok(!existsSync(files.failures) && !existsSync(files.aggregate));
    assert.equal((await readState(files.state))?.failures_from, 0);
  });
});
