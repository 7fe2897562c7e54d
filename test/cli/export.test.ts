import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { tableFromIPC } from '@uwdata/flechette';
import { exportCommand } from '../../src/cli/export.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { faultOf, sampleOf, temporaryFolder } from '../fakes/temporary-store.js';

/** The store of a release whose rows had no `train_mask`. */
const RELEASED = path.join(PROJECT_ROOT, 'test', 'releases', '0.1.0', 'store');
const BATCH = 'plain';
const SAMPLE = sampleOf('prompt');
const NONE = { failed: 0, timed_out: 0, stopped: 0, cancelled: 0 };

async function copied(t: TestContext) {
  const folder = await temporaryFolder(t);
  const root = path.join(folder, 'store');
  await cp(RELEASED, root, { recursive: true });
  const config = path.join(folder, 'temporal.yaml');
  await writeFile(config, 'store: { kind: file, root: store }\nenvironments: {}\n');
  const lines = (await readFile(path.join(root, BATCH, 'rollouts.jsonl'), 'utf8'))
    .split('\n')
    .slice(0, -1);
  const to = (name: string): string => path.join(folder, name);
  const exported = (name: string, ...given: string[]): Promise<number> =>
    exportCommand([
      ...(given.length === 0 ? [BATCH] : given),
      '--to',
      to(name),
      '--config',
      config,
    ]);
  return { root, lines, to, exported };
}

describe('export', () => {
  test('writes a batch of an earlier release as sequences, with the ids that it trained', async (t) => {
    const { lines, to, exported } = await copied(t);
    assert.equal(await exported('rows.arrow'), 0);
    const table = tableFromIPC(await readFile(to('rows.arrow')));
    const rows = lines.map(
      (line) => JSON.parse(line) as { rollout_id: string; assistant_tokens: number },
    );
    assert.ok(rows.length > 0);
    assert.deepEqual(
      [...table.getChild('rollout_id')],
      rows.map(({ rollout_id }) => rollout_id),
    );
    const trained = [...table.getChild('loss_mask')].map((mask) =>
      (mask as Uint8Array).reduce((sum, one) => sum + one, 0),
    );
    assert.deepEqual(
      trained,
      rows.map(({ assistant_tokens }) => assistant_tokens),
    );
  });

  test('writes the same lines as JSONL', async (t) => {
    const { lines, to, exported } = await copied(t);
    assert.equal(await exported('rows.jsonl'), 0);
    assert.deepEqual((await readFile(to('rows.jsonl'), 'utf8')).split('\n').slice(0, -1), lines);
  });

  test('writes nothing where rows are missing, and says how many', async (t) => {
    const { root, lines, to, exported } = await copied(t);
    await writeFile(path.join(root, BATCH, 'rollouts.jsonl'), `${lines.slice(1).join('\n')}\n`);
    const missing = new RegExp(`expected ${lines.length} rows .*, got ${lines.length - 1}`);
    for (const name of ['rows.arrow', 'rows.jsonl']) {
      await assert.rejects(exported(name), missing);
      assert.equal(existsSync(to(name)), false);
    }
  });

  test('writes nothing of lines that were cut anywhere, and names what is wrong', async (t) => {
    const { root, lines, to, exported } = await copied(t);
    const file = path.join(root, BATCH, 'rollouts.jsonl');
    const whole = await readFile(file);
    const ends = lines.map((_, at) => Buffer.byteLength(lines.slice(0, at).join('\n')));
    const cuts = [
      ...ends,
      ...Array.from({ length: 40 }, (_, at) => (at * 7919) % whole.length),
      whole.length - 2,
    ];
    for (const length of cuts) {
      await writeFile(file, whole.subarray(0, length));
      for (const name of ['rows.arrow', 'rows.jsonl']) {
        await assert.rejects(exported(name), faultOf('StoreFault', /rollouts\.jsonl/));
        assert.equal(existsSync(to(name)), false);
      }
    }
    await writeFile(file, whole.toString().replace('{"', '["'));
    await assert.rejects(exported('rows.arrow'), faultOf('StoreFault', /line 1: expected a row/));
  });

  test('reads lines of a later release, with a column more', async (t) => {
    const { root, lines, to, exported } = await copied(t);
    const file = path.join(root, BATCH, 'rollouts.jsonl');
    await exported('before.arrow');
    await writeFile(
      file,
      lines.map((line) => `${line.slice(0, -1)},"later":{"a":[1.0]}}\n`).join(''),
    );
    await exported('after.arrow');
    const [before, after] = await Promise.all(
      ['before.arrow', 'after.arrow'].map(async (name) => tableFromIPC(await readFile(to(name)))),
    );
    assert.deepEqual(
      [...(after?.getChild('input_ids') ?? [])],
      [...(before?.getChild('input_ids') ?? [])],
    );
    assert.match(String(after?.getChild('rest').at(0)), /"later":\{"a":\[1\.0\]\}/);
  });

  test('writes one step of a stream, and says of a stream without a step that one is needed', async (t) => {
    const { root, lines, to, exported } = await copied(t);
    const store = createFileStore({ root, max_cached_bytes: 0 });
    const request = StreamRequest.parse({ samples: [JSON.parse(SAMPLE)], groups_per_step: 1 });
    await store.createBatch({ batch_id: 'stream', request, samples: [SAMPLE] });
    const step = store.stepOutputs({ stream_id: 'stream', step: 3 });
    const part = { first: 0, last: 1 };
    const writer = await step.openPart(part, null);
    for (const row of lines.slice(0, 2))
      await writer.write({ row, summary: '{}', valid: true, sequences: () => [] });
    await writer.close();
    await step.join([part]);
    await step.putMetrics({ counts: { ...NONE, requested: 2, completed: 2 } });
    assert.equal(await exported('step.jsonl', 'stream', '--step', '3'), 0);
    assert.deepEqual(
      (await readFile(to('step.jsonl'), 'utf8')).split('\n').slice(0, -1),
      lines.slice(0, 2),
    );
    assert.equal(await exported('step.arrow', 'stream', '--step', '3'), 0);
    assert.equal(tableFromIPC(await readFile(to('step.arrow'))).numRows, 2);
    await assert.rejects(exported('step.arrow', 'stream'), /stream is a stream: --step N/);
    await assert.rejects(
      exported('step.arrow', 'stream', '--step', '4'),
      /step 4 of stream has no result yet/,
    );
  });

  test('says which batch was meant, and which names a file may have', async (t) => {
    const { exported } = await copied(t);
    await assert.rejects(exported('rows.arrow', 'plainn'), /no batch plainn in .*plain/);
    await assert.rejects(
      exported('rows.parquet'),
      /named \.arrow or \.jsonl, got ".*rows\.parquet"/,
    );
  });
});
