import type { TestContext } from 'node:test';
import { startSimulator } from '../../simulator/server.js';
import type {
  AgentLimits,
  AgentSession,
  CallSettings,
  Gateway,
  PlayedAgent,
} from '../../src/gateway/agent-session.js';
import { engineOf } from '../../src/gateway/play/engine.js';
import type { GatewayOptions } from '../../src/gateway/gateway.js';
import { createGateway } from '../../src/gateway/gateway.js';
import type {
  GenerationRequest,
  GenerationService,
} from '../../src/generation/generation-service.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { Fault } from '../../src/model/faults.js';
import { linesOf } from '../../lab/bed/journal-texts.js';
import type { Entry, JournalLine, RolloutSettings } from '../../src/model/journal.js';
import { waitedFor } from '../../src/model/journal/standing.js';
import type { Pool } from '../../src/sampling/call.js';
import type { Journal, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { rolloutId } from '../../src/model/workflow-safe/rollout-id.js';
import { readFile } from 'node:fs/promises';
import { author, entryOf, GENERATION, SETTINGS } from '../fakes/journal-lines.js';
import { UNWATCHED } from '../fakes/sampled-call.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';

/** A gateway on a socket, rollouts whose journals are files, and a simulated engine, all in one process. */

export const SECRET = 'a secret of tests';

export const LIMITS: AgentLimits = {
  calls: 1000,
  parallel: 16,
  sequences: null,
  sampled_tokens: null,
  body: 8 * 1024 * 1024,
  call_ms: 60_000,
};

export const CALLS: CallSettings = {
  history: 'append',
  structured: 'refuse',
  role_map: {},
  tool_parser: 'hermes',
  reasoning_parser: 'qwen3',
  limits: LIMITS,
};

export interface Life {
  session: AgentSession;
  journal: Journal;
  url: string;
  headers: Record<string, string>;
  /** Asks `/v1/chat/completions`. */
  post: (
    body: object | string,
    init?: { signal?: AbortSignal; headers?: Record<string, string> },
  ) => Promise<Response>;
  lines: () => Promise<JournalLine[]>;
  playing: PlayedAgent;
  /** Ends what the activity does. */
  abort: AbortController;
}

export interface Given {
  settings?: Partial<CallSettings>;
  limits?: Partial<AgentLimits>;
  generation?: Partial<RolloutSettings['generation']>;
  rollout?: Partial<RolloutSettings>;
  row?: number;
  /** Its own engine. */
  pool?: Pool;
  /** Of its first call; absent: the same for each life. */
  seed?: number;
  /** The next attempt of the same life. */
  again?: boolean;
  restart?: 'replay' | 'fresh';
}

/** `engine`: instead of the simulator. */
export async function gatewayBed(
  t: TestContext,
  {
    simulator = {},
    engine,
    pool: givenPool,
    store: givenStore,
    ...options
  }: Partial<GatewayOptions> & {
    simulator?: Parameters<typeof startSimulator>[0]['settings'];
    engine?: GenerationService;
    pool?: Pool;
    /** Of journals that are no files. */
    store?: TrajectoryStore;
  } = {},
) {
  const files = await temporaryStore(t);
  const store = givenStore ?? files.store;
  const gateway = await createGateway({ listen: '127.0.0.1:0', secret: SECRET, ...options });
  const service = engine ?? (await simulated(t, simulator));
  const requests: GenerationRequest[] = [];
  let running = 0;
  const counted: GenerationService = {
    ...service,
    generate: (request, context) => {
      requests.push(request);
      running += 1;
      return service.generate(request, context).finally(() => (running -= 1));
    },
  };
  const pool = givenPool ?? poolFor(counted);
  const open = (given: Given = {}): Promise<Life> =>
    openLife(given, { gateway, pool: given.pool ?? pool, store, journalFile: files.journalFile });
  t.after(() => gateway.close());
  return { gateway, open, requests, running: () => running, store, service: counted };
}

async function simulated(
  t: TestContext,
  settings: Parameters<typeof startSimulator>[0]['settings'],
): Promise<GenerationService> {
  const simulator = await startSimulator({
    settings: { thinking_tokens: 0, seed: 7, ...settings },
    port: 0,
  });
  const service = createVllmService({
    base_url: `${simulator.url}/v1`,
    api_key: null,
    first_token_timeout_ms: 10_000,
    idle_timeout_ms: 10_000,
  });
  t.after(async () => {
    await service.close();
    await simulator.close();
  });
  return service;
}

/** The same, but no replica serves what is to be sampled: it waits until it is given up. */
export function poolWithout(service: GenerationService): Pool {
  const whole = poolFor(service);
  return {
    ...whole,
    request: (asked, run) => {
      if (!asked.is_generation) return whole.request(asked, run);
      asked.unserved?.('all replicas are away');
      return new Promise((_, reject) => {
        asked.signal.addEventListener(
          'abort',
          () => {
            reject(asked.signal.reason as Error);
          },
          { once: true },
        );
      });
    },
  };
}

/** Any request goes to this engine, which has published nothing. */
export const poolFor = (service: GenerationService): Pool => ({
  special_tokens: [],
  request: (_, run) =>
    run(service, {
      fence: null,
      policy: { latest: () => Promise.resolve(null), at: () => Promise.resolve(null) },
      waited_s: 0,
      pauseOver: () => Promise.resolve(),
      logprobsMode: () => Promise.resolve('processed'),
    }),
  distrust: () => Promise.resolve(),
});

async function openLife(
  {
    settings,
    limits,
    generation,
    rollout,
    row = 0,
    again = false,
    restart = 'replay',
    seed = 0,
  }: Given,
  {
    gateway,
    pool,
    store,
    journalFile,
  }: { gateway: Gateway; pool: Pool; store: TrajectoryStore; journalFile: (row: number) => string },
): Promise<Life> {
  const ref = { ...REF, row };
  const journal = await store.claim(ref, { activity: 'playTurns', ...(again && { attempt: 2 }) });
  const by = author(journal.writer);
  const inForce: RolloutSettings = {
    ...SETTINGS,
    model: 'simulator',
    max_seq_len: 4000,
    ...rollout,
    generation: { ...GENERATION, model: 'simulator', max_new_tokens: 1000, ...generation },
  };
  const { lives } = journal.trajectory;
  if (!again) {
    if (lives.length === 0)
      await journal.append(entryOf(by.start({ plays: 'agent', prompt: [], settings: inForce })));
    await journal.append(entryOf(by.life({ life: lives.length + 1, restart })));
    await journal.sync();
  }
  const abort = new AbortController();
  const rollout_id = rolloutId(ref);
  const asking = {
    model: 'simulator',
    chat_template_kwargs: {},
    session_id: rollout_id,
    sharer: { id: 'batch', priority: 3, share: 1 },
    signal: abort.signal,
  };
  const playing: PlayedAgent = {
    rollout_id,
    journal: {
      writer: journal.writer,
      trajectory: journal.trajectory,
      append: (entry: Entry) => journal.append(entry),
      stored: () => journal.stored(),
      sync: () => journal.sync(),
    },
    settings: { ...CALLS, ...settings, limits: { ...LIMITS, ...limits } },
    generation: () => inForce,
    pool,
    waits: UNWATCHED,
    sharer: asking.sharer,
    seed: ({ turn, inherited }) => seed + 1000 * turn + inherited,
    eos_ids: () => new Set(),
    ...engineOf(pool, asking),
    failed: async (error, turn) => {
      if (!(error instanceof Fault)) return error;
      const { type, message, at } = error;
      const waited = waitedFor(type, {
        before: null,
        names: { task: 'task', service: 'policy' },
        now_s: 0,
        is_denial: false,
      });
      await journal.append({ kind: 'fault', turn, type, message, replica: at, waited });
      return error;
    },
    signal: abort.signal,
  };
  const session = await gateway.open(playing);
  const headers = { authorization: `Bearer ${session.key}`, 'content-type': 'application/json' };
  return {
    session,
    journal,
    playing,
    abort,
    url: session.base_url,
    headers,
    post: (body, init = {}) =>
      fetch(`${session.base_url}/chat/completions`, {
        method: 'POST',
        ...init,
        headers: { ...headers, ...init.headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    lines: async () => linesOf(await readFile(journalFile(row), 'utf8')),
  };
}

/** Its program is killed, and this process answers it no more. */
export async function kill(life: Life): Promise<void> {
  await life.session.end('moved');
  await life.journal.release();
}
