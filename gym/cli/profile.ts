import { access } from 'node:fs/promises';
import { parseProfile } from '../config/collect-config.js';
import { rewardProfile } from '../metrics/reward-profile.js';
import { plain } from '../../src/platform/plain.js';
import { runInterruptibly } from './interruptible.js';

/** Upstream's `ng_reward_profile`, with its output. */
export const profileCommand = (args: string[]): Promise<number> =>
  runInterruptibly(({ signal }) => profileUntil(signal, args));

async function profileUntil(signal: AbortSignal, args: string[]): Promise<number> {
  const { config, notes } = await parseProfile({ args, cwd: process.cwd(), env: process.env });
  const report = (line: string): void => {
    console.log(plain(line));
  };
  for (const note of notes) report(note);
  await mustExist(config.materialized_inputs_jsonl_fpath, '--inputs');
  await mustExist(config.rollouts_jsonl_fpath, '--rollouts');
  const { summary, files } = await rewardProfile({ ...config, signal, report });
  report(
    'Profiling outputs:\n' +
      `Reward profile completion: ${summary.completed_rollout_rows}/${summary.expected_rollout_rows} rollout rows (${summary.reward_profile_completion_pct.toFixed(2)}%)\n` +
      `Input rows: ${summary.total_input_rows} total; ${summary.complete_input_rows} complete; ${summary.partial_input_rows} partial; ${summary.missing_input_rows} without rollouts dropped from output.\n` +
      `Reward profiling outputs: ${files.reward_profiling}\n` +
      `Agent-level metrics: ${files.agent_metrics}`,
  );
  return 0;
}

async function mustExist(file: string, flag: string): Promise<void> {
  await access(file).catch((cause: unknown) => {
    const message = `Input file not found: '${file}' (${flag}). Check the path is spelled correctly.`;
    throw new Error(message, { cause });
  });
}
