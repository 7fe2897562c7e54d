import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Tally } from '../../collection/follow/tally.js';
import { createTally, meansOf } from '../../collection/follow/tally.js';
import type { CollectionView } from '../../collection/follow/status.js';
import {
  absentAgents,
  createPercents,
  renderCollection,
  renderStatus,
} from '../../collection/follow/status.js';
import { routeAnswer, routeFailure } from '../../collection/follow/routing.js';
import { gymRow } from '../rows.js';

const rows = [0, 1, 2, 3].map((task) =>
  gymRow({ task, rollout: 0 }, { agent: task < 3 ? 'simple' : 'other' }),
);
const [first, second, third] = rows as [(typeof rows)[0], (typeof rows)[0], (typeof rows)[0]];
const failure = { failure_class: 'x', terminal: false, type: 'T', message: 'm', status: null };

/** Two answers and a failure of `simple`; `other` has none. */
function played(): Tally {
  const { tally, count } = createTally({ rows, cached: 5 });
  count(
    routeAnswer({
      row: first,
      attempt: 0,
      text: '{"reward":1.0,"solved":true,"n":4,"_x":9,"s":"t","response":{}}',
    }),
  );
  count(routeAnswer({ row: second, attempt: 0, text: '{"reward":0,"solved":false}' }));
  count(routeFailure({ row: third, attempt: 0, failure }));
  return tally;
}

const view = (more: Partial<CollectionView> = {}): CollectionView => ({
  title: 'out.jsonl',
  tally: played(),
  running: [],
  elapsedS: 90,
  nowS: 10_000,
  notes: [],
  ...more,
});

describe('what is counted of a collection', () => {
  test('rows are done once, and failures are counted apart', () => {
    const { total, done, failed, agents } = played();
    assert.deepEqual({ total, done, failed }, { total: 4, done: 3, failed: 1 });
    assert.equal(agents.get('simple')?.done, 3);
    assert.equal(agents.get('other')?.done, 0);
  });

  test('running means are those of the numbers at the top of results, by the agent’s results', () => {
    const simple = played().agents.get('simple');
    assert.ok(simple !== undefined);
    assert.deepEqual(meansOf(simple), [
      ['reward', 0.5],
      ['solved', 0.5],
      ['n', 2],
    ]);
  });

  test('rows that the batch failed before are done and failed, until they are played again', () => {
    const { tally, count } = createTally({ rows, cached: 0, failed: new Set(['0-0', '9-9']) });
    assert.deepEqual({ done: tally.done, failed: tally.failed }, { done: 1, failed: 1 });
    count(routeAnswer({ row: first, attempt: 1, text: '{"reward":1}' }));
    assert.deepEqual({ done: tally.done, failed: tally.failed }, { done: 1, failed: 0 });
  });

  test('a failure that a later attempt made good is none', () => {
    const { tally, count } = createTally({ rows, cached: 0 });
    count(routeFailure({ row: first, attempt: 0, failure }));
    count(routeAnswer({ row: first, attempt: 1, text: '{"reward":1}' }));
    assert.deepEqual({ done: tally.done, failed: tally.failed }, { done: 1, failed: 0 });
  });
});

test('the status of a log is upstream’s text, with the failures and what plays longest', () => {
  const running = [
    {
      row: gymRow({ task: 3, rollout: 1 }, { agent: 'other' }),
      since: 9_280,
      attempt: 1,
      waiting: null,
    },
  ];
  assert.equal(
    renderStatus(view({ running, elapsedS: 3_725, notes: ['waiting for other: refused'] })),
    [
      'Finished 3 / 4 rollouts (75%) in 1:02:05 (0.05 rollouts/min). 1 failed. Examples left:',
      '1. other: 1',
      'Found 3 / 3 (100.00%) rollouts for `simple`.',
      '{',
      '    "reward": 0.5,',
      '    "solved": 0.5,',
      '    "n": 2',
      '}',
      'Longest running: other 3-1 for 12m, attempt 2',
      'waiting for other: refused',
    ].join('\n'),
  );
});

test('the board shows how far it is, at which rate, what failed, the means and the stragglers', () => {
  const running = [{ row: third, since: 9_960, attempt: 0, waiting: null }];
  assert.deepEqual(renderCollection(view({ running }), { columns: 72, colour: false }), [
    'out.jsonl                                                           1:30',
    '########################........  3 of 4 done, 5 from before  about 0:30 left'.slice(0, 69) +
      '...',
    'running 1   failed 1   2 rollouts/min',
    'other 0/1   ',
    'simple 3/3   reward 0.5000   solved 0.5000   n 2',
    'simple 2-0 for 40s, attempt 1',
  ]);
});

test('a mean has four digits on the board', () => {
  const { tally, count } = createTally({ rows: [first], cached: 0 });
  const text = '{"tokens":12345.678,"at":1732204800123,"reward":0.123456789}';
  count(routeAnswer({ row: first, attempt: 0, text }));
  const lines = renderCollection(view({ tally }), { columns: 72, colour: false });
  assert.ok(
    lines.includes('simple 1/1   tokens 12,346   at 1.732e12   reward 0.1235'),
    lines.join('\n'),
  );
});

test('an agent whose rows wait for its server is named once', () => {
  const waiting = (message: string | null) => ({
    row: third,
    since: 0,
    attempt: 0,
    waiting: message,
  });
  assert.deepEqual(absentAgents([waiting(null), waiting('refused'), waiting('reset')]), [
    'waiting for simple: refused',
  ]);
});

test('a status is due at each whole percent that was reached, and at 99.5', () => {
  const isDue = createPercents();
  const due = (done: number): boolean => isDue({ done, total: 1000 });
  assert.deepEqual([0, 9, 10, 10, 19, 35, 39].map(due), [
    false,
    false,
    true,
    false,
    false,
    true,
    false,
  ]);
  assert.deepEqual([994, 995, 1000].map(due), [true, true, false]);
});
