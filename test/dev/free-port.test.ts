/** Ports of programs that start at once. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { firstFreePort, takePort } from '../../dev/free-port.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

test('a port that a living process has taken is no other’s before anybody listens there, and free once it has died', async (t) => {
  const folder = await temporaryFolder(t);
  const from = await firstFreePort(21_000);
  const module = pathToFileURL(path.join(import.meta.dirname, '../../dev/free-port.js'));
  const script = `
    const { takePort } = await import(${JSON.stringify(module.href)});
    console.log(await takePort(${from}, ${JSON.stringify(folder)}));
    setInterval(() => undefined, 1000);`;
  const children = Array.from({ length: 6 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    }),
  );
  t.after(() => {
    for (const child of children) child.kill('SIGKILL');
  });
  const ports = await Promise.all(
    children.map(async (child) => {
      for await (const line of createInterface({ input: child.stdout })) return Number(line);
      throw new Error('it took none');
    }),
  );
  assert.equal(new Set(ports).size, ports.length, ports.join(' '));
  assert.ok(!ports.includes(await takePort(from, folder)));
  await Promise.all(
    children.map(async (child) => {
      child.kill('SIGKILL');
      await once(child, 'close');
    }),
  );
  assert.ok(ports.includes(await takePort(from, folder)), 'the dead keep none');
});
