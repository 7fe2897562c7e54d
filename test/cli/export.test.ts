import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { cp, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { tableFromIPC } from '@uwdata/flechette';
import { exportCommand } from '../../src/cli/export.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

/** The store of a release whose rows had no `train_mask`. */
const RELEASED = path.join(PROJECT_ROOT, 'test', 'releases', '0.1.0', 'store');
const BATCH = 'plain';

async function copied(t: TestContext) {
  const folder = await temporaryFolder(t);
  const root = path.join(folder, 'store');
  await cp(RELEASED, root, { recursive: true });
  const config = path.join(folder, 'temporal.yaml');
  await writeFile(config, 'store: { kind: file, root: store }\nenvironments: {}\n');
  const lines = (await readFile(path.join(root, BATCH, 'rollouts.jsonl'), 'utf8')).split('\n').slice(0, -1); // prettier-ignore
  const to = (name: string): string => path.join(folder, name);
  const exported = (name: string, batch = BATCH): Promise<number> =>
    exportCommand([batch, '--to', to(name), '--config', config]);
  return { root, lines, to, exported };
}

describe('export', () => {
  test('writes a batch of an earlier release as sequences, with the ids that it trained', async (t) => {
    const { lines, to, exported } = await copied(t);
    assert.equal(await exported('rows.arrow'), 0);
    const table = tableFromIPC(await readFile(to('rows.arrow')));
    const rows = lines.map((line) => JSON.parse(line) as { rollout_id: string; assistant_tokens: number }); // prettier-ignore
    assert.ok(rows.length > 0);
    assert.deepEqual([...table.getChild('rollout_id')], rows.map(({ rollout_id }) => rollout_id)); // prettier-ignore
    const trained = [...table.getChild('loss_mask')].map((mask) => (mask as Uint8Array).reduce((sum, one) => sum + one, 0)); // prettier-ignore
    assert.deepEqual(trained, rows.map(({ assistant_tokens }) => assistant_tokens)); // prettier-ignore
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

  test('says which batch was meant, and which names a file may have', async (t) => {
    const { exported } = await copied(t);
    await assert.rejects(exported('rows.arrow', 'plainn'), /no batch plainn in .*plain/);
    await assert.rejects(
      exported('rows.parquet'),
      /named \.arrow or \.jsonl, got ".*rows\.parquet"/,
    );
  });
});
