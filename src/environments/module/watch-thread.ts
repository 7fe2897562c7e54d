import { parentPort, workerData } from 'node:worker_threads';
import { BEATS, DEADLINE, LEFT, TICK_MS, tell, type Watched } from './watch.js';

/** The thread that watches a module's process, and ends it with its worker or for a loop beyond a call's deadline. */

/** An event loop that stands still for so long is held by a loop. It is counted, so that a frozen machine is none. */
const HELD_MS = 1000;

const { shared, worker, patience_ms } = workerData as Watched;
let patience = patience_ms ?? Infinity;
parentPort?.on('message', () => {
  patience = Infinity;
});
let seen = -1n;
let held_ms = 0;

setInterval(() => {
  if (process.ppid !== worker) process.kill(process.pid, 'SIGKILL');
  const beats = Atomics.load(shared, BEATS);
  held_ms = beats === seen ? held_ms + TICK_MS : 0;
  seen = beats;
  const deadline = Atomics.load(shared, DEADLINE);
  if (deadline === 0n) return;
  if (held_ms >= patience && Atomics.exchange(shared, LEFT, 1n) === 0n) tell({ kind: 'left' });
  if (held_ms < HELD_MS || Date.now() < deadline) return;
  tell({ kind: 'held' });
  process.kill(process.pid, 'SIGKILL');
}, TICK_MS);
