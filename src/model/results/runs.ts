import type { Segment } from '../journal/open-answers.js';
import type { TokenRun } from '../workflow-safe/stream/lag.js';
import type { Row } from './row-columns.js';

/** Which weights and which requests sampled the tokens of answers that follow one another. */

export interface Answered {
  /** Its turn, or the number of its call. */
  turn: number;
  token_ids: readonly number[];
  segments: readonly Segment[];
}

export function policyVersions(answers: readonly Answered[]): Row['policy_versions'] {
  const runs: Row['policy_versions'] = [];
  for (const { start, end, segment } of numbered(answers)) {
    const last = runs.at(-1);
    if (last?.version === segment.policy_version) last.end = end;
    else runs.push({ start, end, version: segment.policy_version });
  }
  return runs;
}

export const requestsOf = (answers: readonly Answered[]): Row['segments'] =>
  [...numbered(answers)].map(({ turn, start, end, segment }) => ({
    turn,
    start,
    end,
    replica: segment.replica,
    request_id: segment.request_id,
    ...(segment.is_prefix && { inherited: segment.is_prefix }),
  }));

/** Of a fork: what the rollout that it continues has sampled. */
export function prefixRuns({ segments }: Pick<Row, 'segments'>): TokenRun[] {
  const runs: TokenRun[] = [];
  for (const { start, end } of segments.filter(({ inherited }) => inherited)) {
    const last = runs.at(-1);
    if (last?.end === start) last.end = end;
    else runs.push({ start, end });
  }
  return runs;
}

function* numbered(
  answers: readonly Answered[],
): Generator<{ turn: number; start: number; end: number; segment: Segment }> {
  let before = 0;
  for (const { turn, token_ids, segments } of answers) {
    for (const segment of segments) {
      yield { turn, start: before + segment.start, end: before + segment.end, segment };
    }
    before += token_ids.length;
  }
}
