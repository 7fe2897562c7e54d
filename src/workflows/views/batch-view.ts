import { setCurrentDetails, setHandler, upsertMemo, workflowInfo } from '@temporalio/workflow';
import type {
  BatchPlan,
  BatchProgress,
  BatchResult,
  Ended,
  RolloutsSeen,
  Tally,
} from '../../activities/contract.js';
import { mostFrequentText } from '../../model/workflow-safe/failures.js';
import { shownPriority } from '../../model/workflow-safe/priority.js';
import { quoted } from '../../platform/plain.js';
import { batchProgressQuery } from '../steering/messages.js';
import { handleStop } from '../steering/stop.js';
import { forDisplay, onWaiting, pageLine, waitingLine } from './waiting.js';

/** What a batch shows while it runs: query `progress` and current details. It also handles `stop`. */
export function showBatch() {
  let progress = NOTHING;
  let members = 0;
  let page: string | undefined;
  let tally: Counts = NOTHING;
  /** The counts of all runs, as journals have them. */
  let ended: Ended = NOTHING;
  const show = (change: Partial<BatchProgress>): void => {
    progress = { ...progress, ...change };
    const elapsed_s = (Date.now() - workflowInfo().runStartTime.getTime()) / 1000;
    const perSecond = (count: number): number => (elapsed_s > 0 ? count / elapsed_s : 0);
    progress = {
      ...progress,
      failed: progress.done - progress.valid,
      elapsed_s,
      turns_per_s: perSecond(progress.turns),
      tokens_per_s: perSecond(progress.tokens),
    };
    setCurrentDetails([detailsOf(progress), ...pageLine(page)].join('\n'));
  };
  setHandler(batchProgressQuery, () => progress);
  onWaiting((waiting) => {
    show({ waiting });
  });
  return {
    planned: ({ samples, num_repeats, continued, priority, memo, ...plan }: BatchPlan): void => {
      if (memo !== undefined) upsertMemo(memo);
      ({ page } = plan);
      members = samples * num_repeats;
      show({
        phase: 'running',
        requested: members,
        waiting: null,
        ...shownPriority(priority),
        ...(continued && { continued }),
      });
    },
    counted: (now: Tally): void => {
      tally = now;
      const requested = members + (now.replacements ?? 0);
      const counts = ofAllRuns(tally, { ended, requested });
      show({ ...now, ...counts, ...furthest(progress, now), requested });
    },
    /** Running rollouts are counted only from time to time, so later results may show more. */
    seen: ({ waiting, ended: now = ended, ...rollouts }: RolloutsSeen): void => {
      ended = now;
      const counts = ofAllRuns(tally, { ended, requested: progress.requested });
      show({ ...counts, ...furthest(progress, rollouts), waiting: forDisplay(waiting) });
    },
    closing: (): void => {
      show({ phase: 'closing', waiting: null });
    },
    closed: ({ counts }: BatchResult): void => {
      const { requested, completed } = counts;
      show({ phase: 'done', running: 0, requested, done: requested, valid: completed });
    },
    failures: () => progress.failures,
    ...handleStop(),
  };
}

type Totals = Pick<Tally, 'turns' | 'tokens'>;

/** The larger of two counts that may both be too low. */
const furthest = (a: Totals, b: Totals): Totals => ({
  turns: Math.max(a.turns, b.turns),
  tokens: Math.max(a.tokens, b.tokens),
});

type Counts = Pick<Tally, 'done' | 'valid' | 'reward_sum'>;

/** Rollouts of an earlier run count at once, although this run comes to them later. */
export function ofAllRuns(
  { done, valid, reward_sum }: Counts,
  { ended, requested }: { ended: Ended; requested: number },
): Counts {
  const more = ended.valid - valid;
  return more > 0
    ? { ...ended, done: Math.min(done + more, requested) }
    : { done, valid, reward_sum };
}

const NOTHING: BatchProgress = {
  phase: 'planning',
  requested: 0,
  done: 0,
  running: 0,
  valid: 0,
  failed: 0,
  turns: 0,
  tokens: 0,
  reward_sum: 0,
  waiting: null,
  elapsed_s: 0,
  turns_per_s: 0,
  tokens_per_s: 0,
};

function detailsOf(progress: BatchProgress): string {
  const { phase, requested, done, running, valid, failed, turns, tokens, reward_sum, waiting } =
    progress;
  const { replacements = 0, failures } = progress;
  const inPlace = replacements > 0 ? `, ${replacements} in place of failed ones` : '';
  const reward = valid > 0 ? (reward_sum / valid).toFixed(3) : '–';
  const lines = [
    `**${phase}** · ${done} of ${requested} rollouts done${inPlace}`,
    '',
    '| valid | failed | running | turns | tokens | mean reward |',
    '|---|---|---|---|---|---|',
    `| ${valid} | ${failed} | ${running} | ${turns} | ${tokens} | ${reward} |`,
  ];
  const cause = mostFrequentText(failures);
  if (cause !== null) lines.push('', quoted(cause));
  if (waiting !== null) lines.push('', waitingLine(waiting));
  return lines.join('\n');
}
