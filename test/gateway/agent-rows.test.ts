/** Rows of agents' journals, cut anywhere: each sampled token once, and what trains is what was sampled. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { glanceOf, isUntrained } from '../../src/model/journal/outcome.js';
import { openAnswers } from '../../src/model/journal/open-answers.js';
import { isProgram, type Trajectory } from '../../src/model/journal/trajectory.js';
import { Row } from '../../src/model/results/row-columns.js';
import { computeMetrics } from '../../src/model/results/metrics.js';
import { inStep } from '../../src/model/stream/step-row.js';
import type { JournalLine } from '../../src/model/journal.js';
import { author, wholeCall } from '../fakes/journal-lines.js';
import type { AgentRollout } from './agent-rows.js';
import { agentJournal, linesOf, rolloutOf } from './agent-rows.js';

const tokensOf = ({ calls }: Trajectory, turn: number): number[] =>
  calls[turn]?.sampled.token_ids ?? [];

interface Part {
  message_log: Row['message_log'];
  train_mask: Row['train_mask'];
  policy_versions: Row['policy_versions'];
  segments: Row['segments'];
  assistant_tokens: number;
  fork: number;
  prompt_tokens: number;
  trains: boolean;
}

/** The row's own log, and its sequences. */
const partsOf = (row: Row): Part[] => [
  { ...row, fork: 0, trains: row.failure === undefined },
  ...(row.sequences ?? []).map((one) => ({
    ...one,
    prompt_tokens: one.fork,
    trains: one.train && row.failure === undefined,
  })),
];

const lengths = (runs: readonly { start: number; end: number }[]): number =>
  runs.reduce((sum, { start, end }) => sum + end - start, 0);

/** By id of the sequence: sampled by the policy. */
function sampledIds({ message_log, fork, prompt_tokens }: Part): boolean[] {
  let end = fork;
  return [
    ...Array.from({ length: fork }, () => false),
    ...message_log.flatMap(({ token_ids, generation_logprobs }) => {
      const start = end;
      end += token_ids.length;
      return token_ids.map(() => start >= prompt_tokens && generation_logprobs !== undefined);
    }),
  ];
}

function check({ row, trajectory, summary }: AgentRollout): void {
  assert.ok(Row.safeParse(row).success);
  const sampled = [...trajectory.calls.keys()].flatMap((turn) => tokensOf(trajectory, turn));
  const parts = partsOf(row);
  const counted: number[] = [];
  for (const part of parts) {
    const isSampled = sampledIds(part);
    for (const { start, end } of part.train_mask) {
      assert.ok(start < end && part.trains);
      assert.ok(isSampled.slice(start, end).every(Boolean) && end <= isSampled.length);
    }
    if (!part.trains) assert.deepEqual(part.train_mask, []);
    const ids = part.message_log.flatMap(({ token_ids, generation_logprobs }) =>
      generation_logprobs === undefined ? [] : token_ids,
    );
    assert.equal(part.assistant_tokens, ids.length);
    for (const runs of [part.policy_versions, part.segments])
      assert.equal(lengths(runs), ids.length);
    counted.push(...ids);
  }
  const sorted = (ids: readonly number[]): number[] => ids.toSorted((a, b) => a - b);
  assert.deepEqual(sorted(counted), sorted(sampled));
  const { all_tokens } = row;
  assert.equal(all_tokens?.sampled, sampled.length);
  assert.equal(
    all_tokens.trained,
    parts.reduce((sum, { train_mask }) => sum + lengths(train_mask), 0),
  );
  if (row.failure === undefined && row.masked === undefined)
    assert.equal(all_tokens.trained === 0, isUntrained(trajectory));
  if (row.failure !== undefined) assert.equal(all_tokens.trained, 0);
  assert.equal(row.calls, trajectory.calls.length);
  assert.equal(glanceOf(trajectory).assistant_tokens, sampled.length);
  assert.equal(summary.gen_tokens, sampled.length);
  assert.equal(row.total_tokens, row.assistant_tokens + row.env_tokens);
}

describe('rows of agents', () => {
  test('have each sampled token once, and train none that was not sampled, wherever a journal ends', async () => {
    const seen = { valid: 0, failed: 0, sequences: 0, untrained: 0, masked: 0, open: 0 };
    await fc.assert(
      fc.asyncProperty(agentJournal, async (given) => {
        const made = rolloutOf(await linesOf(given));
        if (!isProgram(made.trajectory)) return;
        check(made);
        const { row, summary, trajectory } = made;
        seen[row.failure === undefined ? 'valid' : 'failed'] += 1;
        seen.sequences += row.sequences?.length ?? 0;
        seen.untrained += (row.sequences ?? []).filter(({ train }) => !train).length;
        seen.open += openAnswers(trajectory).length;
        const metrics = computeMetrics([summary], 'standard');
        if (row.failure === undefined) assert.equal(metrics['agent/calls'], row.calls);
        const step = { step: 0, version: 7, max_lag: 0, masks: true, born: new Map([[0, 6]]) };
        const late = inStep({ row, summary }, step).row;
        for (const [at, part] of partsOf(late).entries()) {
          const before = partsOf(row)[at]?.train_mask ?? [];
          assert.ok(lengths(part.train_mask) <= lengths(before));
          seen.masked += lengths(before) - lengths(part.train_mask);
        }
        check({ row: late, trajectory, summary });
      }),
      { numRuns: 300 },
    );
    for (const [what, count] of Object.entries(seen)) assert.ok(count > 20, `${what}: ${count}`);
  });

  test('count the calls whose answers follow a structure that the agent asked for', () => {
    const a = author('a');
    const rowOf = (...formats: (string | null)[]) =>
      rolloutOf([
        ...[a.claim(), a.start({ plays: 'agent', prompt: [] }), a.life()],
        ...formats.flatMap((structured, turn) =>
          wholeCall(a, { turn, cause: 'first', asked: structured === null ? {} : { structured } }),
        ),
      ]).row;
    assert.ok(!('structured_calls' in rowOf(null)));
    assert.equal(rowOf('{"type":"json_object"}', null).structured_calls, 1);
  });

  test('have what the program left, and a limit is no end of its own', () => {
    const a = author('a');
    const said = { reward: null, rewards: {}, metadata: { tries: 3 } };
    const rowBehind = (more: JournalLine[]) =>
      rolloutOf([
        ...[a.claim(), a.start({ plays: 'agent', prompt: [] }), a.life()],
        ...wholeCall(a, { turn: 0, cause: 'first', ids: [1] }),
        ...more,
        a.exit({ tail: 'bye', submission: 'diff', said }),
        a.observation({ turn: 0, terminated: true, message: null, token_ids: [] }),
      ]).row;
    const own = rowBehind([]);
    const left = { code: 0, signal: null, tail: 'bye', submission: 'diff', metadata: { tries: 3 } };
    assert.deepEqual(own.program_end, left);
    assert.deepEqual([own.stop_reason, own.terminated], ['terminated', true]);
    const cut = rowBehind([a.refused({ limit: 'calls' })]);
    assert.deepEqual([cut.stop_reason, cut.terminated], ['max_turns', false]);
  });
});
