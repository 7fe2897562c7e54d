import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { samplesFile } from '../../collection/start/batch-request.js';
import { chooseBatch } from '../../collection/start/choose.js';
import { createCaptures } from '../../capture/captures.js';
import { prepare } from '../../collection/start/prepare.js';
import type { CollectionState } from '../../collection/state.js';
import { readState } from '../../collection/state.js';
import { RolloutCollectionConfig } from '../../config/schemas.js';
import { collectionFiles } from '../../collection/files.js';
import type { BatchClient } from '../../../src/client/batch-client.js';
import { createScreen } from '../../../src/client/screen.js';
import { BatchRequest } from '../../../src/model/batch-request.js';
import { parseJson } from '../../json/exact.js';
import { createFileStore } from '../../../src/trajectories/files/file-store.js';
import { writeInput } from '../harness/collection-files.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';
import { agentJournals } from './journals.js';

/** Collects 3 rows into one folder, again and again; what Temporal was asked is noted. */
export async function bed(t: TestContext) {
  const cwd = await temporaryFolder(t);
  const at = (name: string): string => path.join(cwd, name);
  await writeInput(at('in.jsonl'), 3);
  const files = collectionFiles(at('out.jsonl'));
  const asked: string[] = [];
  const said: string[] = [];
  const queues: string[] = [];
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
    start: async ({ batchId, taskQueue }) => {
      queues.push(taskQueue);
      await note(`start ${batchId}`);
      statuses.set(batchId, 'running');
      return { ...handle, started: { how: 'started' } };
    },
    attach: (batchId) => {
      void note(`attach ${batchId}`);
      return handle;
    },
    stop: () => Promise.reject(new Error('not stopped here')),
    typeOf: () => Promise.resolve('rolloutBatch'),
    status: (batchId) => Promise.resolve(statuses.get(batchId) ?? null),
    cancel: (batchId) => {
      statuses.set(batchId, 'ended');
      return note(`cancel ${batchId}`);
    },
    setMaxInFlight: (batchId, width) =>
      width === 13 ? Promise.reject(new Error('no worker')) : note(`width ${batchId} ${width}`),
    unfinished: () => Promise.resolve([]),
    close: () => Promise.resolve(),
  };
  const go = async (
    fields: object = {},
    {
      replace = false,
      store_root = at('store'),
      task_queue = 'q',
      max_attempts = 3,
      folder = null as string | null,
    } = {},
  ) => {
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
    const settings = {
      config: null,
      environment: null,
      folder: cwd,
      batch_id: null,
      run_timeout: null,
      rollout_timeout: '1d',
      replace,
    };
    const request = { config, head_server: 'http://127.0.0.1:1', settings };
    const signal = new AbortController().signal;
    const context = { cwd, env: {}, screen, signal, giveUp: () => undefined };
    const prepared = await prepare(request, { ...context, files, shown: files });
    const store = createFileStore({ root: store_root, max_cached_bytes: 0 });
    const deployment = {
      server: { options: { address: '' }, namespace: '' },
      task_queue,
      store,
      store_root,
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
      folder,
      close: () => Promise.resolve(),
    };
    const say = (line: string) => said.push(line);
    const chosen = await chooseBatch({
      request,
      files,
      deployment,
      client,
      max_attempts,
      prepared,
      captures: createCaptures({ say }),
      say,
    });
    return { rows: chosen.rows.map(({ key }) => key.task), running: chosen.running !== null };
  };
  const batchId = async (): Promise<string> => (await readState(files.state))?.batch_id ?? '';
  /** As `planBatch` does: request and samples are in the store from then on. */
  const plan = async (): Promise<void> => {
    const { batch_id, request } = await stateOf(files.state);
    const lines = (await readFile(samplesFile({ inputs_dir: cwd }, batch_id), 'utf8'))
      .split('\n')
      .slice(0, -1);
    await createFileStore({ root: at('store'), max_cached_bytes: 0 }).createBatch({
      batch_id,
      request: BatchRequest.parse(request),
      samples: lines,
    });
  };
  /** `before`: how often a row was tried before the batch. */
  const play = async (before?: (row: number) => number) => {
    await plan();
    const store = createFileStore({ root: at('store'), max_cached_bytes: 0 });
    return agentJournals(store, { batch_id: await batchId(), ...(before && { before }) });
  };
  const samples = ({ batch_id }: Pick<CollectionState, 'batch_id'>): string =>
    samplesFile({ inputs_dir: cwd }, batch_id);
  return { at, samples, files, asked, queues, said, go, batchId, play, plan, statuses };
}

export async function stateOf(file: string): Promise<CollectionState> {
  const state = await readState(file);
  assert.ok(state !== null);
  return state;
}

export const RESUME = { resume_from_cache: true };
export const good = { text: '{"reward":1}' };
