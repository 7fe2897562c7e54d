import type { Agents } from '../../../src/environments/gym-agent/agents.js';
import { Fault } from '../../../src/model/faults.js';
import type { GymRow } from '../../row.js';
import { rolloutName } from '../../row.js';

/**
 * Before anything is started or removed: checks that the head server answers and has every agent of the rows. An
 * agent's server that is not up yet is waited for later. So is the head server of a resumed collection, whose rows may
 * all be played. Returns the agents by the URLs of their servers.
 */
export async function checkAgents({
  agents,
  head_server,
  rows,
  resumed,
  say,
  signal,
}: {
  agents: Pick<Agents, 'urlOf'>;
  head_server: string | null;
  rows: readonly GymRow[];
  resumed: boolean;
  say: (text: string) => void;
  signal: AbortSignal;
}): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  const first = new Map<string, GymRow>();
  for (const row of rows) if (!first.has(row.agent)) first.set(row.agent, row);
  for (const [agent, row] of first) {
    try {
      found.set(await agents.urlOf(agent, signal), agent);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Fault && error.type === 'EnvironmentUnavailable') {
        if (!resumed) throw new Error(noHeadServer(head_server), { cause: error });
        say(
          `${noHeadServer(head_server)} Rows that have ended are collected; the others wait for it.`,
        );
        return found;
      }
      throw new Error(
        `agent ${JSON.stringify(agent)} (of row ${rolloutName(row.key)}) is unknown`,
        { cause: error },
      );
    }
  }
  return found;
}

/** Upstream's text. */
const noHeadServer = (url: string | null): string =>
  `Could not connect to the head server at ${url ?? 'none'}. Perhaps you are not running a server or your head server is on a different port?`;
