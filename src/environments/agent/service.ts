import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import { foreign, Reward } from '../../model/journal/line-parts.js';
import { bareEnd, type Program, type ProgramState, type ProgramTask } from '../environment.js';
import type { HttpCall, HttpCalls, Reply } from '../http/call.js';
import { readReply } from '../http/call.js';

/** One poll. It waits so long for a program to end. */
export const POLL_S = 30;
/** Beyond that, for the answer to come. */
const SLACK_MS = 15_000;
const CALL_TIMEOUT_MS = 30_000;
const HEALTH_TIMEOUT_MS = 5000;
/** The shortest time between two polls of a service that answers at once although it was asked to wait. */
const LEAST_POLL_MS = 500;
export const MOST_SUBMISSION = 2 ** 20;
export const MOST_TAIL = 4000;

const State = z
  .discriminatedUnion('state', [
    z.object({ state: z.literal('running') }),
    z.object({
      state: z.literal('ended'),
      exit: z.object({
        code: z.int().nullable(),
        signal: z.string().max(64).nullish(),
        tail: z.string().default(''),
      }),
      submission: z.string().max(MOST_SUBMISSION).nullish(),
      reward: Reward.nullish(),
      rewards: z.record(z.string(), Reward).nullish(),
      metadata: foreign.nullish(),
    }),
  ])
  .superRefine((state, context) => {
    if (state.state === 'running' || state.reward == null) return;
    const named = Object.values(state.rewards ?? {});
    const sum = named.reduce((total, one) => total + one, 0);
    if (named.length === 0 || Math.abs(sum - state.reward) <= 1e-6 * Math.max(1, Math.abs(sum)))
      return;
    const message = `expected components that add up to reward ${state.reward}, got ${sum}`;
    context.addIssue({ code: 'custom', path: ['rewards'], message });
  });

/** What a program says of itself, which stays as it came. */
const FOREIGN = { metadata: 'all' } as const;

interface ServiceSettings {
  url: string;
  headers: Record<string, string>;
  send: HttpCalls['send'];
}

/** The protocol: `PUT`, `GET ?wait=` and `DELETE /runs/<rollout>.<life>`. Faults are those of a step. */
export function createService({ url: at, headers, send }: ServiceSettings): Omit<Program, 'rules'> {
  const ask = (call: HttpCall): Promise<Reply> =>
    send({ headers, timeout_ms: CALL_TIMEOUT_MS, ...call });
  const stateIn = (reply: Reply): ProgramState =>
    stateOf(readReply(reply, { schema: State, at, foreign: FOREIGN }));

  const stop = async (run: string, signal: AbortSignal): Promise<void> => {
    await ask({ method: 'DELETE', path: pathOf(run), signal, accept: [404] });
  };
  const put = (run: string, { task, signal }: { task: ProgramTask; signal: AbortSignal }) =>
    ask({ method: 'PUT', path: pathOf(run), body: task, signal, accept: [CONFLICT] });
  return {
    outlives: true,
    stop,
    cut: (run, signal) => stop(run, signal).then(() => bareEnd({ signal: 'SIGKILL' })),
    health: async (signal) => {
      await ask({ method: 'GET', path: '/health', signal, timeout_ms: HEALTH_TIMEOUT_MS });
    },
    recognise: async (signal) => {
      const path = pathOf(`check-${randomUUID()}.0`);
      const { request, status } = await ask({
        method: 'PUT',
        path,
        json: NO_TASK,
        signal,
        timeout_ms: HEALTH_TIMEOUT_MS,
        accept: [...HAS_RUNS, ...HAS_NONE],
      });
      if (HAS_RUNS.includes(status)) return;
      const message = `${at}: expected a service of programs, got another server: to a run without a task (${request}) it answers ${status}`;
      throw new Fault({ type: 'EnvironmentRejected', message, at });
    },
    start: async (run, { task, signal }) => {
      const reply = await put(run, { task, signal });
      if (reply.status !== CONFLICT) return stateIn(reply);
      // The batch was restarted, so that another rollout had this name: nobody waits for its run.
      await stop(run, signal);
      return stateIn(await put(run, { task, signal }));
    },
    wait: async (run, { seconds = POLL_S, signal }) => {
      const began = performance.now();
      const reply = await ask({
        method: 'GET',
        path: `${pathOf(run)}?wait=${seconds}`,
        signal,
        timeout_ms: seconds * 1000 + SLACK_MS,
        accept: [404],
      });
      if (reply.status === 404) return 'gone';
      const state = stateIn(reply);
      const left_ms = Math.min(LEAST_POLL_MS, seconds * 1000) - (performance.now() - began);
      if (state.state === 'running' && left_ms > 0) await sleep(left_ms, undefined, { signal });
      return state;
    },
  };
}

const pathOf = (run: string): string => `/runs/${encodeURIComponent(run)}`;

const CONFLICT = 409;

/** A body with which no service can start a program. Its refusal shows that it has runs; other servers lack the path. */
const NO_TASK = 'null';
const HAS_RUNS = [400, 409, 415, 422, 500];
const HAS_NONE = [404, 405, 410, 501];

function stateOf(said: z.infer<typeof State>): ProgramState {
  if (said.state === 'running') return said;
  const { exit, submission = null, reward = null, rewards, metadata = null } = said;
  const { code, signal = null, tail } = exit;
  return {
    ...bareEnd({ code, signal, tail: tail.slice(-MOST_TAIL) }),
    submission,
    reward,
    rewards: rewards ?? {},
    metadata,
  };
}
