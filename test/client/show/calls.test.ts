/** The page of a rollout whose agent asks for answers. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { groupPage } from '../../../src/client/show/group-page.js';
import { entryOf } from '../../../src/client/show/entry.js';
import { createHistory } from '../../../src/client/show/history.js';
import type { Rollout } from '../../../src/client/show/read-batch.js';
import { rolloutJson } from '../../../src/client/show/rollout-json.js';
import { blocksOf, headingOf } from '../../../src/client/show/rollout-page.js';
import { widthOf } from '../../../src/client/text-width.js';
import type { JournalLine } from '../../../src/model/journal.js';
import { lastWordsOf } from '../../../src/model/journal/last-words.js';
import { glanceOf } from '../../../src/model/journal/outcome.js';
import { applyLine, emptyTrajectory } from '../../../src/model/journal/trajectory.js';
import { author, wholeCall } from '../../fakes/journal-lines.js';
import { agentJournal, linesOf } from '../../gateway/agent-rows.js';

const a = author('a');
const PAGE = { style: { columns: 79, colour: false }, tokens: false, turns: null };

function rolloutOf(lines: readonly JournalLine[]): Rollout {
  const trajectory = emptyTrajectory();
  const history = createHistory();
  for (const line of lines) {
    applyLine(trajectory, line);
    if (line.writer === trajectory.writer) history.take(line, trajectory);
  }
  const { end, standing } = trajectory;
  const glance = { ...glanceOf(trajectory), last_words: lastWordsOf(trajectory) };
  const place = { row: 0, repeat: 0 };
  const entry = entryOf(place, { glance, end, last_at: history.last_at, standing, now_s: 0 });
  return { batch_id: 'b', ...place, entry, trajectory, happenings: history.happenings };
}

const pageOf = (rollout: Rollout, options: object = {}): string[] =>
  blocksOf(rollout, { ...PAGE, ...options }).flatMap(({ lines }) => lines);

const BEGUN = [a.claim(), a.start({ plays: 'agent', prompt: [] }), a.life()];
const tool = { id: 'call_0_0', name: 'bash', arguments: '{"command":"ls"}' };
const PLAYED = [
  ...BEGUN,
  ...wholeCall(a, { turn: 0, cause: 'first', ids: [1, 2] }).slice(0, -1),
  a.answer({ turn: 0, content: 'I look \u001b[2J', tool_calls: [tool] }),
  a.served({ turn: 0 }),
  ...wholeCall(a, {
    turn: 1,
    parent: 0,
    news: [{ role: 'tool', content: '長い'.repeat(90), tool_call_id: 'call_0_0' }],
  }),
  a.served({ turn: 1 }),
  ...wholeCall(a, {
    turn: 2,
    parent: 0,
    message: 1,
    cause: 'resampled',
    fork: { call: 0, ids: 1 },
    prompt_ids: [],
  }),
  a.exit({
    tail: 'Solved \u001b[2J it\n',
    submission: 'diff',
    said: { reward: null, rewards: {}, metadata: { tries: 3 } },
  }),
  a.observation({ turn: 2, reward: 0.5, terminated: true, message: null, token_ids: [] }),
  a.end(),
];

describe('the page of an agent', () => {
  test('has each call with its cause, its tools, and whether it trains', () => {
    const rollout = rolloutOf(PLAYED);
    const page = pageOf(rollout).join('\n');
    assert.match(page, /^-- call 0: first, 2 tokens, logprob -\S+, stop, trains$/m);
    assert.match(page, /assistant: I look {1,2}bash\(\{"command":"ls"\}\)/);
    assert.match(page, /^-- call 1: continues 0, 1 token.*end of the main\s+sequence, trains$/ms);
    assert.match(
      page,
      /^-- {3}call 2: resampled at token 1 of call 0.*does not\s+train: unread$/ms,
    );
    assert.match(
      page,
      /^-- life 1 ended: code 0\nSolved .*it\nsubmission: diff\nmetadata: \{"tries":3\}$/m,
    );
    assert.match(page, /^-- verdict: reward 0\.5$/m);
    assert.match(
      headingOf(rollout, { siblings: [], style: PAGE.style })[1] ?? '',
      /3 calls, 4 tokens, /,
    );
    assert.doesNotMatch(page, /\u001b/);
  });

  test('says what an agent changed in a conversation: ids of its own, or blanks of an answer', () => {
    const question = { role: 'user', content: 'go' };
    const edited = (answer: { content: string; tool_calls?: (typeof tool)[] }) =>
      pageOf(
        rolloutOf([
          ...BEGUN,
          ...wholeCall(a, { turn: 0, cause: 'first', ids: [1, 2], news: [question] }).slice(0, -1),
          a.answer({ turn: 0, content: '\n\nI look', tool_calls: [tool] }),
          a.served({ turn: 0 }),
          ...wholeCall(a, {
            ...{ turn: 1, parent: 0, message: 1, cause: 'edited', fork: { call: 0, ids: 1 } },
            news: [
              { role: 'assistant', ...answer },
              { role: 'user', content: 'on' },
            ],
          }),
        ]),
        { style: { columns: 200, colour: false } },
      ).join('\n');
    const own = { ...tool, id: 'toolu_7' };
    assert.match(
      edited({ content: '\n\nI look', tool_calls: [own] }),
      /edited from call 0 at message 1: "call_0_0: bash.*" \/ "toolu_7: bash/,
    );
    assert.match(
      edited({ content: 'I look', tool_calls: [tool] }),
      /edited from call 0 at message 1: ".*\\n\\nI look.*" \/ ".*I look/,
    );
    assert.match(
      edited({ content: 'I saw', tool_calls: [tool] }),
      /edited from call 0 at message 1: ".*I look.*" \/ ".*I saw/,
    );
  });

  test('of one that failed says what it printed last, and that nothing trains by its head alone', () => {
    const failure = { turn: 1, type: 'AgentFailed', message: 'its program failed' };
    const rollout = rolloutOf([
      ...PLAYED.slice(0, -3),
      a.exit({ code: 1, tail: 'ValueError: no' }),
      a.end({ stop_reason: 'failed', failure }),
    ]);
    const page = pageOf(rollout).join('\n');
    assert.match(page, /^-- life 1 ended: code 1\nValueError: no$/m);
    assert.doesNotMatch(page, /train/);
    const head = headingOf(rollout, { siblings: [], style: PAGE.style });
    assert.ok(head.includes('AgentFailed: its program failed'), head.join('\n'));
  });

  test('has one call whole: what it was asked with, and its answer', () => {
    const page = pageOf(rolloutOf(PLAYED), { call: 1, tokens: true }).join('\n');
    assert.match(page, /^-- user\ngo$/m);
    assert.match(page, /call_0_0: bash\(/);
    assert.match(page, /^-- tool, of call_0_0$/m);
    assert.match(page, /^-- assistant\nsaid\nprompt \d+ tokens/m);
  });

  test('says nothing of training while it is played, and of a call only once', () => {
    const keys = new Set<string>();
    for (let until = 1; until <= PLAYED.length; until++)
      for (const { key, lines } of blocksOf(rolloutOf(PLAYED.slice(0, until)), PAGE)) {
        if (!key.startsWith('open.')) keys.add(key);
        if (until < PLAYED.length - 1) assert.doesNotMatch(lines.join('\n'), /train/);
      }
    assert.deepEqual([...keys], ['call.0', 'call.1', 'call.2', 'life.1', 'verdict']);
  });

  test('fits the terminal and acts on none, whatever an agent did and wherever its journal ends', async () => {
    await fc.assert(
      fc.asyncProperty(agentJournal, fc.integer({ min: 20, max: 120 }), async (given, columns) => {
        const rollout = rolloutOf(await linesOf(given));
        const style = { columns, colour: false };
        const { calls } = rollout.trajectory;
        for (const call of [null, ...calls.keys()])
          for (const line of pageOf(rollout, { style, call }))
            assert.ok(widthOf(line) <= columns && !line.includes('\u001b'), line);
        headingOf(rollout, { siblings: [], style });
        const json = JSON.parse(JSON.stringify(rolloutJson(rollout, { tokens: true }))) as {
          calls?: object[];
        };
        assert.equal(json.calls?.length ?? 0, calls.length);
      }),
      { numRuns: 60 },
    );
  });
});

describe('what a program was not given', () => {
  const text = 'I call <tool_call>no JSON</tool_call>';
  const REFUSED = [
    ...BEGUN,
    ...wholeCall(a, { turn: 0, cause: 'first', ids: [1, 2] }).slice(0, -1),
    a.answer({ turn: 0, content: text, tool_calls: [], malformed: 1 }),
    a.refused({ life: 1, message: "this rollout's limit of 1 calls is reached: end the program" }),
    a.exit({ code: 3, tail: 'Traceback: no more calls\n' }),
    a.life({ life: 2 }),
  ];

  test('has a line for each refusal, malformed calls are counted, and lives say their last words', () => {
    const page = pageOf(rolloutOf(REFUSED)).join('\n');
    assert.match(page, /^-- call 0: first, .*1 malformed tool call/m);
    assert.match(
      page,
      /^-- a call was refused, life 1\nthis rollout's limit of 1 calls is reached/m,
    );
    assert.match(page, /^-- life 1 ended: code 3\nTraceback: no more calls$/m);
    const json = rolloutJson(rolloutOf(REFUSED), { tokens: false }) as {
      refused: { limit: string }[];
      calls: { malformed: number }[];
    };
    assert.deepEqual([json.refused[0]?.limit, json.calls[0]?.malformed], ['calls', 1]);
  });

  test('stands beside its siblings’ calls, as many as fit', () => {
    const [one, other] = [rolloutOf(PLAYED), { ...rolloutOf(REFUSED), repeat: 1 }];
    const page = groupPage([one, other], { columns: 100, colour: false });
    for (const line of page) assert.ok(widthOf(line) <= 100, line);
    const text = page.join('\n');
    assert.match(text, /3 calls, 4 tokens, \S+ +\| reward -, 1 call, 2 tokens/);
    assert.match(text, /^-- call 0: first, 2 tokens, .* \| -- call 0: first, 2 tokens, /m);
    assert.match(text, /\| -- a call was refused/);
  });

  test('names calls where a rollout of turns has turns', () => {
    const page = pageOf(rolloutOf([...REFUSED, a.fault({ turn: 1, message: 'away' })])).join('\n');
    assert.match(page, /call 1: GenerationUnavailable: away/);
  });
});
