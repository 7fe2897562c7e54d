import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import type { FindOptions } from '../../tools/temporal-cli/find.js';
import { temporalOf, temporaryFolder } from '../dev/fakes.js';

export const CACHED = path.join('durable-rollouts', 'temporal-cli', '1.8.2', 'temporal');
export const PLATFORMS = ['linux/amd64', 'linux/arm64', 'darwin/amd64', 'darwin/arm64'];
/** Nothing listens on port 2. */
const NO_ORIGIN = 'http://127.0.0.1:2';

/** A machine whose PATH is the folder `bin` only, with an empty cache and no way to download. */
export async function machine(t: TestContext) {
  const folder = await temporaryFolder(t);
  const said: string[] = [];
  await mkdir(path.join(folder, 'bin'));
  await mkdir(path.join(folder, 'tools', 'temporal-cli'), { recursive: true });
  const options: FindOptions = {
    env: { PATH: path.join(folder, 'bin'), XDG_CACHE_HOME: path.join(folder, 'cache') },
    projectRoot: folder,
    say: (line) => said.push(line),
    downloadOrigin: NO_ORIGIN,
  };
  return { options, said, at: (...parts: string[]) => path.join(folder, ...parts) };
}

/** A `go` that "builds" a Temporal CLI of this version; notes its arguments beside itself. */
export const goThatBuilds = (version: string): string => `
const fs = require('node:fs');
const args = process.argv.slice(2);
if (args[0] === 'version') { console.log('go version go1.26.8 linux/amd64'); process.exit(); }
fs.appendFileSync(__dirname + '/go.log', JSON.stringify({ args, cwd: process.cwd(), cgo: process.env.CGO_ENABLED }) + '\\n');
const out = args[args.indexOf('-o') + 1];
setTimeout(() => fs.writeFileSync(out, ${JSON.stringify(`#!${process.execPath}\n${temporalOf(version)}\n`)}), 200);`;
