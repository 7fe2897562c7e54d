import { named, plainLine, quoted } from '../../platform/plain.js';
import { setCurrentDetails, setHandler, upsertSearchAttributes } from '@temporalio/workflow';
import type {
  AgentPlan,
  RolloutPlan,
  RolloutProgress,
  RolloutResult,
  TurnProgress,
} from '../../activities/contract.js';
import { rolloutProgressQuery, waitingSignal } from '../steering/messages.js';
import {
  RolloutAgent,
  RolloutAttempt,
  RolloutKey,
  RolloutOutcome,
  RolloutPolicyVersion,
  RolloutReward,
  RolloutTask,
  RolloutTaskIndex,
  RolloutTurns,
} from '../../model/workflow-safe/search-attributes.js';
import { isWaiting } from '../steering/signal-checks.js';
import { heard, waitingLine } from './waiting.js';

/** What a rollout shows while it runs: query `progress`, current details, search attributes. Costs two events. */
export interface RolloutView {
  planned(plan: RolloutPlan): void;
  progressed(progress: TurnProgress): void;
  finishing(): void;
  finished(result: RolloutResult): void;
}

export function showRollout(): RolloutView {
  let task = '';
  let agent: AgentPlan | null = null;
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
    const name = task === '' ? '' : named(task);
    const what = agent === null ? name : `${name} · ${describeAgent(agent)}`;
    setCurrentDetails(detailsOf(what, shown));
  };
  setHandler(rolloutProgressQuery, () => shown);
  setHandler(waitingSignal, (waiting) => {
    if (isWaiting(waiting)) show({ waiting: heard(waiting) });
  });
  return {
    planned: (plan) => {
      task = plan.task_name;
      agent = plan.agent ?? null;
      upsertSearchAttributes([
        { key: RolloutTask, value: task },
        ...(plan.policy_version === null
          ? []
          : [{ key: RolloutPolicyVersion, value: plainLine(plan.policy_version) }]),
        ...(plan.agent === undefined ? [] : agentAttributes(plan.agent)),
      ]);
      show({ state: 'playing', ...plan.progress });
    },
    progressed: (progress) => {
      show(progress);
    },
    finishing: () => {
      show({ state: 'finishing', waiting: null });
    },
    finished: ({ stop_reason, total_reward, turn_count, total_tokens, attempt }) => {
      if (agent !== null) agent = { ...agent, attempt: attempt ?? agent.attempt };
      upsertSearchAttributes([
        { key: RolloutOutcome, value: stop_reason },
        { key: RolloutReward, value: total_reward },
        { key: RolloutTurns, value: turn_count },
        ...(attempt === undefined ? [] : [{ key: RolloutAttempt, value: attempt }]),
      ]);
      show({ state: 'done', ended: stop_reason, turn: turn_count, total_reward, total_tokens });
    },
  };
}

/** As NeMo Gym names a row: task and rollout. */
const keyOf = ({ task_index, rollout_index }: AgentPlan): string =>
  `${task_index}-${rollout_index}`;

const describeAgent = (plan: AgentPlan): string =>
  `${named(plan.name)} · ${keyOf(plan)}${plan.attempt > 0 ? ` · attempt ${plan.attempt}` : ''}`;

const agentAttributes = (plan: AgentPlan) => [
  { key: RolloutAgent, value: plan.name },
  { key: RolloutTaskIndex, value: plan.task_index },
  { key: RolloutAttempt, value: plan.attempt },
  { key: RolloutKey, value: keyOf(plan) },
];

const PHASES: Record<TurnProgress['phase'], (turn: number) => string> = {
  generate: (turn) => `turn ${turn}, generation`,
  step: (turn) => `turn ${turn}, environment`,
  run: () => 'the agent plays',
};

function detailsOf(what: string, progress: RolloutProgress): string {
  const { state, ended, turn, phase, total_reward, total_tokens, preview, waiting } = progress;
  const now = state === 'playing' ? PHASES[phase](turn) : (ended ?? state);
  const lines = [
    `**${now}**${what === '' ? '' : ` · ${what}`}`,
    '',
    '| turns | reward | tokens |',
    '|---|---|---|',
    `| ${turn} | ${total_reward} | ${total_tokens} |`,
  ];
  if (waiting !== null) lines.push('', waitingLine(waiting));
  if (preview !== '') lines.push('', quoted(preview));
  return lines.join('\n');
}
