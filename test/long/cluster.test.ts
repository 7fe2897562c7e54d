/** `npm run cluster`: PostgreSQL, Temporal, engines and workers that share only the results folder. */
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { MAIN } from '../../lab/bed/command.js';
import { readRows } from '../../lab/bed/batch.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

const HOSTS = ['environment', 'generation', 'workflow'].flatMap((role) => [
  `${role}-1`,
  `${role}-2`,
]);
const REPEATS = 2;
const ROLLOUTS = 6 * REPEATS;

describe('a cluster on one machine', { skip: noPostgres }, () => {
  test('plays a batch whose journals are in its database alone, which `show` reads, and leaves nothing behind', async (t) => {
    const directory = await makeTemporaryDirectory('cluster');
    t.after(() => directory.remove());
    const folder = path.join(directory.path, 'run');
    const args = [MAIN, 'cluster', '--folder', folder, '--repeats', String(REPEATS)];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    t.after(() => child.kill('SIGKILL'));
    const ended = once(child, 'exit') as Promise<[number | null]>;
    let said = '';
    for await (const chunk of child.stdout) {
      said += String(chunk);
      if (said.includes('temporal-rollout show')) break;
    }
    assert.match(said, new RegExp(`${ROLLOUTS} of ${ROLLOUTS} rollouts completed`));

    const outputs = path.join(folder, 'outputs', 'cluster');
    assert.equal((await readRows(path.join(outputs, 'rollouts.jsonl'))).length, ROLLOUTS);
    assert.deepEqual((await readdir(outputs)).sort(), [
      'failures.jsonl',
      'groups.jsonl',
      'metrics.json',
      'rollouts.jsonl',
    ]);
    const hosts = path.join(folder, 'hosts');
    assert.deepEqual((await readdir(hosts)).sort(), HOSTS);
    const config = path.join(hosts, 'generation-2', 'temporal.yaml');
    const shown = await promisify(execFile)(process.execPath, [
      MAIN,
      'show',
      'cluster',
      '--json',
      '--config',
      config,
    ]);
    assert.equal(shown.stdout.trim().split('\n').length, ROLLOUTS);

    const url = await readFile(path.join(hosts, 'generation-2', 'database-url'), 'utf8');
    const { password, port } = new URL(url);
    assert.ok(!said.includes(password));
    for (const log of await readdir(path.join(folder, 'logs')))
      assert.ok(!(await readFile(path.join(folder, 'logs', log), 'utf8')).includes(password), log);
    child.kill('SIGINT');
    assert.equal((await ended)[0], 0);
    await assert.rejects(fetch(`http://127.0.0.1:${port}`), /fetch failed/);
  });
});
