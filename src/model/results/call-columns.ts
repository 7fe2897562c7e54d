import { keptJson } from '../../platform/json/kept.js';
import { lastResult, type Life } from '../journal/lives.js';
import type { Trajectory } from '../journal/trajectory.js';
import type { Sequences } from './sequences.js';

const UNTOKENIZED =
  'expected calls of the agent that this policy answered, got none: its own model server answered them (model_server: own), or it asked no model';

/** Columns of agents alone (`row-columns.ts` explains them). `made`: null if it has no calls. */
export function callColumns({ calls, lives }: Trajectory, made: Sequences | null) {
  const structured = calls.filter(({ line }) => line.asked.structured !== undefined).length;
  const nothing = { sampled: 0, trained: 0, sequences: 0 };
  return {
    calls: calls.length,
    lives: lives.length,
    malformed_calls: calls.reduce((sum, { answer }) => sum + (answer?.malformed ?? 0), 0),
    ...(structured > 0 && { structured_calls: structured }),
    resampled: calls.filter(({ line }) => line.cause === 'resampled').length,
    ...endOf(lives.at(-1)),
    unanswered: (made?.paths.read ?? []).filter((isRead) => !isRead).length,
    ...(made === null ? { sequences: [], all_tokens: nothing } : sequencesIn(made)),
    ...resultColumns({ calls, lives }),
  };
}

const sequencesIn = ({ all_tokens, sequences: [main, ...others] }: Sequences) => ({
  all_tokens,
  sequences: others.map((one) => ({ ...one, train_mask: [] })),
  ...(main.over_span === true && { over_span: main.over_span }),
});

function endOf(life: Life | undefined) {
  if (!life?.exit) return {};
  const { code, signal, tail, submission, said } = life.exit;
  return { program_end: { code, signal, tail, submission, metadata: said?.metadata ?? null } };
}

function resultColumns({ calls, lives }: Pick<Trajectory, 'calls' | 'lives'>) {
  const result = lastResult({ lives });
  if (result === null) return {};
  return {
    agent_result: keptJson(result.text),
    ...(calls.length === 0 && result.reward !== null && { untokenized: UNTOKENIZED }),
    ...(result.shaping !== undefined && { reward_shaping: result.shaping }),
  };
}
