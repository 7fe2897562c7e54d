import { setTimeout as sleep } from 'node:timers/promises';
import { within } from '../../src/platform/waits/abort.js';
import type { Child } from '../../dev/child.js';
import { describeExit, logTail, startChild } from '../../dev/child.js';
import type { Places } from '../config/search-roots.js';
import type { ServersToCheck } from './servers.js';
import { lookAtServers } from './servers.js';

const LOOK_EVERY_MS = 1000;
const SAY_EVERY_MS = 30_000;
/** Gym's own patience with its servers is 8 s. */
const INTERRUPT_GRACE_MS = 20_000;
const LOG_LINES = 20;

export interface Serving extends Places, ServersToCheck {
  /** A command for bash, for example `gym env start …`. */
  command: string;
  /** It, as people may read it. */
  shown: string;
  log_file: string;
  /** Time limit until all servers answer. */
  timeout_ms: number;
  say: (text: string) => void;
}

/**
 * Runs the command until every server answers; returns what stops it. If the command ends before, or takes too long,
 * everything is stopped and it fails.
 */
export async function startServers(serving: Serving): Promise<() => Promise<void>> {
  const { command, shown, cwd, env, log_file, say } = serving;
  say(`Starting servers: ${shown}\n  log: ${log_file}`);
  const child = await startChild({
    command: 'bash',
    args: ['-c', command],
    cwd,
    env,
    logFile: log_file,
    ends: 'kernel',
  });
  const kill = child.kill;
  // A second Ctrl-C ends this process at once, and the group with it.
  process.once('exit', kill);
  const stop = async (): Promise<void> => {
    say('Stopping servers');
    await stopServers(child);
    process.off('exit', kill);
  };
  try {
    await untilAnswering(child, serving);
    return stop;
  } catch (error) {
    await stop();
    throw error;
  }
}

async function untilAnswering(child: Child, serving: Serving): Promise<void> {
  const { signal, timeout_ms, say, log_file } = serving;
  const start = performance.now();
  let said = start;
  let ended = '';
  void child.exited.then((exit) => {
    ended = describeExit(exit);
  });
  for (;;) {
    const { missing, is_other } = await lookAtServers(serving);
    if (missing === '') return;
    if (ended !== '') {
      const tail = await logTail(log_file, LOG_LINES);
      throw new Error(
        `the serve command ended ${ended}, and ${missing}\n${tail}\n(log: ${log_file})`,
      );
    }
    if (is_other) throw new Error(missing);
    const waited = performance.now() - start;
    if (waited > timeout_ms) {
      throw new Error(
        `servers are not up after ${Math.round(waited / 1000)} s: ${missing} (log: ${log_file})`,
      );
    }
    if (performance.now() - said > SAY_EVERY_MS) {
      said = performance.now();
      say(`Waiting for servers: ${missing}`);
    }
    await sleep(LOOK_EVERY_MS, undefined, { signal });
  }
}

/** Like Ctrl-C, on which Gym ends its servers; then SIGTERM, and SIGKILL for the rest of the group. */
async function stopServers(child: Child): Promise<void> {
  try {
    process.kill(-child.pid, 'SIGINT');
  } catch {
    // It is already gone.
  }
  await within(INTERRUPT_GRACE_MS, child.exited);
  await child.stop();
}
