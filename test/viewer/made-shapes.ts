import type { CallPart, RolloutDocument } from '../../viewer/documents.js';
import type { Made } from './made-documents.js';
import { madeCall, madeRollout, text } from './made-documents.js';

/** Rollouts of shapes that a page finds hard, in place of rollouts of a run. */
export function madeShapes(made: Made): Record<string, RolloutDocument> {
  const { id } = made.run;
  const at = (row: number, repeat: number): RolloutDocument => madeRollout(made, { row, repeat });
  return {
    [`${id}/0-0`]: hostile(at(0, 0)),
    [`${id}/0-1`]: tree(at(0, 1)),
    [`${id}/0-2`]: ofLength(at(0, 2), 32_000),
    [`${id}/0-3`]: ofLength(at(0, 3), 100_000),
    [`${id}/1-0`]: withLine(at(1, 0)),
    [`${id}/1-1`]: running(at(1, 1)),
  };
}

/** What would run a script, load a picture or turn letters round, if a page let it. */
export const HOSTILE = [
  '<script>globalThis.attacked = 1</script>',
  '<img src="https://example.com/a.png" onerror="globalThis.attacked = 1">',
  '![seen](https://example.com/b.png)',
  '[click](javascript:globalThis.attacked=1) [site](https://example.com/c)',
  'user\u202enimda\u202c and a lone \ud800 and a bell \u0007 and zero\u200bwidth',
  '</script><svg onload="globalThis.attacked = 1">',
].join('\n\n');

function hostile(rollout: RolloutDocument): RolloutDocument {
  const first = changed(rollout.calls[0] ?? madeCall(0, { count: 10, at: 0 }), { text: HOSTILE });
  first.answer.tool_calls = [{ id: '</x>', name: HOSTILE, arguments: '{"a": "</script>"}' }];
  return {
    ...rollout,
    prompt: [
      text('system', HOSTILE),
      text('system', `${'> '.repeat(4_000)}deep`),
      {
        role: 'user',
        token_count: 3,
        parts: [
          { kind: 'picture', url: PICTURE, name: 'a dot' },
          { kind: 'picture', url: 'https://example.com/d.png', name: 'elsewhere' },
          { kind: 'picture', url: null, name: HOSTILE },
        ],
      },
    ],
    calls: [first],
    scores: { [HOSTILE]: { reward: 1, note: HOSTILE } },
    agent_result: HOSTILE,
  };
}

const PICTURE =
  'data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';

const changed = (call: CallPart, answer: Partial<CallPart['answer']>): CallPart => ({
  ...call,
  answer: { ...call.answer, ...answer },
});

/** A program of two lives, whose second one forks a conversation and compacts another. */
function tree(rollout: RolloutDocument): RolloutDocument {
  const call = (number: number, of: Partial<CallPart> & { parent: number | null }): CallPart => ({
    ...madeCall(number, { count: 40, at: (rollout.entry.started_at ?? 0) + number * 2 }),
    life: number < 3 ? 1 : 2,
    observation: null,
    news: [text('user', `request ${number}`)],
    ...of,
  });
  const withTool = call(1, {
    parent: 0,
    news: [{ ...text('tool', '42'), tool_call_id: 'call-1' }],
  });
  withTool.answer.tool_calls = [{ id: 'call-2', name: 'search', arguments: '{"query": "tiles"}' }];
  return {
    ...rollout,
    calls: [
      call(0, { parent: null }),
      withTool,
      call(2, { parent: 1 }),
      call(3, { parent: 0, cause: 'another way', fork: { call: 0, ids: 120 } }),
      call(4, { parent: 3 }),
      call(5, { parent: null, cause: 'compacted' }),
    ],
    lives: [
      {
        life: 1,
        started_at: rollout.entry.started_at ?? 0,
        exit: { at: 0, code: null, signal: 'SIGKILL', tail: 'Traceback: killed' },
      },
      { life: 2, started_at: (rollout.entry.started_at ?? 0) + 6, exit: null },
    ],
    refused: [{ life: 2, code: 'too_large', message: 'the request has 4 MB' }],
    verdict: rollout.calls[0]?.observation ?? null,
    agent_result: '{"answer": 42}',
    forked_from: { rollout_id: 'puzzle-0/0-1', at: 'turn:3' },
  };
}

const ofLength = (rollout: RolloutDocument, count: number): RolloutDocument => ({
  ...rollout,
  calls: [madeCall(0, { count, at: rollout.entry.started_at ?? 0 })],
});

/** A line of a megabyte in an answer and in an observation. */
function withLine(rollout: RolloutDocument): RolloutDocument {
  const line = 'x1'.repeat(500_000);
  const call = changed(madeCall(0, { count: 100, at: rollout.entry.started_at ?? 0 }), {
    text: line,
  });
  const { observation } = call;
  return {
    ...rollout,
    calls: [
      { ...call, observation: observation && { ...observation, message: text('user', line) } },
    ],
  };
}

/** What is told of rollouts that run, one after the other. */
export function madeNews(made: Made): Record<string, RolloutDocument[]> {
  const rollout = madeRollout(made, { row: 1, repeat: 1 });
  const call = madeCall(0, { count: 60, at: rollout.entry.started_at ?? 0 });
  const longer = { ...running(rollout), calls: [{ ...call, observation: null }] };
  return { [rollout.id]: [longer, { ...rollout, calls: [call] }] };
}

function running(rollout: RolloutDocument): RolloutDocument {
  const call = madeCall(0, { count: 20, at: rollout.entry.started_at ?? 0 });
  return {
    ...rollout,
    entry: { ...rollout.entry, ended: null, is_valid: false, reward: null },
    calls: [
      changed(
        { ...call, observation: null, generate_s: null },
        { is_whole: false, finish_reason: null },
      ),
    ],
  };
}
