import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

/** What the name leads to, one look after the other; `fails`: the update is refused in that look. */
const LOOKS = [
  { hosts: ['10.1.0.5', '10.1.0.4'] },
  { hosts: ['10.1.0.4', '10.1.0.5'] },
  // A paused engine is out of the name, and so is everything for a moment.
  { hosts: [] },
  { hosts: ['10.1.0.4', 'fd00::7'], fails: true },
  { hosts: ['10.1.0.4', 'fd00::7'] },
];

test('examples/engines/follow-dns.sh says all engines of a name whenever they change, and makes none leave', async (t) => {
  const folder = await temporaryFolder(t);
  const at = (name: string): string => path.join(folder, name);
  const put = (name: string, text: string) =>
    writeFile(at(name), `#!/bin/sh\n${text}`, { mode: 0o755 });
  for (const [i, { hosts, fails = false }] of LOOKS.entries()) {
    const lines = hosts.flatMap((host) => [`${host} STREAM engines`, `${host} DGRAM`]);
    await writeFile(at(`hosts-${i}`), lines.map((line) => `${line}\n`).join(''));
    if (fails) await writeFile(at(`fails-${i}`), '');
  }
  await writeFile(at('look'), '0');
  await put(
    'getent',
    `[ "$1 $2" = "ahosts engines.ml" ] && cat "${folder}/hosts-$(cat "${folder}/look")"`,
  );
  await put(
    'temporal',
    `for last; do :; done; echo "$last" >> "${folder}/said"; [ ! -e "${folder}/fails-$(cat "${folder}/look")" ]`,
  );
  // The script ends when a command of it fails outside a condition.
  await put(
    'sleep',
    `n=$(($(cat "${folder}/look") + 1)); echo $n > "${folder}/look"; [ $n -lt ${LOOKS.length} ]`,
  );
  const script = path.join(PROJECT_ROOT, 'examples', 'engines', 'follow-dns.sh');
  const env = { PATH: `${folder}:${process.env['PATH'] ?? ''}` };
  const { stderr } = spawnSync('sh', [script, 'engines.ml', '8000'], {
    env,
    encoding: 'utf8',
    timeout: 280_000,
  });
  assert.equal(stderr, '');
  const said = (await readFile(at('said'), 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as unknown);
  const urls = (...hosts: string[]) => ({
    owner: 'dns',
    urls: hosts.map((host) => `http://${host}:8000/v1`),
    replace: false,
  });
  const changed = urls('10.1.0.4', '[fd00::7]');
  assert.deepEqual(said, [urls('10.1.0.4', '10.1.0.5'), changed, changed]);
});
