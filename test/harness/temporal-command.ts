import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { findTemporalCli } from '../../tools/temporal-cli/find.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';

const run = promisify(execFile);

/** `temporal …` on a server; returns its standard output. */
export type Temporal = (...args: string[]) => Promise<string>;

export async function temporalOn({
  address,
  namespace,
}: {
  address: string;
  namespace: string;
}): Promise<Temporal> {
  const env = process.env;
  const { path } = await findTemporalCli({ env, projectRoot: PROJECT_ROOT, say: console.log });
  const at = ['--address', address, '--namespace', namespace];
  return async (...args) => (await run(path, [...args, ...at], { timeout: 280_000 })).stdout;
}
