import type { LogLine, RequestEntry } from '../../simulator/request-log.js';
import type { Trajectory } from '../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../src/model/journal/trajectory.js';
import { askedAgain } from './asked-again.js';
import type { JournalTexts } from './journal-texts.js';
import { linesOf } from './journal-texts.js';
import { readJsonLines } from './json-lines.js';
import { requestLogOf } from './simulator.js';
import type { Sampled } from '../../src/model/journal/open-answers.js';

export interface LabelReport {
  tokens: number;
  /** Tokens whose label belongs to other weights than those that sampled them, or to half-loaded ones. */
  wrong: string[];
  /** Tokens without a label. */
  unlabelled: number;
  labels: Record<string, number>;
  /** Tokens that an engine sent for a position of a turn for which one had been sent before. */
  sampled_twice: number;
  /** Requests for a turn whose generation was in the journal before their claim. */
  turns_generated_twice: number;
  /** Tokens that an engine sampled with a part of some weights, whether they were journalled or not. */
  half_loaded: number;
  rollouts: number;
}

/** Compares every token that counts in the journals with the engines' logs of what sampled it. */
export async function checkLabels({
  journals,
  engines,
}: {
  journals: JournalTexts;
  /** By their directories, because a log outlives its process. */
  engines: readonly { directory: string }[];
}): Promise<LabelReport> {
  const logged = await requestsOf(engines);
  const report: LabelReport = {
    tokens: 0,
    wrong: [],
    unlabelled: 0,
    labels: {},
    sampled_twice: 0,
    turns_generated_twice: 0,
    half_loaded: 0,
    rollouts: 0,
  };
  for (const [id, text] of journals) {
    const lines = linesOf(text);
    const trajectory = emptyTrajectory();
    for (const line of lines) applyLine(trajectory, line);
    report.rollouts += 1;
    const own = logged.filter(({ rollout_id }) => rollout_id === id);
    report.turns_generated_twice += askedAgain(own, new Map([[id, lines]])).length;
    const kept = judge(trajectory, { own, report });
    report.half_loaded += own
      .flatMap(({ weights }) => weights)
      .filter(isHalf)
      .reduce((sum, { start, end }) => sum + end - start, 0);
    const sent = own.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
    report.sampled_twice += Math.max(0, sent - kept);
  }
  return report;
}

/** As the simulator names them. */
const isHalf = ({ weights }: { weights: string }): boolean => weights.startsWith('half');

interface Answer extends Pick<Sampled, 'segments' | 'token_ids'> {
  /** Ids before it. */
  context: number;
}

/** All answers, those in progress, too. */
const answersIn = ({ calls }: Trajectory): Answer[] =>
  calls.map(({ sampled, prompt_length }) => ({ ...sampled, context: prompt_length }));

/** Returns how many of its tokens count. */
function judge(
  trajectory: Trajectory,
  { own, report }: { own: readonly RequestEntry[]; report: LabelReport },
): number {
  let kept = 0;
  for (const { segments, token_ids, context } of answersIn(trajectory)) {
    for (const { start: first, end, request_id, policy_version } of segments) {
      const label = policy_version ?? 'none';
      report.labels[label] = (report.labels[label] ?? 0) + end - first;
      if (policy_version === null) report.unlabelled += end - first;
      for (let place = first; place < end; place++) {
        // One attempt may send several requests with one id: the last one that began before the token's position was
        // written counts.
        const request = own.findLast(
          (one) => one.request_id === request_id && (one.prompt_tokens ?? 0) - context <= place,
        );
        const at = place - ((request?.prompt_tokens ?? 0) - context);
        const weights = request?.weights.find((run) => run.start <= at && at < run.end)?.weights;
        const isRight = weights !== undefined && !isHalf({ weights });
        if (!isRight || (policy_version !== null && weights !== policy_version))
          report.wrong.push(`${request_id} ${place}: ${label}, sampled with ${weights ?? 'none'}`);
      }
    }
    kept += token_ids.length;
  }
  report.tokens += kept;
  return kept;
}

/** The latest log entries of the engines, in order of arrival, from any of their processes. */
async function requestsOf(engines: readonly { directory: string }[]): Promise<RequestEntry[]> {
  const requests = new Map<string, RequestEntry>();
  for (const { directory } of engines) {
    for (const entry of await readJsonLines<LogLine>(requestLogOf(directory))) {
      const id = `${entry.request_id ?? ''} ${entry.at}`;
      const before = requests.get(id);
      if (entry.event !== 'sent') requests.set(id, entry);
      else if (before !== undefined)
        requests.set(id, { ...before, tokens_sent: entry.tokens_sent, weights: entry.weights });
    }
  }
  return [...requests.values()].sort((a, b) => (a.at < b.at ? -1 : 1));
}
