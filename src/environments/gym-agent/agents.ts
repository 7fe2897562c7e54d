import { Fault } from '../../model/faults.js';
import type { Allowance } from '../../platform/waits/allowance.js';
import { createAllowance } from '../../platform/waits/allowance.js';
import { createHttpCall, type HttpCalls, type HttpCallSettings } from '../http/call.js';
import { rejected } from '../rejections.js';
import { type AnswerRules, AS_ANSWERED } from './answer.js';
import { createHeadServer } from './head-server.js';
import { createKeptAnswer } from './kept-answer.js';
import { classed, createRuns, isOfNetwork } from './run.js';

/** For `GET /`: a busy server may take its time. */
const HEALTH_TIMEOUT_MS = 10_000;
/** Rows that start together ask only once whether their agent's server answers. */
const KNOCK_KEPT_MS = 1000;
/** Shorter than servers keep idle connections: uvicorn 5 s, gunicorn 2 s. */
const KEEP_ALIVE_MS = 1000;

/** Answers to `GET /` from a proxy whose agent is unavailable, or from an agent that currently takes no run. */
const AWAY: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export interface AgentsSettings {
  head_server: string | null;
  agents: Record<string, string>;
  /** For a run without its own timeout. */
  timeout_ms: number;
  max_answer_bytes: number;
  /** Shared by all agents of a process; absent: these agents have their own. */
  answers?: Allowance;
  /** How answers are read; absent: as NeMo Gym's collector reads them. */
  rules?: AnswerRules;
  /** Monotonic, in milliseconds; limits how long answers are kept. */
  now?: () => number;
}

export type Agents = ReturnType<typeof createAgents>;

/** Agent servers over HTTP. A fault of a run has NeMo Gym's failure class. */
export function createAgents({
  head_server,
  agents,
  timeout_ms,
  max_answer_bytes,
  answers = createAllowance(0),
  rules = AS_ANSWERED,
  now = () => performance.now(),
}: AgentsSettings) {
  const given = new Map(Object.entries(agents));
  const head = head_server === null ? null : createHeadServer(head_server, now);
  const servers = new Map<string, Server>();

  const serverAt = (url: string): Server => {
    const found =
      servers.get(url) ?? createServer(url, { timeout_ms, max_answer_bytes, answers, now });
    servers.set(url, found);
    return found;
  };
  /** From the settings or the head server; the server itself need not answer. */
  const urlOf = async (agent: string, signal: AbortSignal): Promise<string> => {
    const url = given.get(agent);
    if (url !== undefined) return url;
    if (head !== null) return await head.serverUrl(agent, signal);
    const what = `expected one of ${[...given.keys()].join(', ')}`;
    throw rejected({ subject: 'agents', problems: [{ where: agent, what }] });
  };
  /** The URL of the agent's server, which answers; throws the faults of a step. */
  const serverOf = async (agent: string, signal: AbortSignal): Promise<string> => {
    const url = await urlOf(agent, signal).catch((error: unknown) => {
      const isRejection = error instanceof Fault && error.type === 'EnvironmentRejected';
      throw isRejection ? classed(error) : error;
    });
    try {
      await serverAt(url).checkAgent.latest(signal);
    } catch (error) {
      if (!isOfNetwork(error) || head === null || given.has(agent)) throw error;
      head.forget();
      const silence = head.silence();
      const message = `${error.message}; ${silence ?? ''}`;
      throw silence === null ? error : error.with({ message });
    }
    return url;
  };
  const runs = createRuns({
    serverOf,
    callsTo: serverAt,
    timeout_ms,
    answers,
    rules,
    broken: (url) => {
      serverAt(url).checkAgent.forget();
      head?.forget();
    },
  });
  return {
    ...runs,
    urlOf,
    serverOf,
    close: async (): Promise<void> => {
      await Promise.all([head?.close(), ...[...servers.values()].map(({ close }) => close())]);
    },
  };
}

type Server = ReturnType<typeof createServer>;

/** `checkAgent` resolves if the server answers, which is remembered for `KNOCK_KEPT_MS`. */
function createServer(
  url: string,
  { now, ...settings }: Omit<HttpCallSettings, 'url'> & { now: () => number },
) {
  const calls = createHttpCall({ url, keep_alive_ms: KEEP_ALIVE_MS, ...settings });
  return {
    ...calls,
    checkAgent: createKeptAnswer(() => checkAgent(calls), { kept_ms: KNOCK_KEPT_MS, now }),
  };
}

/** A refusal counts as an answer, unless it says that the agent is away. */
async function checkAgent({ send }: HttpCalls): Promise<void> {
  const timeout_ms = HEALTH_TIMEOUT_MS;
  // The request is shared: no caller's signal ends it.
  const { signal } = new AbortController();
  try {
    await send({ method: 'GET', path: '/', signal, timeout_ms });
  } catch (error) {
    const status = error instanceof Fault ? error.status : null;
    if (status === null || AWAY.has(status)) throw error;
  }
}
