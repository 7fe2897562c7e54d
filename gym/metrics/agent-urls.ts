import { createHeadServer } from '../../src/environments/gym-agent/head-server.js';
import { Fault } from '../../src/model/faults.js';
import { describeError } from '../../src/platform/errors.js';

export interface AgentUrls {
  /** null: there is no head server, which is reported once. Throws if there is one that lacks the agent. */
  urlOf: (agent: string) => Promise<string | null>;
  close: () => Promise<void>;
}

/** The addresses of agent servers, from the head server. */
export function createAgentUrls({
  head_server: { host, port },
  signal,
  report,
}: {
  head_server: { host: string; port: number };
  signal: AbortSignal;
  report: (line: string) => void;
}): AgentUrls {
  const url = `http://${host}:${port}`;
  const head = createHeadServer({ url });
  let isAbsent = false;
  return {
    urlOf: async (agent) => {
      if (isAbsent) return null;
      try {
        return await head.serverUrl(agent, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof Fault) || error.type !== 'EnvironmentUnavailable') throw error;
        isAbsent = true;
        report(`no head server: all metrics are computed here (${describeError(error)})`);
        return null;
      }
    },
    close: () => head.close(),
  };
}
