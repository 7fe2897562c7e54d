import fc from 'fast-check';
import type { JournalLine } from '../../src/model/journal.js';
import { Semantics } from '../../src/model/semantics.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import type { Row } from '../../src/model/results/row.js';
import { toRow } from '../../src/model/results/row.js';
import { toSummary } from '../../src/model/results/summary.js';
import { mayTrain, Sample } from '../../src/model/sample.js';
import { inStep } from '../../src/model/stream/step-row.js';
import { arbitraryLines } from './arbitrary-journal.js';
import {
  SETTINGS,
  author,
  foldOf,
  gymLife,
  logprobOf,
  wholeCall,
  wholeTurn,
} from './journal-lines.js';
import { turnsOf } from '../../src/model/journal/calls.js';

/** Rows of arbitrary journals, as a batch or a step of a stream delivers them: whatever decides which tokens train. */

const a = author('a');

/** Settings of a rollout, and what its engine and environment say line by line. */
const varied = fc.record({
  overlong: fc.constantFrom('keep', 'keep', 'mask', 'drop'),
  include_logprobs: fc.boolean(),
  prompt_logprobs: fc.boolean(),
  labels: fc.array(fc.constantFrom('5', '6', '7', null, 'mine'), { minLength: 2, maxLength: 6 }),
  truncated: fc.array(fc.constantFrom(false, false, false, true), { minLength: 1, maxLength: 4 }),
  terminated: fc.array(fc.constantFrom(false, true), { minLength: 1, maxLength: 4 }),
});
type Varied = typeof varied extends fc.Arbitrary<infer T> ? T : never;

const nth = <T>(items: readonly T[], at: number): T => items[at % items.length] as T;

function changed(line: JournalLine, { at, by }: { at: number; by: Varied }): JournalLine {
  switch (line.kind) {
    case 'start': {
      const generation = { ...SETTINGS.generation, include_logprobs: by.include_logprobs };
      const prompt = line.prompt.map((message) => ({
        ...message,
        ...(by.prompt_logprobs && { generation_logprobs: message.token_ids.map(logprobOf) }),
      }));
      const settings = { ...line.settings, generation, overlong: by.overlong };
      return { ...line, prompt, settings: { ...settings, max_rollout_turns: 4 } };
    }
    case 'chunk':
      return { ...line, policy_version: nth(by.labels, at) };
    case 'observation':
      return { ...line, truncated: nth(by.truncated, at), terminated: nth(by.terminated, at) };
    default:
      return line;
  }
}

/** What is still open is dropped, and two more turns end it. */
function ended(lines: JournalLine[]): JournalLine[] {
  const played = foldOf(lines);
  const { writer, end, start } = played;
  const turns = turnsOf(played);
  const by = author(writer ?? 'a');
  const [turn, next] = [turns.length, turns.length + 1];
  return end !== null || start === null
    ? lines
    : [
        ...lines,
        ...wholeTurn(by, { turn, ids: [1, 2], terminated: false }),
        ...wholeTurn(by, { turn: next, ids: [3, 4], terminated: true }),
      ];
}

const played = fc
  .tuple(arbitraryLines, varied, fc.constantFrom(true, true, false))
  .map(([lines, by, ends]) => {
    const whole = ends ? ended(lines) : lines;
    return whole.map((line, at) => changed(line, { at, by }));
  });

const ids = fc.array(fc.nat({ max: 50 }), { maxLength: 4 });

/** A run of an agent: its calls, if it asks this policy, and whether its answer is to be trained on. */
const answered = fc
  .record({
    calls: fc.array(fc.tuple(ids, ids), { maxLength: 4 }),
    /** It has the whole of its last answer. */
    reads: fc.boolean(),
    untrained: fc.boolean(),
    penalised: fc.boolean(),
    overlong: fc.constantFrom('keep' as const, 'mask' as const),
    fills: fc.boolean(),
  })
  .map(({ calls, reads, untrained, penalised, overlong, fills }): JournalLine[] => {
    const extra_env_info = { agent: 'simple_agent', task_index: 0, rollout_index: 0, row: '{}' };
    const settings = { ...SETTINGS, overlong };
    const [life, ...ended] = gymLife(a, {
      ...(untrained && { untrained: 'mask_sample' }),
      ...(penalised && { shaping: { reward: 1, penalties: { unwanted_token: true } } }),
    });
    const last = calls.length - 1;
    return [
      a.claim(),
      a.start({ plays: 'agent', prompt: [], settings, extra_env_info }),
      ...(life === undefined ? [] : [life]),
      ...calls.flatMap(([prompt_ids, sampled], turn) => [
        ...wholeCall(a, { turn, prompt_ids, ids: sampled, ...placeOf(turn) }).map((line) =>
          line.kind === 'generation' && fills && turn === last
            ? { ...line, finish_reason: 'length' as const }
            : line,
        ),
        ...(turn < last || reads ? [a.served({ turn })] : []),
      ]),
      ...ended,
      a.observation({ message: null, token_ids: [], reward: 1, terminated: true }),
      a.end({ stop_reason: 'terminated' }),
    ];
  });

const placeOf = (turn: number) => (turn === 0 ? { cause: 'first' as const } : { parent: turn - 1 });

const sample = fc
  .constantFrom(undefined, undefined, 1, 0.5, 2, 0, 1e-50, 1e-40)
  .map((loss_multiplier) =>
    Sample.parse({
      message_log: [{ role: 'user', content: 'go' }],
      task_name: 'task',
      ...(loss_multiplier !== undefined && { loss_multiplier }),
    }),
  );

const step = fc.record({
  step: fc.constant(0),
  version: fc.constantFrom(6, 7, 7, 8, null),
  max_lag: fc.constantFrom(0, 1, 1),
  masks: fc.constantFrom(true, true, false),
  born: fc.constantFrom(new Map<number, number>(), new Map([[0, 6]])),
});

/** A row, and the trajectory that it was made of. */
export const arbitraryRollout: fc.Arbitrary<{ row: Row; trajectory: Trajectory }> = fc
  .record({
    lines: fc.oneof({ weight: 3, arbitrary: played }, { weight: 1, arbitrary: answered }),
    sample,
    semantics: fc.constantFrom(...Semantics.options),
    delivered: fc.option(step),
  })
  .map(({ lines, delivered, ...given }) => {
    const untrained = !mayTrain(given.sample) && { untrained: true as const };
    const trajectory = foldOf(
      lines.map((line) => (line.kind === 'start' ? { ...line, ...untrained } : line)),
    );
    const outcome = outcomeOf(trajectory, { stop_reason: 'cancelled' });
    const ref = { batch_id: 'batch', row: 0, repeat: 0 };
    const row = toRow({ ...given, ref, trajectory, outcome });
    const summary = toSummary(row, trajectory);
    return { trajectory, row: delivered === null ? row : inStep({ row, summary }, delivered).row };
  });

export const arbitraryRow: fc.Arbitrary<Row> = arbitraryRollout.map(({ row }) => row);
