/** The Python package reads rollouts.arrow and rollouts.jsonl alike. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { arbitraryRow } from '../fakes/arbitrary-row.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { agentJournal, linesOf, rolloutOf } from '../gateway/agent-rows.js';
import type { BatchResult } from '../../src/activities/contract.js';
import { PYTHON_PACKAGES } from '../../src/dev/trainer-example.js';
import { FORMATS } from '../../src/model/results/arrow/formats.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { exampleIn } from '../docs/example.js';
import { python, skip } from '../harness/python-package.js';
import { askPython, writeBoth } from './arrow-files.js';
import { row as plainRow } from './arrow-rows.js';

describe('rollouts.arrow in Python', { skip }, () => {
  test('equals rollouts.jsonl, for rows of any journal', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, fc.sample(arbitraryRow, 300));
    const seen = askPython('equal', folder);
    assert.equal(seen['rows'], 300);
    for (const what of ['arrays', 'refused', 'agents', 'unlogged'])
      assert.ok((seen[what] ?? 0) >= 10, `only ${seen[what]} of ${what}: this proves little`);
  });

  test('equals rollouts.jsonl, for agents whose conversations branch', async (t) => {
    const folder = await temporaryFolder(t);
    const lines = await Promise.all(fc.sample(agentJournal, 400).map(linesOf));
    await writeBoth(
      folder,
      lines.map((one) => rolloutOf(one).row),
    );
    const seen = askPython('equal', folder);
    assert.ok((seen['trees'] ?? 0) >= 10, `only ${seen['trees']} trees: this proves little`);
    assert.ok((seen['sequences'] ?? 0) > 400);
  });

  test('has equal arrays of all rows at once, also of odd ones', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    const { sequences } = askPython('whole', folder);
    assert.equal(sequences, ODD.length);
    askPython('equal', folder);
  });

  test('that was cut anywhere is a fault that names it, never fewer rows', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    const { batches, cuts = 0 } = askPython('cut', folder);
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
      const { sequences } = askPython('whole', folder);
      assert.ok(completed > 0 && sequences === completed, `${batch}: ${sequences} of ${completed}`);
    }
  });

  test('is read by groups, each with its own sequences', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    assert.equal(askPython('groups', folder)['groups'], ODD.length);
  });

  test('of a later release, with a column more, reads as this release’s does', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, ODD);
    assert.equal(askPython('later', folder)['columns'], 22);
  });
});

const METRICS =
  '{"counts": {"requested": 2, "completed": 2}, "files": {"rollouts": "rollouts.jsonl", "sequences": "rollouts.arrow"}}';

test(
  'the block of docs/training-data.md reads both forms of a stored batch alike',
  { skip },
  async (t) => {
    const folder = await temporaryFolder(t);
    const batch = path.join(folder, '.rollouts', 'trajectories', 'step-17');
    await mkdir(batch, { recursive: true });
    await writeBoth(batch, [plainRow({ tokens: 3 }), plainRow({ tokens: 5 })]);
    await writeFile(path.join(batch, 'metrics.json'), METRICS);
    const block = await exampleIn('docs/training-data.md', 'trajectories(batch.sequences())');
    const after = `
lines = to_arrays(batch.rows(), advantages="grpo")
assert (arrays.input_ids == lines.input_ids).all() and (arrays.loss_mask == lines.loss_mask).all()
assert len(lengths) == len(rows) == 2 and all(lengths)`;
    python(['-c', `${block}${after}`], { cwd: folder, PYTHONPATH: PYTHON_PACKAGES });
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
