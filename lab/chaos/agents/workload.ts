import { fileURLToPath } from 'node:url';
import type { z } from 'zod';
import type { BatchRequest } from '../../../src/model/batch-request.js';
import type { SimulatorProcessOptions } from '../../bed/simulator.js';
import type { WorkerConfig } from '../../bed/worker.js';

/** Rollouts of the deterministic agent. The policy thinks in words of its own, then does what the prompt prescribes. */

export interface Workload {
  /** Of each task. */
  repeats: number;
  /** Programs that the worker starts. */
  programs: number;
  /** Programs of a service. */
  served: number;
}

/** Each task has as many rollouts. */
export const REPEATS = 4;
const CALLS = 4;
/** Of one rollout without kills: an answer behind the calls, and a second candidate. */
export const ANSWERS = CALLS + 2;

export const TOKENS_PER_SECOND = 100;
export const HEARTBEAT_TIMEOUT_S = 5;

/** With this skill it never slips. A call takes one to four seconds. */
export const SIMULATOR: SimulatorProcessOptions['settings'] = {
  tokens_per_second: TOKENS_PER_SECOND,
  ms_to_first_token: 20,
  thinking_tokens: [40, 360],
  skill: 40,
  max_model_len: 65_536,
  log_tokens: true,
};

const AGENT = fileURLToPath(new URL('./agent.js', import.meta.url));
const VERIFIER = fileURLToPath(new URL('./verifier.js', import.meta.url));

export const environmentsOf = ({
  logs,
  service,
}: {
  logs: string;
  service: string;
}): NonNullable<WorkerConfig['environments']> => ({
  program: {
    kind: 'agent',
    run: {
      command: [process.execPath, AGENT, '{prompt}'],
      submit: ['cat', '{folder}/said.txt'],
      env: { LOGS: logs },
      sandbox: 'none',
    },
    verify: 'sum',
    max_concurrent: 12,
  },
  // The slots of a queue are one number.
  served: { kind: 'agent', run: { url: service }, task_queue: 'served', max_concurrent: 6 },
  sum: { kind: 'module', path: VERIFIER },
});

export type AgentsRequest = z.input<typeof BatchRequest> & {
  num_repeats: number;
  samples: object[];
};

export function requestOf({ programs, served, repeats }: Workload): AgentsRequest {
  const tasks = (task_name: string, rollouts: number) =>
    Array.from({ length: Math.ceil(rollouts / REPEATS) }, (_, k) => sampleOf(task_name, k));
  return {
    samples: [...tasks('program', programs), ...tasks('served', served)],
    num_repeats: repeats,
    generation: { max_new_tokens: 1024, seed: 11 },
    max_seq_len: 16_384,
    max_rollout_turns: 100,
    rollout_timeout: '1h',
    attempts: { agent: 1 },
  };
}

const sampleOf = (task_name: string, task: number) => {
  const numbers = Array.from({ length: CALLS }, (_, k) => 1 + ((task + 3 * k) % 7));
  const lines = numbers.map((n) => `Call: ${JSON.stringify({ name: 'add', arguments: { n } })}`);
  const content = [`Task ${task}: add, then say that it is done.`, ...lines, 'Answer: done'].join(
    '\n',
  );
  return { message_log: [{ role: 'user', content }], task_name, extra_env_info: {} };
};

/** Both ask the same of what they have done. */
export const worthOf = (sum: number): number => sum / 100;
