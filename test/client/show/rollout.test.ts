import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { entryOf } from '../../../src/client/show/entry.js';
import { groupPage } from '../../../src/client/show/group-page.js';
import { createHistory } from '../../../src/client/show/history.js';
import type { Rollout } from '../../../src/client/show/read-batch.js';
import { rolloutJson } from '../../../src/client/show/rollout-json.js';
import { blocksOf, headingOf } from '../../../src/client/show/rollout-page.js';
import { wrapped } from '../../../src/client/show/wrapping.js';
import { widthOf } from '../../../src/client/text-width.js';
import type { JournalLine } from '../../../src/model/journal.js';
import { lastWordsOf } from '../../../src/model/journal/last-words.js';
import { glanceOf } from '../../../src/model/journal/outcome.js';
import { applyLine, emptyTrajectory } from '../../../src/model/journal/trajectory.js';
import { author } from '../../fakes/journal-lines.js';

const STYLE = { columns: 79, colour: false };
const PAGE = { style: STYLE, tokens: false, turns: null };
const [a, b] = [author('a'), author('b')];

function rolloutOf(lines: readonly JournalLine[], repeat = 0): Rollout {
  const trajectory = emptyTrajectory();
  const history = createHistory();
  for (const line of lines) {
    applyLine(trajectory, line);
    if (line.writer === trajectory.writer) history.take(line, trajectory);
  }
  const place = { row: 7, repeat };
  const { end } = trajectory;
  const glance = { ...glanceOf(trajectory), last_words: lastWordsOf(trajectory) };
  const { standing } = trajectory;
  const now_s = history.last_at ?? 0;
  const entry = entryOf(place, { glance, end, last_at: history.last_at, standing, now_s });
  return { batch_id: 'batch', ...place, entry, trajectory, happenings: history.happenings };
}

const ESCAPES = 'left \u001b[2J\u001b]52;c;b3duZWQ=\u0007right';
/** Cut after its first token, and continued by another attempt at another replica. */
const CUT = [
  a.claim({ at: 100 }),
  a.start({ at: 100 }),
  a.chunk({ at: 101, token_ids: [1], policy_version: '3' }),
  a.fault({ at: 102, message: 'stream cut' }),
  b.claim({ at: 110, attempt: 2 }),
  b.chunk({
    at: 111,
    offset: 1,
    token_ids: [2, 3],
    policy_version: '4',
    replica: 'http://other/v1',
  }),
  b.generation({ at: 112, token_count: 3, content: ESCAPES }),
  b.observation({ at: 113, reward: 0.25, terminated: true }),
  b.end({ at: 113 }),
];
const pageOf = (rollout: Rollout, options = PAGE): string =>
  blocksOf(rollout, options)
    .flatMap(({ lines }) => lines)
    .join('\n');

describe('the page of a rollout', () => {
  const rollout = rolloutOf(CUT);

  test('says how it ended and how its siblings did', () => {
    const siblings = [rollout.entry, { ...rollout.entry, repeat: 1, ended: null, reward: null }];
    const [title = '', facts, more, beside] = headingOf(rollout, { siblings, style: STYLE });
    assert.match(title, /^batch\/7-0 {2}task {2}terminated/);
    assert.equal(facts, 'reward 0.250, 1 turn, 3 tokens after a prompt of 2, 0:13');
    assert.match(more ?? '', /mean logprob -0.003, attempts 2, faults 1/);
    assert.equal(beside, 'row 7:  0: 0.250  1: unfinished');
  });

  test('says what a failed one has so far, as its row: whole turns, and the reward', () => {
    const failed = rolloutOf([
      ...[a.claim({ at: 100 }), a.start({ at: 100 }), a.chunk({ at: 101 })],
      ...[a.generation({ at: 102 }), a.observation({ at: 103, reward: 0.2, terminated: false })],
      ...[a.chunk({ at: 104, turn: 1 }), a.fault({ at: 105, turn: 1 })],
      a.end({ at: 106, stop_reason: 'failed' }),
    ]);
    const [, facts = ''] = headingOf(failed, { siblings: [], style: STYLE });
    assert.match(facts, /^reward - \(0\.200 so far\), 1 whole turn and a part, 2 tokens after/);
  });

  test('on a narrow terminal has all siblings, and titles to their ends, in more lines', () => {
    const style = { columns: 40, colour: false };
    const siblings = Array.from({ length: 16 }, (_, repeat) => ({ ...rollout.entry, repeat }));
    const heading = headingOf(rollout, { siblings, style });
    assert.ok(
      heading.every((line) => widthOf(line) <= 40),
      heading.join('\n'),
    );
    assert.equal(heading.join('').match(/\d+: 0\.250/g)?.length, 16);
    const page = pageOf(rollout, { ...PAGE, style });
    assert.match(page, /^-- turn 0: assistant, 3 tokens, logprob\n-0\.003, stop, 0\.0 s$/m);
  });

  test('has its messages, with reward, mean logprob and end of each turn', () => {
    const page = pageOf(rollout);
    assert.match(page, /-- turn 0: assistant, 3 tokens, logprob -0.003, stop/);
    assert.match(page, /-- turn 0: environment, reward 0.25, terminated\nseen/);
  });

  test('has its attempts, its faults with their times, and the seam', () => {
    const page = pageOf(rollout);
    assert.match(page, /\+0:02 {2}turn 0: GenerationUnavailable: stream cut/);
    assert.match(
      page,
      /\+0:10 {2}attempt 2 \(playTurns\): after\s+GenerationUnavailable in turn 0/,
    );
    assert.match(page, /seam at token 1: continues at http:\/\/other\/v1, version 3 then 4/);
  });

  test('says why an attempt began: silence before it, or a batch that was started again', () => {
    const silent = pageOf(
      rolloutOf([a.claim(), a.start(), a.chunk({ at: 1 }), b.claim({ at: 13, attempt: 2 })]),
    ).replace(/\s+/g, ' ');
    assert.match(silent, /attempt 2 \(playTurns\): the one before it fell silent 12\.0 s earlier/);
    const again = b.claim({ at: 99, reopen: true });
    const started = [a.claim(), a.start(), a.end({ stop_reason: 'timeout' }), again];
    const page = pageOf(rolloutOf(started)).replace(/\s+/g, ' ');
    assert.match(page, /attempt 2 \(playTurns\): the batch was started again, after timeout/);
  });

  test('lets no command through to the terminal', () => {
    const page = pageOf(rollout);
    assert.match(page, /left right/);
    assert.doesNotMatch(page, /[\u001b\u0007]/);
  });

  test('has ids and logprobs where they are asked for', () => {
    assert.doesNotMatch(pageOf(rollout), /1:-0.002/);
    const page = pageOf(rollout, { ...PAGE, tokens: true });
    assert.match(page, /version 3\n +0 {2}1:-0.002 +2:-0.003 +3:-0.004/);
  });

  test('leaves out attempts that succeeded', () => {
    const lines = [
      a.claim(),
      a.start(),
      a.chunk(),
      a.generation(),
      a.observation({ terminated: true }),
      a.end(),
    ];
    assert.doesNotMatch(pageOf(rolloutOf(lines)), /attempt/);
  });

  test('shows the generation in progress of one that has not ended', () => {
    const page = pageOf(rolloutOf([a.claim(), a.start(), a.chunk({ text: 'so far' })]));
    assert.match(page, /-- turn 0: assistant, 1 token, .*not whole yet\nso far/);
  });

  test('as JSON has ids only where they are asked for', () => {
    assert.ok(!JSON.stringify(rolloutJson(rollout, { tokens: false })).includes('token_ids'));
    const { log } = rolloutJson(rollout, { tokens: true }) as { log: { token_ids: number[] }[] };
    assert.deepEqual(log[0]?.token_ids, [1, 2, 3]);
  });
});

describe('siblings', () => {
  test('are side by side, as many as there is room for', () => {
    const group = [0, 1, 2].map((repeat) => rolloutOf(CUT, repeat));
    const narrow = groupPage(group, STYLE);
    assert.match(narrow[0] ?? '', /^batch\/7-0 .* \| batch\/7-1 /);
    assert.match(narrow[1] ?? '', /^reward 0\.250, .* \| reward 0\.250, /);
    assert.ok(narrow.some((line) => line.startsWith('batch/7-2')));
    assert.ok(narrow.every((line) => widthOf(line) <= STYLE.columns));
    const wide = groupPage(group, { columns: 159, colour: false });
    assert.match(wide[0] ?? '', /7-0 .*7-1 .*7-2 /);
    assert.doesNotMatch(wide.join(''), /[\u001b\u0007]/);
  });
});

describe('wrapped text', () => {
  test('is cut at blanks, keeps what begins a line, and counts wide characters twice', () => {
    assert.deepEqual(wrapped('  def f():\n\treturn', 20), ['  def f():', '    return']);
    assert.deepEqual(wrapped('one two three', 8), ['one two', 'three']);
    assert.deepEqual(wrapped('问题一二三', 4), ['问题', '一二', '三']);
    assert.deepEqual(wrapped('abcdefgh', 3), ['abc', 'def', 'gh']);
  });
});
