import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** A service of programs, each a function in this process, that speaks the protocol of kind `agent`. */

export interface ServiceTask {
  base_url: string;
  key: string;
  prompt: string;
  message_log: { role: string; content: string }[];
  metadata: Record<string, unknown>;
}

export interface Ask {
  (messages: { role: string; content: string }[], more?: object): Promise<string>;
}

export interface Running {
  task: ServiceTask;
  run: string;
  ask: Ask;
  signal: AbortSignal;
}

/** What the service says at the end; `exit` by default is a success. */
export type Ended = Record<string, unknown>;

export interface AgentService {
  url: string;
  /** Names of runs, as they were started. */
  started: { run: string; task: ServiceTask }[];
  stopped: string[];
  polls: () => number;
  /** How many programs have not ended. */
  running: () => number;
  /** Answers every request itself, if it returns something. */
  instead:
    | ((
        method: string,
        path: string,
      ) => { status: number; body: string; headers?: Record<string, string> } | 'hang' | null)
    | null;
  /** As if it had been restarted. */
  forget: () => void;
  close: () => Promise<void>;
}

interface Asked {
  method: string;
  path: string;
  body: string;
}

interface Run {
  task: ServiceTask;
  state: Ended;
  ended: Promise<void>;
  cut: AbortController;
}

/** A program by its exit, or by what it returns. */
export type ServedProgram = (running: Running) => Promise<Ended>;

export async function startAgentService(program: ServedProgram): Promise<AgentService> {
  const runs = new Map<string, Run>();
  const service: AgentService = {
    url: '',
    started: [],
    stopped: [],
    polls: () => polls,
    running: () => [...runs.values()].filter(({ state }) => state['state'] === 'running').length,
    instead: null,
    forget: () => {
      server.closeAllConnections();
      for (const { cut } of runs.values()) cut.abort();
      runs.clear();
    },
    close: () =>
      new Promise((resolve) => {
        for (const { cut } of runs.values()) cut.abort();
        server.closeAllConnections();
        server.close(() => {
          resolve();
        });
      }),
  };
  let polls = 0;
  const begin = (run: string, task: ServiceTask): Run => {
    service.started.push({ run, task });
    const cut = new AbortController();
    const { signal } = cut;
    const one: Run = { task, state: { state: 'running' }, cut, ended: Promise.resolve() };
    one.ended = program({ task, run, signal, ask: askOf(task, signal) })
      .catch((error: unknown) => ({
        exit: { code: 1, signal: null, tail: `Traceback: ${String(error)} ${task.key}` },
      }))
      .then((ended) => {
        one.state = { state: 'ended', exit: { code: 0, signal: null, tail: '' }, ...ended };
      });
    runs.set(run, one);
    return one;
  };
  const answer = async ({ method, path, body }: Asked): Promise<[number, unknown]> => {
    const url = new URL(path, 'http://service');
    if (url.pathname === '/health') return [200, { status: 'ok' }];
    const run = decodeURIComponent(url.pathname.replace('/runs/', ''));
    if (method === 'PUT') {
      const task = JSON.parse(body) as ServiceTask | null;
      if (task === null) return [400, { error: 'expected a task' }];
      const there = runs.get(run);
      if (there !== undefined && there.task.key !== task.key)
        return [409, { error: 'another key' }];
      return [200, (there ?? begin(run, task)).state];
    }
    const there = runs.get(run);
    if (method === 'DELETE') {
      service.stopped.push(run);
      there?.cut.abort();
      runs.delete(run);
      return [200, { state: 'deleted' }];
    }
    polls += 1;
    if (there === undefined) return [404, { error: 'no such run' }];
    const wait_ms = Number(url.searchParams.get('wait')) * 1000;
    const waited = new AbortController();
    const { signal } = waited;
    await Promise.race([there.ended, sleep(wait_ms, undefined, { signal }).catch(() => undefined)]);
    waited.abort();
    return [200, there.state];
  };
  const server = createServer((request, response) => {
    const { method = '', url = '' } = request;
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const other = service.instead?.(method, url) ?? null;
      if (other === 'hang') return;
      if (other !== null) {
        response.writeHead(other.status, other.headers).end(other.body);
        return;
      }
      const body = Buffer.concat(chunks).toString();
      void answer({ method, path: url, body }).then(([status, said]) => {
        response
          .writeHead(status, { 'content-type': 'application/json' })
          .end(JSON.stringify(said));
      });
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  service.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return service;
}

const RETRIES = 40;

/** Asks as SDKs do: again after a connection that broke, and after 5xx. */
const askOf =
  ({ base_url, key }: ServiceTask, signal: AbortSignal): Ask =>
  async (messages, more = {}) => {
    const body = JSON.stringify({ model: 'policy', messages, ...more });
    for (let left = RETRIES; ; left--) {
      const given = await fetch(`${base_url}/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body,
        signal,
      }).catch((error: unknown) => {
        signal.throwIfAborted();
        if (left === 0) throw error;
        return null;
      });
      const text = (await given?.text().catch(() => null)) ?? null;
      if (given !== null && text !== null && given.status < 500) {
        if (given.status !== 200) throw new Error(`${given.status} ${text}`);
        const { choices } = JSON.parse(text) as {
          choices: { message: { content: string | null } }[];
        };
        return choices[0]?.message.content ?? '';
      }
      if (left === 0) throw new Error(`no answer: ${given?.status ?? 'connection'} ${text ?? ''}`);
      await sleep(250, undefined, { signal });
    }
  };
