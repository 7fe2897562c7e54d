import type { Allowance } from '../platform/waits/allowance.js';
import { createAllowance } from '../platform/waits/allowance.js';
import type { Gateway } from './agent-session.js';
import { createHolder } from './holder.js';
import { keyOf } from './key.js';
import { createRequestReader } from './request-reader.js';
import { createRoutes } from './routes.js';
import { openListener } from './listener.js';
import { createSession } from './session.js';
import type { GatewayTimes } from './times.js';
import { TIMES } from './times.js';

/** The listener of a worker, which answers the agents of the rollouts that this process plays. */

export interface GatewayOptions {
  /** `host:port`; port 0: any free one. */
  listen: string;
  /** How agents reach it, without `/v1`; null: at the listener's own address. */
  advertise?: string | null;
  /** Of the keys. */
  secret: string;
  /** Which all bodies of requests share. */
  bodies?: Allowance;
  times?: Partial<GatewayTimes>;
}

const BODIES = 256 * 1024 * 1024;

/** Rejects if it cannot listen there. */
export async function createGateway({
  listen,
  advertise = null,
  secret,
  bodies = createAllowance(BODIES),
  times: given,
}: GatewayOptions): Promise<Gateway> {
  const times = { ...TIMES, ...given };
  const holder = createHolder(secret);
  const requests = createRequestReader();
  const routes = createRoutes({ holder, bodies, requests, times });
  const listener = await openListener(listen, routes);
  const address = (advertise ?? listener.url).replace(/\/$/, '');
  const base_url = `${address}/v1`;
  return {
    base_url,
    open: (playing) => {
      const session = createSession(playing, times);
      const { life, writer, overstays, broken, ourFault, end } = session;
      const { rollout_id } = playing;
      holder.put(session);
      return {
        base_url,
        key: keyOf({ rollout_id, life, writer }, secret),
        overstays,
        broken,
        ourFault,
        end: async (why) => {
          holder.leave(session, why);
          await end(why);
        },
      };
    },
    close: async () => {
      await holder.close();
      await listener.close();
      await requests.close();
    },
  };
}
