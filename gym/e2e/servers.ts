import { setMaxListeners } from 'node:events';
import { createHeadServer } from '../../src/environments/gym-agent/head-server.js';
import { Fault } from '../../src/model/faults.js';
import type { Json } from '../json/exact.js';
import { createHttpClient, MAX_ANSWER_BYTES } from '../../src/platform/http/client.js';
import { isServer } from '../config/known-keys.js';

const PROBE_TIMEOUT_MS = 10_000;

export interface ServersToCheck {
  /** URL. */
  head_server: string;
  /** Agents that it must have. */
  agents: string[];
  signal: AbortSignal;
}

/** The result of a look at the servers. */
export interface ServersSeen {
  /** Nothing answers at the head server's address. */
  headless: boolean;
  /** The head server lacks agents; waiting does not change that. */
  is_other: boolean;
  /** For messages: what does not answer, or is not known; '': all answer. */
  missing: string;
}

/** One look: the head server, and every server that it names by `GET /`, with any status. */
export async function lookAtServers({
  head_server,
  agents,
  signal,
}: ServersToCheck): Promise<ServersSeen> {
  const head = createHeadServer(head_server);
  // One listener per server, each until its server was asked.
  setMaxListeners(0, signal);
  try {
    const config = await head.globalConfig(signal).catch((error: unknown) => {
      signal.throwIfAborted();
      // Something answers, but it is not a head server: waiting will not help.
      if (error instanceof Fault && error.type === 'EnvironmentRejected') throw error;
      return null;
    });
    if (config === null) {
      const missing = `the head server does not answer at ${head_server}`;
      return { headless: true, is_other: false, missing };
    }
    const urls = new Map<string, string>();
    for (const name of Object.keys(config)) {
      if (isServer(config[name] as Json)) urls.set(name, await head.serverUrl(name, signal));
    }
    const unknown = agents.filter((agent) => !urls.has(agent));
    const looks = [...urls].map(async ([name, url]) =>
      (await answers(url, signal)) ? [] : [`${name} (${url})`],
    );
    const silent = (await Promise.all(looks)).flat();
    const missing = [
      ...(unknown.length === 0
        ? []
        : [`the head server at ${head_server} does not know: ${unknown.join(', ')}`]),
      ...(silent.length === 0 ? [] : [`no answer from: ${silent.join(', ')}`]),
    ];
    return { headless: false, is_other: unknown.length > 0, missing: missing.join('; ') };
  } finally {
    await head.close();
  }
}

async function answers(url: string, signal: AbortSignal): Promise<boolean> {
  const client = createHttpClient({ connect_timeout_ms: PROBE_TIMEOUT_MS, keep_alive_ms: 0 });
  const probe = {
    method: 'GET',
    timeout_ms: PROBE_TIMEOUT_MS,
    max_bytes: MAX_ANSWER_BYTES,
  } as const;
  try {
    await client.exchange({ ...probe, url: `${url}/`, signal });
    return true;
  } catch {
    signal.throwIfAborted();
    return false;
  } finally {
    await client.close();
  }
}
