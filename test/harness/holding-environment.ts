import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { firstFreePort } from '../../dev/free-port.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { PythonServer } from './python-server.js';
import { startPythonServer } from './python-server.js';

const Event = z.strictObject({
  event: z.enum(['begin', 'step', 'end']),
  /** `<rollout_id>/<life>` */
  session: z.string(),
  /** Whether its resource existed when the call arrived. */
  held: z.boolean(),
});
export type HoldingEvent = z.infer<typeof Event>;

/** `test/servers/holding_environment.py`, served by the Python package; its resources outlive its process. */
export interface HoldingEnvironment {
  /** Stays the same after a restart. */
  url: string;
  /** The sessions whose resources exist. */
  held: () => Promise<string[]>;
  /** The calls that arrived, in order, across restarts. */
  events: () => Promise<HoldingEvent[]>;
  /** From now on each rollout ends at its next turn. */
  letEnd: () => Promise<void>;
  /** kill -9; resolves when it has ended. Does nothing for an ended process. */
  kill: () => Promise<void>;
  /** On the same port; resolves when it listens. */
  start: () => Promise<void>;
}

export async function startHoldingEnvironment(directory: string): Promise<HoldingEnvironment> {
  const folder = path.join(directory, 'holding');
  await mkdir(folder, { recursive: true });
  const port = await firstFreePort(0);
  const start = (): Promise<PythonServer> =>
    startPythonServer({
      cwd: path.join(PROJECT_ROOT, 'test', 'servers'),
      served: 'holding_environment:Holding',
      port,
      env: { HOLDING_FOLDER: folder },
    });
  let server = await start();
  return {
    url: `http://127.0.0.1:${port}`,
    held: async () => (await readdir(path.join(folder, 'held'))).map(decodeURIComponent).sort(),
    events: async () => {
      const text = await readFile(path.join(folder, 'events.jsonl'), 'utf8');
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => Event.parse(JSON.parse(line)));
    },
    letEnd: () => writeFile(path.join(folder, 'over'), ''),
    kill: () => server.kill(),
    start: async () => {
      server = await start();
    },
  };
}
