import { mayTrain } from '../sample.js';
import type { TokenRun } from '../workflow-safe/stream/lag.js';
import type { Row } from './row-columns.js';

/** What decides which tokens of a row train. `masked` counts generated tokens, all else ids. */
type Deciding = Pick<
  Row,
  'message_log' | 'prompt_tokens' | 'loss_multiplier' | 'failure' | 'masked'
>;

/**
 * Which ids of a row train: those that the policy sampled, but the masked ones; none of a failure, nor with
 * `loss_multiplier` 0. This is decided here alone. Readers of rows copy `train_mask`.
 */
export function trainMask({ masked = [], ...row }: Deciding): TokenRun[] {
  if (row.failure !== undefined || !mayTrain(row)) return [];
  const trained: TokenRun[] = [];
  let generated = 0;
  for (const { start, end } of sampledRuns(row)) {
    const ahead = start - generated;
    generated += end - start;
    for (const run of without({ start: start - ahead, end: generated }, masked)) {
      const last = trained.at(-1);
      if (last?.end === run.start + ahead) last.end = run.end + ahead;
      else trained.push({ start: run.start + ahead, end: run.end + ahead });
    }
  }
  return trained;
}

/** What the policy sampled. Messages of a prompt may have logprobs, too: those are no actions of this policy. */
function* sampledRuns({
  message_log,
  prompt_tokens,
}: Pick<Row, 'message_log' | 'prompt_tokens'>): Generator<TokenRun> {
  let end = 0;
  for (const { token_ids, generation_logprobs, sampled } of message_log) {
    const start = end;
    end += token_ids.length;
    if (start >= prompt_tokens && (generation_logprobs !== undefined || sampled === true))
      yield { start, end };
  }
}

/** What is left of a run without the holes, which are in order and not adjacent. */
function* without({ start, end }: TokenRun, holes: readonly TokenRun[]): Generator<TokenRun> {
  let from = start;
  for (const hole of holes) {
    if (hole.end <= from || hole.start >= end) continue;
    if (hole.start > from) yield { start: from, end: hole.start };
    from = hole.end;
  }
  if (from < end) yield { start: from, end };
}
