import { z } from 'zod';
import type { JournalCall } from '../journal/calls.js';
import { saidIds } from '../journal/calls.js';
import type { Trajectory } from '../journal/trajectory.js';
import type { Row } from './row-columns.js';
import { sum } from './statistics.js';

export const TreeSummary = z.object({
  calls: z.int(),
  sequences: z.int(),
  /** Connections that a life opened to an answer that it had begun to get before. */
  attached: z.int(),
  /** Tokens of answers that a later life was given again. */
  replayed_tokens: z.int(),
  resampled: z.int(),
  /** Lives that asked something else than what they replayed. */
  diverged: z.int(),
  refused: z.int(),
  malformed: z.int(),
  /** Answers with tokens of more versions than the request allows. */
  over_span: z.int(),
});
export type TreeSummary = z.infer<typeof TreeSummary>;

/** The metrics' names, in this order. */
export const treeMetrics = (
  summaries: readonly { tree?: TreeSummary }[],
): Record<string, number> => {
  const trees = summaries.flatMap(({ tree }) => tree ?? []);
  if (trees.length === 0) return {};
  return Object.fromEntries(
    TreeSummary.keyof().options.map((name) => [
      `agent/${name}`,
      sum(trees.map((tree) => tree[name])),
    ]),
  );
};

/** undefined: its agent asked for nothing, or none played it. */
export function treeSummaryOf(
  { calls, refused, settings_in_force: settings }: Trajectory,
  row: Pick<Row, 'calls' | 'all_tokens' | 'malformed_calls' | 'resampled'>,
): TreeSummary | undefined {
  if (row.calls === undefined) return undefined;
  const span = settings?.max_version_span ?? Infinity;
  return {
    calls: row.calls,
    sequences: row.all_tokens?.sequences ?? 0,
    attached: sum(calls.map(({ served, given }) => served - given.size)),
    replayed_tokens: sum(calls.map(replayedTokens)),
    resampled: row.resampled ?? 0,
    diverged: calls.filter(({ line }) => line.cause === 'diverged').length,
    refused: refused.length,
    malformed: row.malformed_calls ?? 0,
    over_span: calls.filter(({ sampled }) => versionsIn(sampled) > span).length,
  };
}

/** A life that began a call was not given it again. */
const replayedTokens = (call: JournalCall): number =>
  saidIds(call).length * [...call.given.keys()].filter((life) => life !== call.line.life).length;

const versionsIn = ({ segments }: JournalCall['sampled']): number =>
  new Set(segments.map(({ policy_version }) => policy_version)).size;
