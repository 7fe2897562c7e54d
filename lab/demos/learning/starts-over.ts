import { mkdir } from 'node:fs/promises';
import path from 'node:path';
import { takePort } from '../../../dev/free-port.js';
import { createSupervisor } from '../../../dev/supervisor.js';
import { examplePart } from './example.js';
import type { Session } from './follow.js';
import { follow } from './follow.js';
import type { Victim } from './kills.js';
import { enginePart, lessonArguments } from './processes.js';

const LOOP = 'loop';

/**
 * The same kills. Those of the trainer and of the worker hit the loop, which is both. It has no Temporal server, so
 * that turn passes.
 */
const VICTIMS: readonly Victim[] = [
  { what: 'engine', part: 'engine' },
  { what: 'worker', part: LOOP },
  { what: 'trainer', part: LOOP },
  { what: 'Temporal server', part: null },
];

export const startsOverFolder = (folder: string): string => path.join(folder, 'starts-over');

/** Lets the loop that starts over learn the same, until it has, or for a limited time. */
export async function startsOver(session: Session, longest_ms: number): Promise<void> {
  const { options, screen, interrupts } = session;
  const folder = startsOverFolder(options.folder);
  const logs = path.join(folder, 'logs');
  await mkdir(folder, { recursive: true });
  const port = await takePort(8000);
  // How often it dies is part of the result.
  const supervisor = createSupervisor({ say: screen.say });
  const done = new AbortController();
  const finished = (): void => {
    done.abort();
  };
  const args = [
    'bare.py',
    ...lessonArguments({ folder }, options),
    ...['--engine', `http://127.0.0.1:${port}`],
  ];
  try {
    await supervisor.run(enginePart({ port, folder, lesson: options, logs }));
    await supervisor.run(examplePart({ name: LOOP, args, finished }, { logs, env: process.env }));
    await follow(session, {
      folder,
      supervisor,
      done: done.signal,
      victims: VICTIMS,
      phase: 'a loop that starts over, under the same kills',
      longest_ms,
    });
  } finally {
    if (interrupts.signal.aborted) supervisor.kill();
    await supervisor.stop();
  }
}
