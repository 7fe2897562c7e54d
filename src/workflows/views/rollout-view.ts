import { setCurrentDetails, setHandler, upsertSearchAttributes } from '@temporalio/workflow';
import { named, plainLine, quoted } from '../../platform/plain.js';
import type {
  AgentFacts,
  FinishedRollout,
  RolloutFacts,
  RolloutPlan,
  RolloutProgress,
  RolloutsSeen,
  TurnProgress,
  Waiting,
} from '../../activities/contract.js';
import { rolloutProgressQuery } from '../steering/messages.js';
import {
  RolloutAgent,
  RolloutKey,
  RolloutOutcome,
  RolloutPolicyVersion,
  RolloutReward,
  RolloutTask,
  RolloutTurns,
} from '../../model/workflow-safe/search-attributes.js';
import { forDisplay, onWaiting, pageLine, waitingLine } from './waiting.js';

type Finished = Pick<FinishedRollout, 'result' | 'facts' | 'unlisted'>;

export type RolloutView = ReturnType<typeof showRollout>;

/**
 * What a rollout shows while it runs: query `progress`, current details, search attributes. Search attributes cost an
 * event each time, so they are written when a rollout continues after its first activity, and at its end.
 */
export function showRollout() {
  let facts: RolloutFacts | null = null;
  let shown: RolloutProgress = {
    state: 'starting',
    turn: 0,
    total_reward: 0,
    total_tokens: 0,
    phase: 'generate',
    ended: null,
    preview: '',
    waiting: null,
  };
  const show = (change: Partial<RolloutProgress>): void => {
    shown = { ...shown, ...change };
    setCurrentDetails(detailsOf(facts, shown));
  };
  setHandler(rolloutProgressQuery, () => shown);
  const waits: { said: Waiting | null; seen: Waiting | null } = { said: null, seen: null };
  const waitsFor = (now: Partial<typeof waits>): void => {
    Object.assign(waits, now);
    show({ waiting: waits.said ?? waits.seen });
  };
  let tell: (isUnserved: boolean) => void = () => undefined;
  onWaiting((said, isUnserved) => {
    waitsFor({ said });
    tell(isUnserved);
  });
  return {
    /** Calls back when no replica serves the rollout, and when one serves it again. */
    onUnserved: (callback: typeof tell): void => {
      tell = callback;
    },
    planned: (plan: RolloutPlan): void => {
      facts = plan;
      list(attributesOf(plan), plan.unlisted);
      show({ state: 'playing', ...plan.progress });
    },
    progressed: (progress: TurnProgress): void => {
      // It may come from an activity that nobody has waited for.
      if (shown.state === 'playing') show(progress);
    },
    /** A wait that a look has found, beside those that its own activities say. */
    seen: ({ waiting }: Pick<RolloutsSeen, 'waiting'>): void => {
      waitsFor({ seen: forDisplay(waiting) });
    },
    finishing: (): void => {
      Object.assign(waits, { said: null, seen: null });
      show({ state: 'finishing', waiting: null });
    },
    finished: ({ result, facts: known, unlisted }: Finished): void => {
      facts = known;
      const { stop_reason, total_reward, turn_count, total_tokens } = result;
      const attributes = [
        ...(facts === null ? [] : attributesOf(facts)),
        { key: RolloutOutcome, value: stop_reason },
        { key: RolloutReward, value: total_reward },
        { key: RolloutTurns, value: turn_count },
      ];
      list(attributes, unlisted);
      show({ state: 'done', ended: stop_reason, turn: turn_count, total_reward, total_tokens });
    },
  };
}

type Attributes = Extract<Parameters<typeof upsertSearchAttributes>[0], readonly unknown[]>;

/** The workflow task of an upsert fails for ever if the namespace lacks one of them. */
function list(attributes: Attributes, unlisted: readonly string[] = []): void {
  const listed = attributes.filter(({ key }) => !unlisted.includes(key.name));
  if (listed.length > 0) upsertSearchAttributes(listed);
}

const attributesOf = ({ task_name, policy_version, agent }: RolloutFacts) => [
  { key: RolloutTask, value: task_name },
  ...(policy_version === null
    ? []
    : [{ key: RolloutPolicyVersion, value: plainLine(policy_version) }]),
  ...(agent === undefined
    ? []
    : [
        { key: RolloutAgent, value: agent.name },
        { key: RolloutKey, value: keyOf(agent) },
      ]),
];

/** As NeMo Gym names a row: task and rollout. */
const keyOf = ({ task_index, rollout_index }: AgentFacts): string =>
  `${task_index}-${rollout_index}`;

const PHASES: Record<TurnProgress['phase'], (turn: number) => string> = {
  generate: (turn) => `turn ${turn}, generation`,
  step: (turn) => `turn ${turn}, environment`,
  run: () => 'the agent plays',
};

function describe({ task_name, agent }: RolloutFacts): string {
  const task = ` · ${named(task_name)}`;
  if (agent === undefined) return task;
  const attempt = agent.attempt > 0 ? ` · attempt ${agent.attempt}` : '';
  return `${task} · ${named(agent.name)} · ${keyOf(agent)}${attempt}`;
}

function detailsOf(facts: RolloutFacts | null, progress: RolloutProgress): string {
  const { state, ended, turn, phase, total_reward, total_tokens, preview, waiting } = progress;
  const now = state === 'playing' ? PHASES[phase](turn) : (ended ?? state);
  const lines = [
    `**${now}**${facts === null ? '' : describe(facts)}`,
    '',
    '| turns | reward | tokens |',
    '|---|---|---|',
    `| ${turn} | ${total_reward} | ${total_tokens} |`,
  ];
  if (waiting !== null) lines.push('', waitingLine(waiting));
  if (preview !== '') lines.push('', quoted(preview));
  lines.push(...pageLine(facts?.page));
  return lines.join('\n');
}
