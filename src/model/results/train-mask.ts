import { mayTrain } from '../sample.js';
import type { TokenRun } from '../workflow-safe/stream/lag.js';
import type { Row } from './row-columns.js';

/** What decides which tokens of a row train. `masked` counts generated tokens, all else ids. */
type Deciding = Pick<
  Row,
  'message_log' | 'prompt_tokens' | 'loss_multiplier' | 'failure' | 'masked'
> & {
  /** Ids of its sequence before `message_log`. */
  fork?: number;
};

/**
 * Which ids of a row train: those that the policy sampled, but the masked ones; none of a failure, nor with
 * `loss_multiplier` 0. This is decided here alone, from columns that others fill: `loss_multiplier` (`isMasked`,
 * outcome.ts), `masked` (`tooOldRuns`, step-row.ts; `prefixRuns`, runs.ts), an agent's `sequences` (call-paths.ts). Readers copy
 * `train_mask`.
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

type Sampled = Pick<Row, 'policy_versions' | 'segments'>;
type Unmasked = Omit<Deciding, 'fork' | 'masked'> & Sampled & Pick<Row, 'sequences' | 'all_tokens'>;

/**
 * The row with its masks, those of its sequences included. `trains`: whether its own log does. `masks`: runs of generated
 * tokens that do not train, because they are too old or another rollout's; null: none is looked for.
 */
export function withMasks<T extends Unmasked>(
  row: T,
  { trains, masks }: { trains: boolean; masks: ((of: Sampled) => TokenRun[]) | null },
): T & Pick<Row, 'train_mask' | 'masked'> {
  const { loss_multiplier, failure, sequences, all_tokens } = row;
  const maskOf = (one: Omit<Deciding, 'masked'> & Sampled, may: boolean) => {
    const masked = masks?.(one);
    const of = masked === undefined ? one : { ...one, masked };
    return { ...(masked !== undefined && { masked }), train_mask: may ? trainMask(of) : [] };
  };
  const own = { ...row, ...maskOf(row, trains) };
  if (sequences === undefined || all_tokens === undefined) return own;
  const others = sequences.map((one) => {
    const { message_log, policy_versions, segments, fork } = one;
    const given = { message_log, policy_versions, segments, fork, prompt_tokens: fork };
    const why = {
      ...(loss_multiplier !== undefined && { loss_multiplier }),
      ...(failure !== undefined && { failure }),
    };
    return { ...one, ...maskOf({ ...given, ...why }, one.train) };
  });
  const trained = [own, ...others].reduce((sum, { train_mask }) => sum + tokensIn(train_mask), 0);
  return { ...own, sequences: others, all_tokens: { ...all_tokens, trained } };
}

const tokensIn = (runs: readonly TokenRun[]): number =>
  runs.reduce((sum, { start, end }) => sum + end - start, 0);

/** A message of a log that is an answer with its ids, logged with or without logprobs. */
export const isSampled = ({
  generation_logprobs,
  sampled,
}: Partial<Pick<Row['message_log'][number], 'generation_logprobs' | 'sampled'>>): boolean =>
  generation_logprobs !== undefined || sampled === true;

/** What the policy sampled. Messages of a prompt may have logprobs, too: those are no actions of this policy. */
function* sampledRuns({
  message_log,
  prompt_tokens,
  fork = 0,
}: Pick<Deciding, 'message_log' | 'prompt_tokens' | 'fork'>): Generator<TokenRun> {
  let end = fork;
  for (const message of message_log) {
    const start = end;
    end += message.token_ids.length;
    if (start >= prompt_tokens && isSampled(message)) yield { start, end };
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
