/** What the chaos of agents sees: each thing that may go wrong is found. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answerBytes } from '../../../lab/chaos/agents/answers.js';
import type { Heard } from '../../../lab/chaos/agents/heard.js';
import { triesIn } from '../../../lab/chaos/agents/heard.js';
import type { Evidence } from '../../../lab/chaos/agents/judge.js';
import { judge } from '../../../lab/chaos/agents/judge.js';
import { killUntilEnd, VICTIMS } from '../../../lab/chaos/agents/kills.js';
import { judgedRun } from '../../../lab/chaos/agents/report.js';
import type { JournalLine } from '../../../src/model/journal.js';
import { author, foldOf } from '../../fakes/journal-lines.js';
import { stream } from './evidence.js';

const ID = 'b/0-0';
const by = author('a');
const CALL: JournalLine[] = [
  by.call({ stream: true, cause: 'first' }),
  by.chunk({ token_ids: [1, 2, 3] }),
  by.generation({ token_count: 3 }),
  by.answer({ content: 'one two → three' }),
];
const JOURNAL: JournalLine[] = [
  by.claim(),
  by.start({ plays: 'agent', prompt: [] }),
  by.life(),
  ...CALL,
];
const BYTES = answerBytes(foldOf(JOURNAL), { rollout_id: ID, turn: 0, stream: true }) ?? '';

const tryOf = (change: Partial<Heard['tries'][number]> = {}) => ({
  name: '0a',
  number: 0,
  stream: true,
  status: 200,
  bytes: BYTES,
  whole: true,
  ...change,
});
const heardOf = (change: Parameters<typeof tryOf>[0] = {}, life = 1): Heard => ({
  rollout_id: ID,
  life,
  pid: 1,
  tries: [tryOf(change)],
});

const EVIDENCE: Evidence = {
  requested: 1,
  rows: [{ rollout_id: ID, row: 0, repeat: 0, total_reward: 0.5 }],
  failures: [],
  journals: new Map([[ID, JOURNAL]]),
  heard: [heardOf()],
  streams: [stream({ tokens_sent: 3 })],
  struck: [],
  rewards: new Map([[0, 0.5]]),
  answers: 1,
  pace: { tokens_per_second: 100, heartbeat_timeout_s: 5, commit_s: 0 },
};

const judgedOf = (change: Partial<Evidence> = {}) =>
  judgedRun(
    {
      name: 'undisturbed',
      kills: {},
      left: [],
      duration_s: 1,
      ...judge({ ...EVIDENCE, ...change }),
    },
    VICTIMS,
  );

describe('what came of agents', () => {
  test('is not broken where all is as it was', () => {
    assert.deepEqual(judgedOf().broken, []);
  });

  const other = BYTES.replace('two', 'six');
  const secondLife = [...JOURNAL, by.life({ life: 2 })];
  const cases: [what: string, change: Partial<Evidence>, broken: RegExp][] = [
    ['a rollout that is lost', { rows: [] }, /^lost: expected 0, got 1/],
    [
      'one that is there twice',
      { failures: [{ rollout_id: ID }] },
      /^duplicated: expected 0, got 1/,
    ],
    [
      'an answer of the last life that is not the journal’s',
      { heard: [heardOf({ bytes: other })] },
      /^different: .*try 0: call 0: at byte \d+ of \d+ expected "two/,
    ],
    [
      'one that an earlier life was given',
      {
        journals: new Map([[ID, [...secondLife, by.served({ life: 2 })]]]),
        heard: [heardOf({ bytes: other })],
        answers: 2,
      },
      /^taken_back: .*call 0/,
    ],
    [
      'a beginning that the answer does not have',
      { heard: [heardOf({ bytes: other.slice(0, -30), whole: false })] },
      /^taken_back: /,
    ],
    [
      'a beginning of a call without an answer',
      {
        journals: new Map([[ID, JOURNAL.slice(0, -1)]]),
        heard: [heardOf({ bytes: BYTES.slice(0, -30), whole: false })],
      },
      /^taken_back: .*call 0 has no answer/,
    ],
    [
      'tokens that the engine sampled once more',
      { streams: [stream({ tokens_sent: 3 }), stream({ tokens_sent: 1, arrived_at: 500 })] },
      /^over: expected none, got 1 b\/0-0 call 0: expected at most 0 tokens beyond its journal \(0 kills\), got 1 of 2 requests/,
    ],
    [
      'an answer that is asked for though it was whole',
      {
        journals: new Map([[ID, [...JOURNAL, author('b').claim()]]]),
        streams: [stream({ tokens_sent: 3 }), stream({ tokens_sent: 0, writer: 'b-1' })],
      },
      /^sampled_again: expected 0, got 1/,
    ],
    ['a sample too many', { answers: 0 }, /^miscounted: .*expected 0 samples/],
    [
      'a reward that kills have changed',
      { rewards: new Map([[0, 1]]) },
      /^rewards_wrong: .*expected reward 1, got 0.5/,
    ],
    [
      'a call that the last life did not ask for again',
      { journals: new Map([[ID, secondLife]]) },
      /^abandoned: expected 0, got 1/,
    ],
  ];
  for (const [what, change, broken] of cases)
    test(`shows ${what}`, () => {
      assert.match(judgedOf(change).broken.join(' '), broken);
    });

  test('may have cost what came in 250 ms for each kill and call that it hit, and what the engine sent until it saw it', () => {
    const streams = [stream({ tokens_sent: 30 })];
    const judgedBy = (struck: Evidence['struck'], more: Partial<Evidence> = {}) =>
      judgedOf({ streams, struck, ...more });
    const engine = { victim: 'engine', at: 200, back_at: 900 } as const;
    const one = judgedBy([engine]);
    assert.deepEqual(one.over, [
      'b/0-0 call 0: expected at most 21 tokens beyond its journal (1 kills), got 27 of 1 requests',
    ]);
    assert.deepEqual([one.beyond, one.beyond_most, one.beyond_limit, one.hit], [27, 27, 21, 1]);
    const two = judgedBy([engine, { ...engine, at: 250 }]);
    assert.deepEqual([two.over, two.beyond_limit, two.hit], [[], 46, 2]);
    // Nine of its thirty tokens came behind the kill.
    assert.deepEqual(
      [
        judgedBy([{ ...engine, victim: 'gateway' }]).beyond_limit,
        judgedBy([{ ...engine, at: 900 }]).beyond_limit,
      ],
      [21 + 9, 0],
    );
    // An engine that sends eight at once may have sent more in that time than its pace says, but no more than wait.
    const eights = [
      {
        ...stream({ tokens_sent: 80 }),
        sent: [0, 8, 16, 24, 32].map((n) => ({ at: 10 * n, tokens_sent: n + 8 })),
      },
    ];
    assert.equal(judgedBy([{ ...engine, at: 325 }], { streams: eights }).beyond_limit, 32);
    const many = [{ ...stream({ tokens_sent: 90 }), sent: [{ at: 150, tokens_sent: 90 }] }];
    assert.equal(judgedBy([engine], { streams: many }).beyond_limit, 64);
    // Without the server, a worker loses what it plays somewhat later.
    const late = [stream({ arrived_at: 8000, tokens_sent: 30 })];
    assert.equal(
      judgedBy([{ victim: 'server', at: 0, back_at: 1000 }], { streams: late }).beyond_limit,
      25,
    );
  });

  test('is judged for each call: what one may have cost, and what one lacks, pays for no other', () => {
    const kill = { victim: 'engine', at: 100, back_at: 900 } as const;
    const hit = stream({ tokens_sent: 3, turn: 1, arrived_at: 50 });
    const second = [
      by.call({ turn: 1, stream: true, cause: 'separate' }),
      by.chunk({ turn: 1, token_ids: [1, 2, 3, 4] }),
    ];
    const {
      over,
      beyond,
      hit: hits,
    } = judgedOf({
      journals: new Map([[ID, [...JOURNAL, ...second]]]),
      streams: [stream({ tokens_sent: 5, arrived_at: 2000 }), hit],
      struck: [kill],
      answers: 2,
    });
    assert.deepEqual(over, [
      'b/0-0 call 0: expected at most 0 tokens beyond its journal (0 kills), got 2 of 1 requests',
    ]);
    assert.deepEqual([beyond, hits], [2, 1]);
  });

  test('is broken where no kill struck', () => {
    const run = {
      name: 'killed' as const,
      kills: { engine: 2 },
      left: ['folder x'],
      duration_s: 1,
      ...judge(EVIDENCE),
    };
    assert.deepEqual(judgedRun(run, ['engine', 'server']).broken, [
      'left: expected none, got 1',
      'folder x',
      'kills: expected some of server, got 0',
      'hit: expected some streams, got 0',
    ]);
  });
});

describe('what an agent wrote down', () => {
  test('is read by request and try, without signs of life, errors and a torn line', () => {
    const lines = [
      { asks: '0a', number: 0, stream: true },
      { of: '0a', number: 0, status: 200, part: 'data: {"id"' },
      { asks: '1a', number: 0, stream: false },
      { of: '0a', number: 0, status: 200, part: ':1}\n\n: \n' },
      { of: '0a', number: 0, status: 200, part: 'data: {"error":{}}\n\n' },
      { asks: '0a', number: 1, stream: true },
      { of: '0a', number: 1, whole: true },
    ].map((line) => JSON.stringify(line));
    assert.deepEqual(triesIn(`${lines.join('\n')}\n{"of":"0a","num`), [
      {
        name: '0a',
        number: 0,
        stream: true,
        status: 200,
        bytes: 'data: {"id":1}\n\n',
        whole: false,
      },
      { name: '1a', number: 0, stream: false, status: null, bytes: '', whole: false },
      { name: '0a', number: 1, stream: true, status: null, bytes: '', whole: true },
    ]);
  });
});

describe('kills', () => {
  test('end with what they disturb, which settles as it does alone', async () => {
    assert.deepEqual(
      await killUntilEnd({ seed: 1, kills: {}, most: Infinity }, Promise.resolve('played')),
      { result: 'played', struck: [] },
    );
    await assert.rejects(
      killUntilEnd(
        { seed: 1, kills: { engine: () => Promise.resolve() }, most: Infinity },
        Promise.reject(new Error('lost')),
      ),
      /lost/,
    );
  });

  test('wait for something to hit, and do not if it ends before', async () => {
    let looks = 0;
    let over: (what: string) => void = () => assert.fail('it plays');
    const played = new Promise<string>((resolve) => (over = resolve));
    const isBusy = (): Promise<boolean> => {
      looks += 1;
      if (looks === 3) over('played');
      return Promise.resolve(false);
    };
    const killed = await killUntilEnd(
      { seed: 1345, kills: { engine: () => assert.fail('killed') }, most: 1, isBusy },
      played,
    );
    assert.deepEqual([killed, looks], [{ result: 'played', struck: [] }, 3]);
  });
});
