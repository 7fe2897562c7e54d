import { once } from 'node:events';
import { appendFileSync, existsSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import type { AgentAct } from './gym-agent-script.js';
import { AgentScript, actFor, answerFor, rowName } from './gym-agent-script.js';

/** A call of `/run`, or its outcome. */
export interface AgentEvent {
  /** `arrived`, then one of the others; none of them if the server was killed. */
  event: 'arrived' | 'answered' | 'failed' | 'closed';
  /** `<task>-<rollout>`. */
  row: string;
  /** From 0, for each row; continues if the server restarts with the same log. */
  call: number;
  /** The received `_ng_attempt_index`; null: there was none. */
  attempt_index: number | null;
  /** Milliseconds since the epoch. */
  at: number;
  /** For `arrived`: the received body. */
  body?: string;
}

export interface GymAgentServer {
  /** `http://127.0.0.1:<port>`; it is also the head server. */
  url: string;
  events: readonly AgentEvent[];
  /** Requests that are no `/run`, as `GET /`. */
  others: readonly string[];
  /** Open connections are cut. */
  close: () => Promise<void>;
}

export interface GymAgentServerOptions {
  script?: z.input<typeof AgentScript>;
  /** 0: any free one. */
  port?: number;
  /** A restarted server continues this log. */
  log_file?: string;
}

/** A replacement for an agent server of NeMo Gym and for its head server. */
export async function startGymAgentServer({
  script: given = {},
  port = 0,
  log_file,
}: GymAgentServerOptions = {}): Promise<GymAgentServer> {
  const script = AgentScript.parse(given);
  const events: AgentEvent[] = log_file === undefined ? [] : readAgentEvents(log_file);
  const others: string[] = [];
  const say = (event: Omit<AgentEvent, 'at'>): void => {
    const said = { ...event, at: Date.now() };
    events.push(said);
    if (log_file !== undefined) appendFileSync(log_file, `${JSON.stringify(said)}\n`);
  };
  const server = createServer((request, response) => {
    const route = `${request.method ?? ''} ${request.url ?? ''}`;
    if (route === 'POST /run') {
      run({ request, response, script, events, say }).catch(() => response.destroy());
      return;
    }
    others.push(route);
    request.resume();
    answerOther(route, { response, script, port: (server.address() as AddressInfo).port });
  });
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    events,
    others,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

interface Run {
  request: IncomingMessage;
  response: ServerResponse;
  script: AgentScript;
  events: readonly AgentEvent[];
  say: (event: Omit<AgentEvent, 'at'>) => void;
}

async function run({ request, response, script, events, say }: Run): Promise<void> {
  const body = await text(request);
  const row = JSON.parse(body) as Record<string, unknown>;
  const name = rowName(row);
  const call = events.filter((e) => e.event === 'arrived' && e.row === name).length;
  const facts = {
    row: name,
    call,
    attempt_index: (row['_ng_attempt_index'] as number | undefined) ?? null,
  };
  say({ event: 'arrived', ...facts, body });
  response.on('close', () => {
    if (!response.writableEnded) say({ event: 'closed', ...facts });
  });
  const act = actFor(script, { row: name, call });
  if (act.kind === 'answer') await sleep(act.delay_ms || script.delay_ms);
  if (response.destroyed || act.kind === 'hang') return;
  if (act.kind === 'reset') {
    response.destroy();
    return;
  }
  // Written before the answer is sent, so the log has everything that a client has seen, however soon the server is
  // killed.
  say({ event: act.kind === 'status' ? 'failed' : 'answered', ...facts });
  send(response, replyOf(act, row));
}

interface Reply {
  status: number;
  body: string;
  headers?: Record<string, string>;
}

function replyOf(
  act: Exclude<AgentAct, { kind: 'hang' | 'reset' }>,
  row: Record<string, unknown>,
): Reply {
  switch (act.kind) {
    case 'status': {
      const { status, body, retry_after_s: wait } = act;
      return {
        status,
        body,
        ...(wait !== undefined && { headers: { 'retry-after': String(wait) } }),
      };
    }
    case 'text':
      return { status: 200, body: act.text };
    case 'large':
      return {
        status: 200,
        body: JSON.stringify({ ...answerFor(row), padding: 'x'.repeat(act.bytes) }),
      };
    case 'answer': {
      const left = new Set(act.without);
      const fields = Object.entries({ ...answerFor(row), ...act.with }).filter(
        ([k]) => !left.has(k),
      );
      return { status: 200, body: JSON.stringify(Object.fromEntries(fields)) };
    }
  }
}

function send(response: ServerResponse, { status, body, headers = {} }: Reply): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(body);
}

function answerOther(
  route: string,
  { response, script, port }: { response: ServerResponse; script: AgentScript; port: number },
): void {
  const found = { status: 200, body: '{"status":"ok"}' };
  const missing = { status: 404, body: '{"detail":"Not Found"}' };
  const { aggregate_metrics } = script;
  switch (route) {
    case 'GET /':
      send(response, found);
      break;
    case 'GET /global_config_dict_yaml':
      send(response, { ...found, body: JSON.stringify(globalConfigYaml(script.agents, port)) });
      break;
    case 'POST /aggregate_metrics':
      send(
        response,
        aggregate_metrics === null
          ? missing
          : { ...found, body: JSON.stringify(aggregate_metrics) },
      );
      break;
    default:
      send(response, missing);
  }
}

/** The head server's answer is a JSON string of this. */
const globalConfigYaml = (agents: readonly string[], port: number): string =>
  agents
    .map(
      (agent) =>
        `${agent}:\n  responses_api_agents:\n    simple_agent:\n      entrypoint: app.py\n      host: 127.0.0.1\n      port: ${port}\n`,
    )
    .join('');

/** The lines of a server's log, without a torn last one. */
export function readAgentEvents(logFile: string): AgentEvent[] {
  if (!existsSync(logFile)) return [];
  return readFileSync(logFile, 'utf8')
    .split('\n')
    .flatMap((line) => {
      try {
        return [JSON.parse(line) as AgentEvent];
      } catch {
        return [];
      }
    });
}
