import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { PolicyAnswers, PolicyClient, PolicyUpdate } from '../../src/client/policy-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { BeginAnswer } from '../../src/activities/contract/policy.js';
import type { PolicyBed } from './policy-bed.js';
import { TASK_QUEUE } from './policy-bed.js';

/** A trainer that sends its weights to the engines itself, step by step, so that it may die at any of them. */
export interface SendingTrainer {
  begin: (given?: object) => Promise<BeginAnswer>;
  /** `start_weight_update` and parts of the weights of this version; `only`: to engines of these groups. */
  send: (
    held: BeginAnswer,
    part?: { first?: number; last?: number; only?: number[] },
  ) => Promise<void>;
  /** `finish_weight_update`. */
  endSession: (held: BeginAnswer, only?: number[]) => Promise<void>;
  finish: (held: BeginAnswer, sent?: number[]) => Promise<PolicyAnswers['finish']>;
  abandon: (held: BeginAnswer, touched: number[]) => Promise<PolicyAnswers['abandon']>;
  attach: (input: object) => Promise<PolicyAnswers['attach']>;
  sleep: (given?: object) => Promise<PolicyAnswers['sleep']>;
  wake: (given?: object) => Promise<PolicyAnswers['wake']>;
  alive: (held: BeginAnswer, done: number) => Promise<void>;
  /** All of it. */
  transfer: (given?: object) => Promise<PolicyAnswers['finish']>;
}

const PARTS = 2;

export function sendingTrainer(
  bed: PolicyBed,
  { incarnation = 'one', name = 'grpo' }: { incarnation?: string; name?: string } = {},
): SendingTrainer {
  const asking = async <T>(ask: (client: PolicyClient) => Promise<T>): Promise<T> => {
    const client = await connectPolicy(onLoopback(bed.server()), { service: 'default', task_queue: TASK_QUEUE }); // prettier-ignore
    try {
      return await ask(client);
    } finally {
      await client.close();
    }
  };
  const update = <N extends PolicyUpdate>(of: N, input: object): Promise<PolicyAnswers[N]> =>
    asking((client) => client.update(of, input));
  const groupsOf = (held: BeginAnswer): number[] => [...new Set(held.engines.map(({ group }) => group))]; // prettier-ignore
  const begin: SendingTrainer['begin'] = (given = {}) =>
    update('begin', { holder: { name, incarnation }, ...given });
  const send: SendingTrainer['send'] = async (held, { first = 0, last = PARTS - 1, only } = {}) => {
    const meant = held.engines.filter(({ group }) => only?.includes(group) ?? true);
    await Promise.all(
      meant.map(async ({ control_url }) => {
        if (first === 0) await post(`${control_url}/start_weight_update`);
        for (let part = first; part <= last; part++) {
          const update_info = { weights: weightsOf(held.version), part, parts: PARTS };
          await post(`${control_url}/update_weights`, { update_info });
        }
      }),
    );
  };
  const endSession: SendingTrainer['endSession'] = async (held, only) => {
    const meant = held.engines.filter(({ group }) => only?.includes(group) ?? true);
    await Promise.all(meant.map(({ control_url }) => post(`${control_url}/finish_weight_update`)));
  };
  const finish: SendingTrainer['finish'] = (held, sent = groupsOf(held)) =>
    update('finish', { ticket: held.ticket, sent });
  return {
    begin,
    send,
    endSession,
    finish,
    abandon: (held, touched) => update('abandon', { ticket: held.ticket, touched }),
    attach: (input) => update('attach', input),
    sleep: (given) => update('sleep', { holder: { name, incarnation }, ...given }),
    wake: (given = {}) => update('wake', given),
    alive: (held, done) => asking((client) => client.alive({ ticket: held.ticket, done })),
    transfer: async (given) => {
      const held = await begin(given);
      await send(held);
      await endSession(held);
      return await finish(held);
    },
  };
}

/** The weights of a version, as `weights` of the bed has them in files. */
export const weightsOf = (version: number) => ({
  name: String(version),
  skill: 1 + (version % 3),
  seed: version,
});

/** To a control route of an engine. */
export async function post(url: string, body: object = {}): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (response.status !== 200)
    throw new Error(`${url}: ${response.status} ${await response.text()}`);
}

/** Why an update failed. */
export const reasonOf = async (asking: Promise<unknown>): Promise<string> => {
  try {
    await asking;
  } catch (error) {
    if (error instanceof WorkflowUpdateFailedError) return error.cause?.message ?? '';
    throw error;
  }
  throw new Error('expected that the update fails, it succeeded');
};
