/** `report` on a command line: what it takes, and what it says. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { reportCommand } from '../../src/cli/report.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const RELEASED = path.join(PROJECT_ROOT, 'test', 'releases', '0.1.0', 'store');

async function reporting(t: TestContext) {
  const folder = await temporaryFolder(t);
  const config = path.join(folder, 'temporal.yaml');
  await writeFile(config, `store: { kind: file, root: ${RELEASED} }\nenvironments: {}\n`);
  const file = path.join(folder, 'report.html');
  const report = (...given: string[]) => reportCommand([...given, '-o', file, '--config', config]);
  return { file, report };
}

const rolloutsIn = async (file: string): Promise<(string | undefined)[]> =>
  Array.from(
    (await readFile(file, 'utf8')).matchAll(/ id="rollout:([^"]+)"/g),
    ([, id]) => id,
  ).sort();

describe('report', () => {
  test('writes a batch of an earlier release, or two of its rollouts, with the page of the build', async (t) => {
    const { file, report } = await reporting(t);
    assert.equal(await report('stops'), 0);
    assert.deepEqual(await rolloutsIn(file), ['stops/0-0', 'stops/1-0', 'stops/2-0']);
    assert.equal(await report('stops/0-0', 'plain/1'), 0);
    assert.deepEqual(await rolloutsIn(file), ['plain/1-0', 'stops/0-0']);
    assert.match(await readFile(file, 'utf8'), /<div id="page">/);
  });

  test('says what it expects', async (t) => {
    const { file, report } = await reporting(t);
    await assert.rejects(
      report(),
      /expected one or two of ID, ID\/ROW and ID\/ROW-REPEAT, got none/,
    );
    await assert.rejects(report('a', 'b', 'c'), /got "a b c"/);
    await assert.rejects(report('../x'), /got "\.\.\/x"/);
    await assert.rejects(
      report('plain', '--steps', '5-2'),
      /--steps: expected a step or FIRST-LAST/,
    );
    await assert.rejects(report('plain', '--max-size', '0'), /--max-size: expected a number/);
    await assert.rejects(report('plain/9'), /plain: expected rollouts of row 9, got none/);
    await assert.rejects(report('none'), /no batch or stream none in /);
    assert.ok(!existsSync(file));
  });
});
