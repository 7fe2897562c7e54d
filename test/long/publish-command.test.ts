/** `policy publish` from the command line, at moments at which no run answers it. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { after, before, describe, test } from 'node:test';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import type { Child } from '../../dev/child.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { eventually, within } from '../../lab/bed/waiting.js';

describe('a publish from the command line', () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({ name: 'publish-command' });
  });
  after(() => bed.end());

  test('is answered while no worker runs yet, and one is started under a running batch', async () => {
    await bed.publish(await bed.weights(1));
    await bed.batch('b').start(puzzleBatch({ samples: 40, repeats: 2, max_rollout_turns: 20 }));
    await eventually(
      'tokens',
      async () => ((await bed.check('b').catch(() => null))?.tokens ?? 0) > 0,
    );
    for (let version = 2; version < 5; version++) {
      const weights = await bed.weights(version);
      let trainer = null as Child | null;
      await bed.worker.kill(async () => {
        trainer = await bed.startTrainer(weights);
        await sleep(3000);
      });
      if (trainer === null) throw new Error('no trainer');
      const { code } = await within({ what: 'the publish', timeout_ms: 60_000 }, trainer.exited);
      assert.equal(code, 0, (await trainer.lastWords()) ?? '');
    }
    assert.equal((await bed.status()).record?.version, 4);
  });
});
