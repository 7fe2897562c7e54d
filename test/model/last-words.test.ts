import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { lastWordsOf } from '../../src/model/journal/last-words.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import type { JournalLine } from '../../src/model/journal.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import { author, wholeCall } from '../fakes/journal-lines.js';

const a = author('a');
const PLAYED = [a.claim(), a.start(), a.chunk()];

function foldOf(lines: readonly JournalLine[]) {
  const trajectory = emptyTrajectory();
  for (const line of lines) applyLine(trajectory, line);
  return trajectory;
}

describe('the last words of a rollout', () => {
  test("are the environment's, on one line", () => {
    const content = 'Tool: expected the sum of both lists, 7,\n  got \u001b[31m8';
    const message = { role: 'tool', content };
    const lines = [...PLAYED, a.generation(), a.observation({ message })];
    assert.equal(lastWordsOf(foldOf(lines)), 'tool: expected the sum of both lists, 7, got 8');
  });

  test('of a program are what it submitted, or else what the policy said last, and the verdict', () => {
    const begun = [
      a.claim(),
      a.start({ plays: 'agent' }),
      a.life(),
      ...wholeCall(a, { cause: 'first' }),
    ];
    const calls = a.answer({
      content: 'I look.',
      tool_calls: [{ id: 'call_0_0', name: 'ls', arguments: '{}' }],
    });
    assert.equal(lastWordsOf(foldOf(begun)), 'assistant: said');
    assert.equal(lastWordsOf(foldOf([...begun.slice(0, -1), calls])), 'assistant: I look. ls({})');
    const exited = [...begun, a.exit({ submission: 'a patch' })];
    assert.equal(lastWordsOf(foldOf(exited)), 'assistant: a patch');
    const message = {
      role: 'environment',
      content: 'two of three tests of the patch pass, and one is skipped',
    };
    const verdict = a.observation({ message, terminated: true });
    assert.equal(lastWordsOf(foldOf([...exited, verdict])), `environment: ${message.content}`);
  });

  test('of a verdict without reasons have what was expected and what was said, or the answer taken', () => {
    const message = { role: 'environment', content: 'Environment: incorrect' };
    const content = 'First we count the apples. So the answer is \\boxed{3}';
    const start = a.start({ extra_env_info: { ground_truth: '2' } });
    const answered = (given: Parameters<typeof a.observation>[0]): string | null =>
      lastWordsOf(
        foldOf([a.claim(), start, a.chunk(), a.generation({ content }), a.observation(given)]),
      );
    assert.equal(
      answered({ message }),
      'environment: incorrect; expected "2"; ended with: ... the answer is \\boxed{3}',
    );
    assert.equal(
      answered({ message, answer: '3' }),
      'environment: incorrect; took "3"; expected "2"',
    );
  });

  test('have LaTeX as it is, and no command of a terminal', () => {
    const message = { role: 'environment', content: 'Environment: incorrect' };
    const start = a.start({ extra_env_info: { ground_truth: '\\frac{3}{4}\u001b[2J' } });
    const answered = a.observation({ message, answer: '\\boxed{-1}' });
    assert.equal(
      lastWordsOf(foldOf([a.claim(), start, a.chunk(), a.generation(), answered])),
      String.raw`environment: incorrect; took "\boxed{-1}"; expected "\frac{3}{4}"`,
    );
  });

  test("are the end of the policy's where the environment says nothing, after `length`", () => {
    const content = `${'thinking '.repeat(2000)}so it is 8`;
    const generation = a.generation({ content, finish_reason: 'length' });
    const words = lastWordsOf(foldOf([...PLAYED, generation, a.observation({ message: null })]));
    assert.match(words ?? '', /^length, assistant: \.\.\..*thinking so it is 8$/);
    assert.ok((words ?? '').length < 250);
  });

  test('are none where nobody spoke', () => {
    assert.equal(lastWordsOf(foldOf([a.claim(), a.start()])), null);
  });
});

test('a turn that was sampled and not answered counts in the turns and tokens of lists', () => {
  const failed = glanceOf(foldOf([...PLAYED, a.generation(), a.fault()]));
  assert.deepEqual([failed.turn_count, failed.assistant_tokens], [1, 1]);
});
