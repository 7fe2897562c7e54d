import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { PolicyAnswers, PolicyClient, PolicyUpdate } from '../../src/client/policy-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { BeginAnswer } from '../../src/activities/contract/policy.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { TASK_QUEUE } from '../../lab/bed/policy-bed.js';

/** A trainer that sends its weights to the engines itself, step by step, so that it may die at any of them. */
export interface SendingTrainer {
  begin: (given?: object) => Promise<BeginAnswer>;
  /** `start_weight_update`; `only`: of the engines of these groups. */
  start: (held: BeginAnswer, only?: number[]) => Promise<void>;
  /** Parts of the weights of this version; the first one is preceded by `start`, unless that has been called. */
  send: (
    held: BeginAnswer,
    part?: { first?: number; last?: number; only?: number[]; is_started?: boolean },
  ) => Promise<void>;
  /** `finish_weight_update`. */
  endSession: (held: BeginAnswer, only?: number[]) => Promise<void>;
  finish: (held: BeginAnswer, sent?: number[]) => Promise<PolicyAnswers['finish']>;
  abandon: (held: BeginAnswer, touched: number[]) => Promise<PolicyAnswers['abandon']>;
  attach: (input: object) => Promise<PolicyAnswers['attach']>;
  /** Others may bring weights. */
  release: () => Promise<PolicyAnswers['release']>;
  sleep: (given?: object) => Promise<PolicyAnswers['sleep']>;
  wake: (given?: object) => Promise<PolicyAnswers['wake']>;
  alive: (held: BeginAnswer, done: number) => Promise<void>;
  /** All of it. */
  transfer: (given?: object) => Promise<PolicyAnswers['finish']>;
}

const PARTS = 2;

/** What each kind of engine calls the three steps, and how a part is sent. */
const WIRES = {
  vllm: {
    code: 'ours',
    start: 'start_weight_update',
    send: 'update_weights',
    end: 'finish_weight_update',
    bodyOf: (update_info: object): object => ({ update_info }),
  },
  sglang: {
    code: 'trainer',
    start: 'begin_weight_update',
    send: 'update_weights_from_distributed',
    end: 'end_weight_update',
    bodyOf: (part: object): object => ({ ...part, flush_cache: false }),
  },
};

export function sendingTrainer(
  bed: PolicyBed,
  { incarnation = 'one', name = 'grpo' }: { incarnation?: string; name?: string } = {},
): SendingTrainer {
  const wire = WIRES[bed.kind];
  const update = <N extends PolicyUpdate>(of: N, input: object): Promise<PolicyAnswers[N]> =>
    askPolicy(bed, (client) => client.update(of, input));
  const begin: SendingTrainer['begin'] = (given = {}) =>
    update('begin', { holder: { name, incarnation }, code: wire.code, ...given });
  /** By a wire of its own, which the workers' network does not concern. */
  const callsTo = async (
    { engines }: BeginAnswer,
    { only, call }: { only: number[] | undefined; call: (control_url: string) => Promise<void> },
  ): Promise<void> => {
    const meant = engines.filter(({ group }) => only?.includes(group) ?? true);
    const own = (url: string) => bed.engines.find(({ replica }) => replica === url)?.process().url;
    await Promise.all(meant.map(({ url, control_url }) => call(own(url) ?? control_url)));
  };
  const start: SendingTrainer['start'] = (held, only) =>
    callsTo(held, { only, call: (at) => post(`${at}/${wire.start}`) });
  const send: SendingTrainer['send'] = async (
    held,
    { first = 0, last = PARTS - 1, only, is_started = first > 0 } = {},
  ) => {
    if (!is_started) await start(held, only);
    const call = async (at: string): Promise<void> => {
      for (let part = first; part <= last; part++) {
        const sent = { weights: weightsOf(held.version), part, parts: PARTS };
        await post(`${at}/${wire.send}`, wire.bodyOf(sent));
      }
    };
    await callsTo(held, { only, call });
  };
  const endSession: SendingTrainer['endSession'] = (held, only) =>
    callsTo(held, { only, call: (at) => post(`${at}/${wire.end}`) });
  const finish: SendingTrainer['finish'] = (held, sent = groupsOf(held)) =>
    update('finish', { ticket: held.ticket, sent });
  return {
    begin,
    start,
    send,
    endSession,
    finish,
    abandon: (held, touched) => update('abandon', { ticket: held.ticket, touched }),
    attach: (input) => update('attach', input),
    release: () => update('release', { holder: { name } }),
    sleep: (given) => update('sleep', { holder: { name, incarnation }, ...given }),
    wake: (given = {}) => update('wake', given),
    alive: (held, done) => askPolicy(bed, (client) => client.alive({ ticket: held.ticket, done })),
    transfer: async (given) => {
      const held = await begin(given);
      await send(held);
      await endSession(held);
      return await finish(held);
    },
  };
}

/** The policy of the bed, over a connection of its own. */
export async function askPolicy<T>(
  bed: Pick<PolicyBed, 'server'>,
  ask: (client: PolicyClient) => Promise<T>,
): Promise<T> {
  const client = await connectPolicy(onLoopback(bed.server()), {
    service: 'default',
    task_queue: TASK_QUEUE,
  });
  try {
    return await ask(client);
  } finally {
    await client.close();
  }
}

export const groupsOf = ({ engines }: BeginAnswer): number[] => [
  ...new Set(engines.map(({ group }) => group)),
];

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
