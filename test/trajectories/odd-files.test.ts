/** Somebody put a pipe, a folder or a device where a store has a file: nothing hangs, and the error names it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { BATCH, faultOf, requestOf, sampleOf, temporaryStore } from '../fakes/temporary-store.js';

const KINDS: Record<string, (file: string) => unknown> = {
  'a pipe': (file) => {
    assert.equal(spawnSync('mkfifo', [file]).status, 0);
  },
  'a directory': (file) => mkdir(file),
  'a device': (file) => symlink('/dev/zero', file),
};

const SAMPLES = [sampleOf('one'), sampleOf('two')];
const create = (store: TrajectoryStore): Promise<unknown> =>
  store.createBatch({ batch_id: BATCH, request: requestOf(), samples: SAMPLES });
const FACT = { series: ['_policy', 'default'] as const, n: 0, text: 'fact' };
const PART = { first: 0, last: 1 };

async function readRollouts(store: TrajectoryStore): Promise<void> {
  for await (const row of store.outputs(BATCH).readRollouts()) assert.fail(row);
}

/** What uses each file first. */
const USES: Record<string, ((store: TrajectoryStore) => Promise<unknown>)[]> = {
  'batch.json': [(store) => store.findRequest(BATCH), create],
  'samples.jsonl': [(store) => store.readSample({ batch_id: BATCH, row: 1 }), create],
  'samples.index': [(store) => store.readSampleText({ batch_id: BATCH, row: 1 }), create],
  '../_policy/default/0.json': [
    (store) => store.facts.find(FACT.series, 0),
    (store) => store.facts.last(FACT.series, -1),
    (store) => store.facts.put(FACT),
  ],
  '../_store/0.json': [(store) => store.storeId()],
  'parts/0-1/rollouts.jsonl': [(store) => store.outputs(BATCH).join([PART])],
  'parts/0-1/summaries.jsonl': [(store) => store.outputs(BATCH).join([PART])],
  'steps/0/metrics.json': [
    (store) => store.stepOutputs({ stream_id: BATCH, step: 0 }).readMetrics(),
  ],
  'rollouts.jsonl': [readRollouts],
};

describe('in place of a file of a store', () => {
  for (const [kind, make] of Object.entries(KINDS))
    for (const [name, uses] of Object.entries(USES))
      test(`${kind} named ${path.basename(name)} is a fault that names it`, async (t) => {
        const { store, elsewhere, root } = await temporaryStore(t);
        await create(store);
        await store.facts.put(FACT);
        await store.storeId();
        const part = await store.outputs(BATCH).openPart(PART, null);
        await part.write({ row: '{}', summary: '{}', valid: true, sequences: () => [] });
        await part.close();
        const file = path.join(root, BATCH, name);
        await mkdir(path.dirname(file), { recursive: true });
        await rm(file, { force: true });
        await make(file);
        for (const use of uses)
          await assert.rejects(
            use(elsewhere()),
            faultOf('StoreFault', `${file}: expected a file, got ${kind}; move it away`),
          );
      });
});
