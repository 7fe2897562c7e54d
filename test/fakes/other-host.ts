import type { TestContext } from 'node:test';
import { takeAhead } from '../../src/platform/waits/common-clock.js';

/** From here on, this process is one of a host whose clock is ahead by that, and which has asked the server for its own. */
export function hostAhead(t: TestContext, ahead_ms: number): void {
  const now = performance.now.bind(performance);
  t.mock.method(performance, 'now', () => now() + ahead_ms);
  takeAhead(ahead_ms);
  t.after(() => takeAhead(0));
}
