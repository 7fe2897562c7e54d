import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import { parseJson, isObject, numberOf } from '../../json/exact.js';
import { SETTINGS } from '../../../test/fakes/journal-lines.js';

/** How a row that an agent plays ends, as its journal says it. */
export type Ending =
  | { text: string; /** Where the text is not to be read for it. */ reward?: number }
  | { status: number }
  /** An answer that lacks only a usable reward. */
  | { unscored: string }
  /** Stopped or cancelled before it was done. */
  | { reason: 'cancelled' | 'stopped' | 'timeout' }
  /** It waits for its agent's server. */
  | { absent: string }
  /** It still plays. */
  | null;

/** Plays rows into journals as a worker does, one line after the other. */
export function agentJournals(
  store: TrajectoryStore,
  {
    batch_id,
    before = () => 0,
  }: {
    batch_id: string;
    /** How often a row had failed before the batch. */
    before?: (row: number) => number;
  },
) {
  const attempts = new Map<number, number>();
  return async (row: number, ending: Ending): Promise<void> => {
    const runs = attempts.get(row) ?? 0;
    const attempt = before(row) + runs;
    attempts.set(row, runs + 1);
    const reopen = runs > 0;
    const journal = await store.claim({ batch_id, row, repeat: 0 }, { activity: 'test', reopen });
    await journal.append({
      kind: 'start',
      schema_version: 1,
      task_name: 'nemo_gym',
      plays: 'agent',
      settings: SETTINGS,
      prompt: [],
      extra_env_info: { agent: 'ag', task_index: 0, rollout_index: 0, row: '{}' },
    });
    if (ending !== null && 'absent' in ending) {
      const fault = {
        kind: 'fault',
        turn: 0,
        type: 'EnvironmentUnavailable',
        replica: null,
      } as const;
      await journal.append({ ...fault, message: ending.absent });
      await journal.commit();
      await journal.release();
      return;
    }
    await journal.append({ kind: 'run', attempt, agent: 'ag', url: 'http://127.0.0.1:1' });
    if (ending !== null) {
      const end = 'text' in ending ? await answered(ending) : ended(ending);
      if ('unscored' in ending) {
        const none = {
          reward: null,
          failure_class: null,
          terminal: false,
          persist: true,
          usage: null,
        };
        await journal.append({ kind: 'result', attempt, text: ending.unscored, ...none, run_s: 0 });
        await journal.append({
          kind: 'fault',
          turn: 0,
          type: 'EnvironmentRejected',
          message: 'reward: expected a finite number',
          replica: null,
          failure_class: 'agent_run_error',
        });
      }
      if ('status' in ending) {
        await journal.append({
          kind: 'fault',
          turn: 0,
          type: 'EnvironmentRejected',
          message: `POST /run answered ${ending.status}`,
          replica: null,
          failure_class: 'agent_run_error',
          status: ending.status,
        });
      }
      await journal.append({
        kind: 'end',
        stop_reason: end,
        totals: { turn_count: 0, total_reward: 0, total_tokens: 0 },
        failure:
          end === 'terminated' || end === 'cancelled' || end === 'stopped'
            ? null
            : { type: 'EnvironmentRejected', message: 'POST /run failed', turn: 0 },
      });
    }
    await journal.commit();
    await journal.release();

    async function answered({
      text,
      reward,
    }: {
      text: string;
      reward?: number;
    }): Promise<'terminated' | 'failed'> {
      const value = reward === undefined ? parseJson(text) : null;
      const answer = isObject(value) ? value : {};
      const failure_class = answer['_ng_failure_class'] ?? null;
      const persist = answer['_ng_no_persist'] !== true;
      await journal.append({
        kind: 'result',
        attempt,
        text,
        reward: reward ?? numberOf(answer['reward']),
        failure_class: typeof failure_class === 'string' ? failure_class : null,
        terminal: answer['_ng_failure_terminal'] === true,
        persist,
        usage: null,
        run_s: 0,
      });
      return failure_class === null && persist ? 'terminated' : 'failed';
    }
  };
}

const ended = (
  ending: Exclude<Ending, null | { text: string; reward?: number } | { absent: string }>,
) => ('reason' in ending ? ending.reason : 'failed');
