import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { author, entryOf } from '../fakes/journal-lines.js';
import { hostAhead } from '../fakes/other-host.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';

const HOUR = 3_600_000;
const a = author('ignored');

describe('a rollout that one host begins and another ends', () => {
  for (const ahead of [HOUR, -HOUR])
    test(`takes as long as it takes, where the other's clock is ${ahead / 1000} s ahead`, async (t) => {
      const { store, elsewhere } = await temporaryStore(t);
      const first = await store.claim(REF, { activity: 'openRollout' });
      await first.append(entryOf(a.start()));
      await first.commit();
      hostAhead(t, ahead);
      const second = await elsewhere().claim(REF, { activity: 'playTurns' });
      await second.append(entryOf(a.end()));
      await second.commit();
      const { start, end } = await elsewhere().readTrajectory(REF);
      const took = (end?.at ?? NaN) - (start?.at ?? NaN);
      assert.ok(took >= 0 && took < 600, `${took} s`);
    });
});
