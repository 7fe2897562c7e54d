import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SYSTEM_CLOCK } from '../../src/platform/waits/clock.js';
import { eventually } from '../../lab/bed/waiting.js';

test('a timer never fires before its time: a probe that does is answered for nothing', async () => {
  const early: number[] = [];
  let fired = 0;
  for (let i = 0; i < 40; i++) {
    const delay = 20 + i * 0.37;
    const due = SYSTEM_CLOCK.now() + delay;
    SYSTEM_CLOCK.after(delay, () => {
      fired += 1;
      if (SYSTEM_CLOCK.now() < due) early.push(due - SYSTEM_CLOCK.now());
    });
  }
  await eventually('all of them', () => fired === 40);
  assert.deepEqual(early, []);
});
