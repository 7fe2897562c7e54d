import { setCurrentDetails, setHandler, upsertSearchAttributes } from '@temporalio/workflow';
import type {
  RolloutPlan,
  RolloutProgress,
  RolloutResult,
  TurnProgress,
} from '../activities/contract.js';
import { rolloutProgressQuery, waitingSignal } from './messages.js';
import {
  RolloutOutcome,
  RolloutPolicyVersion,
  RolloutReward,
  RolloutTask,
  RolloutTurns,
} from './search-attributes.js';
import { isWaiting } from './signal-checks.js';

/** What a rollout shows while it runs: query `progress`, current details, search attributes. Costs two events. */
export interface RolloutView {
  planned(plan: RolloutPlan): void;
  progressed(progress: TurnProgress): void;
  finishing(): void;
  finished(result: RolloutResult): void;
}

export function showRollout(): RolloutView {
  let task = '';
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
    setCurrentDetails(detailsOf(task, shown));
  };
  setHandler(rolloutProgressQuery, () => shown);
  setHandler(waitingSignal, (waiting) => {
    if (isWaiting(waiting)) show({ waiting });
  });
  return {
    planned: (plan) => {
      task = plan.task_name;
      upsertSearchAttributes([
        { key: RolloutTask, value: task },
        ...(plan.policy_version === null
          ? []
          : [{ key: RolloutPolicyVersion, value: plan.policy_version }]),
      ]);
      show({ state: 'playing', ...plan.progress });
    },
    progressed: (progress) => {
      show(progress);
    },
    finishing: () => {
      show({ state: 'finishing', waiting: null });
    },
    finished: ({ stop_reason, total_reward, turn_count, total_tokens }) => {
      upsertSearchAttributes([
        { key: RolloutOutcome, value: stop_reason },
        { key: RolloutReward, value: total_reward },
        { key: RolloutTurns, value: turn_count },
      ]);
      show({ state: 'done', ended: stop_reason, turn: turn_count, total_reward, total_tokens });
    },
  };
}

function detailsOf(task: string, progress: RolloutProgress): string {
  const { state, ended, turn, phase, total_reward, total_tokens, preview, waiting } = progress;
  const now =
    state === 'playing'
      ? `turn ${turn}, ${phase === 'step' ? 'environment' : 'generation'}`
      : (ended ?? state);
  const lines = [
    `**${now}**${task === '' ? '' : ` · ${task}`}`,
    '',
    '| turns | reward | tokens |',
    '|---|---|---|',
    `| ${turn} | ${total_reward} | ${total_tokens} |`,
  ];
  if (waiting !== null) lines.push('', `Waiting for ${waiting.service}: ${waiting.message}`);
  if (preview !== '') lines.push('', `\`${preview.replaceAll('`', "'")}\``);
  return lines.join('\n');
}
