/**
 * Loaded into a worker (`node --import`) by the measurement of many rollouts: every second a line about the event loop
 * and the heap of its main thread, in the file that `LOOP_DELAY_FILE` names.
 */
import { appendFileSync } from 'node:fs';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { isMainThread } from 'node:worker_threads';

const EVERY_MS = 1000;
const RESOLUTION_MS = 10;

const file = process.env.LOOP_DELAY_FILE;
if (isMainThread && file !== undefined) {
  // What the worker starts is not measured.
  delete process.env.NODE_OPTIONS;
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  // The histogram has the whole interval between two looks.
  const ms = (nanoseconds) => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  setInterval(() => {
    const timers = process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
    const line = {
      at: Date.now(),
      p50_ms: ms(delay.percentile(50)),
      p99_ms: ms(delay.percentile(99)),
      max_ms: ms(delay.max),
      heap_mb: process.memoryUsage().heapUsed / 2 ** 20,
      timers,
    };
    appendFileSync(file, `${JSON.stringify(line)}\n`);
    delay.reset();
  }, EVERY_MS).unref();
}
