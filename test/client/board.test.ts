import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { BatchProgress } from '../../src/activities/contract.js';
import type { BoardState } from '../../src/client/board.js';
import { renderBoard, renderPlain } from '../../src/client/board.js';
import { NO_PACE } from '../../src/client/pace.js';
import { formatClock, formatNumber } from '../../src/client/number-text.js';

const PROGRESS: BatchProgress = {
  phase: 'running',
  requested: 64,
  done: 16,
  running: 48,
  valid: 15,
  failed: 1,
  turns: 120,
  tokens: 12345,
  reward_sum: 6,
  waiting: null,
  elapsed_s: 10,
  turns_per_s: 12,
  tokens_per_s: 1234.5,
};
const BATCH = 'sliding-puzzle-20261121T020304Z';
const state = (change: Partial<BoardState> = {}): BoardState => ({
  batchId: BATCH,
  progress: PROGRESS,
  elapsedS: 10.4,
  silentS: null,
  trouble: null,
  seen: null,
  pace: { done_per_s: 1.6, turns_per_s: 12, tokens_per_s: 1234.5 },
  ...change,
});

describe('the board', () => {
  test('shows what is done, the rates and the time left, within 80 columns', () => {
    assert.deepEqual(renderBoard(state(), { columns: 79, colour: false }), [
      `${BATCH}  running${' '.repeat(35)}0:10`,
      `${'#'.repeat(9)}${'.'.repeat(30)}  16 of 64 done${' '.repeat(10)}about 0:30 left`,
      'running 48   failed 1   mean reward 0.400 of 15',
      'turns 120 (12/s)   tokens 12,345 (1,235/s)',
    ]);
  });

  test('says how many tasks wait for slots, and a priority and a share that are not the usual ones', () => {
    const numbers = (change: Partial<BoardState>): string | undefined =>
      renderBoard(state(change), { columns: 120, colour: false })[2];
    assert.equal(
      numbers({ queued: 0, progress: { ...PROGRESS, priority: 3, share: 1 } }),
      'running 48   failed 1   mean reward 0.400 of 15',
    );
    const low = { queued: 1112, progress: { ...PROGRESS, priority: 5, share: 0.25 } };
    assert.equal(
      numbers(low),
      'running 48   failed 1   mean reward 0.400 of 15   waiting for slots 1,112 (of all)   priority 5   share 0.25',
    );
    assert.match(
      renderPlain(state(low)),
      /, waiting for slots 1,112 \(of all\), priority 5, share 0\.25/,
    );
    assert.doesNotMatch(numbers({ ...low, silentS: 9 }) ?? '', /slots/);
  });

  test('says the address of a service once', () => {
    const service = 'http://engine/v1';
    const waiting = {
      service,
      call: 'generation service default',
      message: `${service}: GET /health: refused`,
    };
    const board = renderBoard(state({ progress: { ...PROGRESS, waiting } }), {
      columns: 159,
      colour: false,
    });
    assert.equal(
      board.at(-1),
      'waiting for generation service default at http://engine/v1: GET /health: refused',
    );
  });

  test('names what the batch waits for, on one line without control characters', () => {
    const waiting = {
      service: 'generation service default',
      message: 'connect ECONNREFUSED\n\u001b[31m127.0.0.1:8000',
    };
    const board = renderBoard(state({ progress: { ...PROGRESS, waiting } }), {
      columns: 79,
      colour: false,
    });
    assert.equal(
      board.at(-1),
      'waiting for generation service default: connect ECONNREFUSED 127.0.0.1:8000',
    );
  });

  test('shows what rollouts wait for, how many wait, how often they tried and since when', () => {
    const waiting = {
      service: 'http://env',
      call: 'environment puzzle',
      message: '503: busy',
      tries: 12,
      since: '2026-01-01 08:00:03 UTC',
      rollouts: 8,
    };
    const board = renderBoard(state({ progress: { ...PROGRESS, waiting } }), {
      columns: 200,
      colour: false,
    });
    assert.equal(
      board.at(-1),
      'waiting for environment puzzle at http://env (8 rollouts, 12 tries since 2026-01-01 08:00:03 UTC): 503: busy',
    );
  });

  test('gives the last answer a line of its own where one line has no room for both', () => {
    const waiting = {
      service: 'environment puzzle',
      message: 'http://env answered 503:\nbusy',
      tries: 2,
      since: '2026-01-01 08:00:03 UTC',
      rollouts: 10,
    };
    const style = { columns: 79, colour: false };
    const board = renderBoard(state({ progress: { ...PROGRESS, waiting } }), style);
    assert.deepEqual(board.slice(-2), [
      'waiting for environment puzzle (10 rollouts, 2 tries since 2026-01-01 08:00:...',
      '  http://env answered 503: busy',
    ]);
  });

  test('says that nothing was answered yet, and why, if that is known', () => {
    const style = { columns: 60, colour: false };
    const silent = { progress: null, silentS: 10.4 };
    const head = `${BATCH}  open${' '.repeat(19)}0:10`;
    assert.deepEqual(renderBoard(state(silent), style), [head, 'no answer for 10 s']);
    const known = state({ ...silent, trouble: 'waiting for the Temporal server at host:7233' });
    assert.deepEqual(renderBoard(known, style), [
      head,
      'waiting for the Temporal server at host:7233 (no answer f...',
    ]);
  });

  test('of a batch that Temporal has not told of says so, and for how long it has run only once that is known', () => {
    const unseen = state({ progress: null, elapsedS: null });
    const [head] = renderBoard(unseen, { columns: 79, colour: false });
    assert.equal(head, `${BATCH}  not seen yet`);
    assert.match(renderPlain(unseen), new RegExp(`^${BATCH} not seen yet, `));
  });

  test('says whose answer is missing and when they were last seen, and after a while what to do, without blame', () => {
    const style = { columns: 79, colour: false };
    const seen = { taskQueue: 'newb', ago_s: 8.2 };
    const who = (s: number) =>
      `no answer from the workers of task queue newb for ${s} s; last seen 8 s ago`;
    const note = (change: Partial<BoardState>) =>
      renderBoard(state({ seen, ...change }), style).slice(4);
    assert.deepEqual(note({ silentS: 4 }), [who(4)]);
    const advice =
      '  a busy worker answers later; if none runs, start one: temporal-rollout worker';
    assert.deepEqual(note({ silentS: 12 }), [who(12), advice]);
    const remedy = 'one that ends is restarted by itself';
    assert.deepEqual(note({ silentS: 12, remedy }), [
      who(12),
      `  a busy worker answers later; ${remedy}`,
    ]);
    assert.ok(
      renderPlain(state({ seen, silentS: 12 })).endsWith(`, ${who(12)},${advice.slice(1)}`),
    );
    assert.deepEqual(note({ silentS: null }), [], 'nothing while it answers');
  });

  test('without an answer keeps the last numbers, but neither what was waited for nor a time left', () => {
    const waiting = { service: 'engine', message: 'refused' };
    const style = { columns: 79, colour: false };
    const shown = (change: Partial<BoardState>) =>
      renderBoard(state(change), style).slice(1).join('\n');
    const progress = { ...PROGRESS, waiting };
    assert.match(shown({ progress }), /16 of 64 done[^]*\nwaiting for engine: refused$/);
    assert.match(shown({ progress, silentS: 4 }), /16 of 64 done[^]*\nno answer for 4 s$/);
    for (const silentS of [null, 4]) {
      const silent = state({ silentS });
      for (const text of [renderPlain(silent), renderBoard(silent, style).join()])
        assert.equal(/about 0:30 left/.test(text), silentS === null, text);
      assert.doesNotMatch(renderPlain(state({ progress, silentS: 4 })), /waiting for/);
    }
  });

  test('says from the first moment what a batch waits for that has not answered or is not planned', () => {
    const first = state({ progress: null, elapsedS: null });
    const planning = state({ progress: { ...PROGRESS, phase: 'planning', requested: 0, done: 0 } });
    const away = state({ progress: null, trouble: 'waiting for the Temporal server at host:7233' });
    for (const [shown, says] of [
      [
        first,
        'not seen yet, waiting for the first answer: from the Temporal server, then from a worker',
      ],
      [away, 'open, waiting for the Temporal server at host:7233'],
      [
        planning,
        'planning, waiting for its plan: a worker checks the request and asks the engine and the environments',
      ],
    ] as const) {
      assert.equal(renderPlain(shown), `${BATCH} ${says}`);
      const [, note] = renderBoard(shown, { columns: 150, colour: false });
      assert.equal(note, says.slice(says.indexOf('waiting')));
    }
  });

  test('names the most frequent cause of failures with its count', () => {
    const failures = {
      TimedOut: { rollouts: 1, message: 'rollout_timeout passed' },
      EnvironmentFailed: { rollouts: 7, message: 'no such\ntable' },
    };
    const failing = state({ progress: { ...PROGRESS, failed: 8, failures } });
    const says = 'most frequent failure: EnvironmentFailed (7 rollouts): no such table';
    assert.equal(renderBoard(failing, { columns: 79, colour: false })[3], says);
    assert.ok(renderPlain(failing).includes(`8 failed (${says}),`));
  });

  test('counts nothing before the batch is planned', () => {
    const planning = state({ progress: { ...PROGRESS, phase: 'planning', requested: 0, done: 0 } });
    assert.equal(renderBoard(planning, { columns: 79, colour: false }).length, 2);
    assert.doesNotMatch(renderPlain(planning), /done|failed/);
  });

  test('is never wider than the terminal, nor taller than seven lines', () => {
    const count = fc.nat({ max: 1_000_000 });
    const progress = fc.record({
      phase: fc.constantFrom(
        'planning' as const,
        'running' as const,
        'closing' as const,
        'done' as const,
      ),
      requested: count,
      done: count,
      running: count,
      valid: count,
      failed: count,
      turns: count,
      tokens: count,
      reward_sum: fc.double({ noNaN: true }),
      waiting: fc.option(
        fc.record({ service: fc.string(), message: fc.string({ unit: 'binary' }) }),
      ),
      elapsed_s: fc.double({ min: 0, max: 1e6, noNaN: true }),
      turns_per_s: fc.double({ min: 0, max: 1e6, noNaN: true }),
      tokens_per_s: fc.double({ min: 0, max: 1e6, noNaN: true }),
    });
    const columns = fc.integer({ min: 20, max: 200 });
    const silentS = fc.option(fc.double({ min: 0, max: 1e6, noNaN: true }));
    const shown = fc.record({
      progress: fc.option(progress),
      silentS,
      trouble: fc.option(fc.string()),
    });
    fc.assert(
      fc.property(shown, columns, (change, width) => {
        const board = renderBoard(state(change), { columns: width, colour: false });
        assert.ok(board.length <= 7);
        for (const line of board)
          assert.ok(Array.from(line).length <= width && !line.includes('\n'), line);
      }),
    );
  });

  test('takes the same room with colours as without', () => {
    const plain = renderBoard(state(), { columns: 79, colour: false });
    const coloured = renderBoard(state(), { columns: 79, colour: true });
    // Without what gives the colours.
    const stripped = coloured.map((line) => line.replace(/\u001b\[\d+m/g, ''));
    assert.deepEqual(
      stripped.map((line) => line.length),
      plain.map((line) => line.length),
    );
    assert.ok(coloured[1]?.startsWith('\u001b[42m'));
  });
});

test('a batch that waits, or that an earlier run has played in part, gets no guess of the time left', () => {
  const waiting = { service: 'engine', message: 'refused' };
  const text = (change: Partial<BatchProgress>) =>
    renderPlain(state({ progress: { ...PROGRESS, ...change } }));
  assert.match(text({}), /about 0:30 left/);
  assert.doesNotMatch(text({ waiting }), /left/);
  assert.doesNotMatch(text({ continued: true }), /left/);
  assert.match(text({ continued: true }), / running, continued: /);
});

test('what has not moved while it was watched has no rate and no time left', () => {
  const shown = renderPlain(state({ pace: NO_PACE }));
  assert.match(shown, /, 120 turns, 12,345 tokens, /);
  assert.doesNotMatch(shown, /left|\/s/);
});

describe('a plain line', () => {
  test('says the same as the board', () => {
    assert.equal(
      renderPlain(state()),
      `${BATCH} running: 16 of 64 done, 48 running, 1 failed, 120 turns (12/s), 12,345 tokens (1,235/s), mean reward 0.400 of 15, about 0:30 left`,
    );
  });

  test('says of how many the mean reward is only until all have ended', () => {
    const ended = { ...PROGRESS, done: 64, valid: 63, reward_sum: 31.5 };
    assert.match(renderPlain(state({ progress: ended })), /mean reward 0\.500(?:,|$)/);
  });

  test('has no mean reward before a rollout is valid', () => {
    assert.match(
      renderPlain(state({ progress: { ...PROGRESS, valid: 0, reward_sum: 0 } })),
      /mean reward -,/,
    );
  });
});

test('numbers are rounded to what a person reads', () => {
  const cases = {
    0: '0',
    64: '64',
    123456: '123,456',
    0.4375: '0.4375',
    1.23456: '1.235',
    17.489: '17.49',
    321.06: '321.1',
  };
  for (const [value, text] of Object.entries(cases))
    assert.equal(formatNumber(Number(value)), text);
  assert.equal(formatNumber(98765.4), '98,765');
  assert.equal(formatNumber(0.0000123), '1.2e-5', 'small is not nothing');
});

test('times are minutes and seconds, with hours where there are any', () => {
  assert.deepEqual([0.4, 7, 65, 3723].map(formatClock), ['0:00', '0:07', '1:05', '1:02:03']);
});
