/** The Python package reads rollouts.arrow and rollouts.jsonl alike. */
import assert from 'node:assert/strict';
import { copyFile, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import fc from 'fast-check';
import { arbitraryRow } from '../fakes/arbitrary-row.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { agentJournal, linesOf, rolloutOf } from '../gateway/agent-rows.js';
import type { BatchResult } from '../../src/activities/contract.js';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { FORMATS } from '../../src/model/results/arrow/formats.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { exampleIn } from '../docs/example.js';
import { python, skip } from '../harness/python-package.js';
import type { AskedPython } from '../harness/python-asked.js';
import { startAsked } from '../harness/python-asked.js';
import { writeBoth } from './arrow-files.js';
import { row as plainRow } from './arrow-rows.js';

describe('rollouts.arrow in Python', { skip }, () => {
  let python: AskedPython;
  before(() => {
    python = startAsked('arrow_forms.py');
  });
  after(() => {
    python.end();
  });
  const ask = async (what: string, folder: string): Promise<Record<string, number>> =>
    (await python.ask(what, folder)) as Record<string, number>;

  test('equals rollouts.jsonl, for rows of any journal', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, fc.sample(arbitraryRow, 150));
    const seen = await ask('equal', folder);
    assert.equal(seen['rows'], 150);
    for (const what of ['arrays', 'refused', 'agents', 'unlogged'])
      assert.ok((seen[what] ?? 0) >= 10, `only ${seen[what]} of ${what}: this proves little`);
  });

  test('equals rollouts.jsonl, for agents whose conversations branch', async (t) => {
    const folder = await temporaryFolder(t);
    const lines = await Promise.all(fc.sample(agentJournal, 400).map(linesOf));
    const rows = lines.map((one) => rolloutOf(one).row);
    // One in twenty or so branches.
    const some = rows.filter((row, at) => (row.sequences ?? []).length > 0 || at % 8 === 0);
    await writeBoth(folder, some);
    const seen = await ask('equal', folder);
    assert.ok((seen['trees'] ?? 0) >= 10, `only ${seen['trees']} trees: this proves little`);
    assert.ok((seen['sequences'] ?? 0) > some.length);
  });

  test('has equal arrays of all rows at once, also of odd ones', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    const { sequences } = await ask('whole', folder);
    assert.equal(sequences, ODD.length);
    await ask('equal', folder);
  });

  test('refuses a picture where rollouts.jsonl does, and no text or state that names one', async (t) => {
    const named = plainRow({
      tokens: 2,
      content: '"image_url" "pictures"',
      info: '{"pictures": [1]}',
    });
    const [asked, said] = named.message_log;
    assert.ok(asked && said);
    const part = { type: 'image_url', image_url: { url: 'data:,' } } as const;
    const placed = { ...asked, pictures: [{ offset: 0, length: 1, url: 'u' }] };
    const rows = [{ ...asked, content: [part] }, placed].map((first, at) => ({
      ...named,
      row: 1 + at,
      message_log: [first, said],
    }));
    const folder = await temporaryFolder(t);
    await writeBoth(folder, [named, ...rows]);
    const { arrays, refused } = await ask('equal', folder);
    assert.deepEqual({ arrays, refused }, { arrays: 1, refused: 2 });
  });

  test('that was cut anywhere is a fault that names it, never fewer rows', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    const { batches, cuts = 0 } = await ask('cut', folder);
    assert.equal(batches, ODD.length);
    assert.ok(cuts > 300);
  });

  test('has equal arrays of rows that the last release has written', async (t) => {
    const root = path.join(PROJECT_ROOT, 'test', 'releases', '0.1.0', 'store');
    const store = createFileStore({ root, max_cached_bytes: 0 });
    for (const batch of ['plain', 'named', 'moved', 'penalties', 'one_version']) {
      const folder = await temporaryFolder(t);
      const outputs = store.outputs(batch);
      const { completed } = ((await outputs.readMetrics()) as BatchResult).counts;
      for (const format of FORMATS)
        await outputs.exportRollouts({
          file: path.join(folder, `rollouts.${format}`),
          format,
          completed,
        });
      const { sequences } = await ask('whole', folder);
      assert.ok(completed > 0 && sequences === completed, `${batch}: ${sequences} of ${completed}`);
    }
  });

  test('is read by groups, each with its own sequences', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    assert.equal((await ask('groups', folder))['groups'], ODD.length);
  });

  test('of a later release, with a column more, reads as this release’s does', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    assert.equal((await ask('later', folder))['columns'], 22);
  });
});

const METRICS =
  '{"counts": {"requested": 2, "completed": 2}, "files": {"rollouts": "rollouts.jsonl", "sequences": "rollouts.arrow"}}';

test(
  'the blocks of docs/training-data.md and docs/arrow.md read both forms of a stored batch alike',
  { skip },
  async (t) => {
    const folder = await temporaryFolder(t);
    const batch = path.join(folder, '.rollouts', 'trajectories', 'step-17');
    await mkdir(batch, { recursive: true });
    await writeBoth(batch, [plainRow({ tokens: 3 }), plainRow({ tokens: 5 })]);
    await writeFile(path.join(batch, 'metrics.json'), METRICS);
    const lines = await exampleIn('docs/training-data.md', 'arrays.loss_mask.sum()');
    const block = await exampleIn('docs/arrow.md', 'trajectories(batch.sequences())');
    await copyFile(path.join(batch, 'rollouts.arrow'), path.join(folder, 'step-17.arrow'));
    const exported = await exampleIn('docs/arrow.md', 'Sequences(pa.ipc.open_stream(');
    const same = `
assert (arrays.input_ids == lines.input_ids).all() and (arrays.loss_mask == lines.loss_mask).all()`;
    const after = `${same}
assert len(lengths) == len(rows) == 2 and all(lengths)`;
    python(['-c', [lines, 'lines = arrays', block, after, exported, same].join('\n')], {
      cwd: folder,
      PYTHONPATH: PYTHON_PACKAGES,
    });
  },
);

const ODD = [
  plainRow({ tokens: 0 }),
  plainRow({ tokens: 3, content: 'a lone \ud800 surrogate, 漢字, "quotes" \u2028' }),
  plainRow({ tokens: 131_072 }),
  plainRow({ tokens: 2, version: '1732640000123' }),
  plainRow({ tokens: 2, version: '2147483647' }),
  plainRow({ tokens: 2, version: 'default' }),
  plainRow({ tokens: 4, info: '{"id": 9007199254740993, "same": 1.0, "2": 1, "1": 2}' }),
  plainRow({ tokens: 5, logprobs_mode: 'unknown' }),
];
