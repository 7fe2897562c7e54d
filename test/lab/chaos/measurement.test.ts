import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { askedAgain } from '../../../lab/bed/asked-again.js';
import type { Evidence } from '../../../lab/chaos/measurement.js';
import { interruptedBy, measure, tokensSampledTwice } from '../../../lab/chaos/measurement.js';
import { chunk, claim, end, generation, hit, stream } from './evidence.js';

const evidence = (change: Partial<Evidence> = {}): Evidence => ({
  requested: 2,
  rollouts: [
    { row: 0, repeat: 0 },
    { row: 1, repeat: 0 },
  ],
  failures: [],
  journals: new Map(),
  streams: [],
  hits: [],
  interrupts: 'open_streams',
  ...change,
});

describe('rows', () => {
  test('that are missing are lost, also where they are among the failures', () => {
    const [first, second] = evidence().rollouts;
    const { rollouts_lost, rows_duplicated } = measure(
      evidence({ rollouts: [first!], failures: [second!] }),
    );
    assert.deepEqual([rollouts_lost, rows_duplicated], [1, 0]);
  });

  test('that occur twice, in one file or in both, are duplicated and replace no other', () => {
    const [first] = evidence().rollouts;
    const { rollouts_lost, rows_duplicated } = measure(
      evidence({ rollouts: [first!, first!], failures: [first!] }),
    );
    assert.deepEqual([rollouts_lost, rows_duplicated], [1, 2]);
  });
});

describe('tokens sampled twice', () => {
  test('are none where each turn was sent once', () => {
    assert.equal(tokensSampledTwice([stream(), stream({ turn: 1 })]), 0);
  });

  test('are those of a cut request whose turn starts over', () => {
    assert.equal(tokensSampledTwice([stream({ tokens_sent: 7 }), stream()]), 7);
  });

  test('are those behind what a resumed request inherits in its prompt', () => {
    const cut = stream({ tokens_sent: 7 });
    const resumed = stream({ prompt_tokens: 104, tokens_sent: 6 });
    assert.equal(tokensSampledTwice([cut, resumed]), 3);
    assert.equal(tokensSampledTwice([cut, stream({ prompt_tokens: 107, tokens_sent: 3 })]), 0);
  });

  test('count each time, and not those of requests that were refused', () => {
    const refused = stream({ tokens_sent: 0 });
    const unread = stream({ prompt_tokens: null, tokens_sent: 0 });
    const streams = [unread, refused, stream({ tokens_sent: 4 }), stream({ tokens_sent: 4 })];
    assert.equal(tokensSampledTwice([...streams, stream()]), 8);
  });
});

describe('turns generated twice', () => {
  const standing = [claim('a'), chunk('a', [1, 2]), generation('a', 2)];

  test('are asked for by an attempt that found the generation in its journal', () => {
    const journals = new Map([['b/0-0', [...standing, claim('c')]]]);
    assert.equal(askedAgain([stream(), stream({ writer: 'c' })], journals).length, 1);
  });

  test('are none where the generation came after the claim, or was another’s who had lost the journal', () => {
    const late = new Map([
      ['b/0-0', [claim('a'), claim('c'), chunk('a', [1, 2]), generation('a', 2)]],
    ]);
    assert.equal(askedAgain([stream({ writer: 'c' })], late).length, 0);
    const open = new Map([['b/0-0', [claim('a'), chunk('a', [1, 2]), claim('c')]]]);
    assert.equal(askedAgain([stream({ writer: 'c' })], open).length, 0);
  });
});

describe('what a fault interrupts', () => {
  const open = stream({ tokens_sent: 10, ended_at: 300 });
  const later = stream({ rollout_id: 'b/1-0', arrived_at: 400, ended_at: 500 });

  test('is every stream that is open when it strikes, with what was sent on it after', () => {
    const hits = [hit(45, 450)];
    assert.deepEqual(interruptedBy(evidence({ streams: [open, later], hits })), {
      streams: 1,
      tokens_after_disconnect: 5,
    });
  });

  test('or while it is held, or the requests that it hit', () => {
    const hits = [hit(45, 450)];
    const held = evidence({ streams: [open, later], hits, interrupts: 'streams_while_held' });
    assert.deepEqual(interruptedBy(held), { streams: 2, tokens_after_disconnect: 0 });
    const one = [open, { ...later, fault: 'cut' }];
    const struck = evidence({ streams: one, hits, interrupts: 'hit_requests' });
    assert.equal(interruptedBy(struck).streams, 1);
  });
});

describe('recovery', () => {
  const cut = stream({ ended_at: 60 });
  const resumed = stream({ arrived_at: 1000, writer: 'c' });
  const other = stream({ rollout_id: 'b/1-0', ended_at: 60 });
  const hits = [hit(50)];

  test('lasts until the last of the interrupted rollouts has a token again', () => {
    const streams = [cut, other, resumed, stream({ rollout_id: 'b/1-0', arrived_at: 2000 })];
    assert.equal(measure(evidence({ streams, hits })).recovery_s, 1.95);
  });

  test('or has ended', () => {
    const journals = new Map([['b/1-0', [claim('a'), end('a', 3.05)]]]);
    const streams = [cut, other, resumed];
    assert.equal(measure(evidence({ streams, hits, journals })).recovery_s, 3);
  });

  test('is null if a request was hit and completed', () => {
    const streams = [stream({ fault: 'merged_deltas' }), stream({ turn: 1, arrived_at: 500 })];
    const { recovery_s } = measure(evidence({ streams, hits, interrupts: 'nothing' }));
    assert.equal(recovery_s, null);
  });

  test('of a request that was hit counts from its last token', () => {
    const streams = [stream({ fault: 'cut', whole: false }), resumed];
    const { recovery_s } = measure(evidence({ streams, hits, interrupts: 'hit_requests' }));
    assert.equal(recovery_s, 0.91);
  });
});
