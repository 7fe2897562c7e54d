import type { Allowance } from '../platform/waits/allowance.js';
import { createAllowance } from '../platform/waits/allowance.js';
import type { Gateway } from './agent-session.js';
import { createHolder } from './holder.js';
import { keyOf } from './key.js';
import { createRequestReader } from './request-reader.js';
import { createRoutes } from './routes.js';
import { answerDoor, openListener } from './listener.js';
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
  const answering = { bodies, requests, times };
  const routes = createRoutes({ ...answering, holder });
  const listener = await openListener(listen, routes);
  // Some name the URL as clients have it.
  const address = (advertise ?? listener.url).replace(/\/(?:v1\/?)?$/, '');
  const base_url = `${address}/v1`;
  /** Each cuts the doors of one life. */
  const open = new Set<() => void>();
  return {
    base_url,
    open: (playing) => {
      const session = createSession(playing, times);
      const { life, writer, overstays, broken, ourFault, end } = session;
      const { rollout_id } = playing;
      holder.put(session);
      // Who reaches a door has no other life's.
      const own = { sessionOf: () => Promise.resolve(session.ending() ?? session) };
      const answer = createRoutes({ ...answering, holder: own });
      const doors: (() => void)[] = [];
      const shut = (): void => {
        for (const cut of doors) cut();
        open.delete(shut);
      };
      open.add(shut);
      return {
        base_url,
        key: keyOf({ rollout_id, life, writer }, secret),
        serve: (door) => {
          doors.push(answerDoor(door, answer));
        },
        overstays,
        broken,
        ourFault,
        end: async (why) => {
          holder.leave(session, why);
          await end(why);
          shut();
        },
      };
    },
    close: async () => {
      await holder.close();
      for (const shut of open) shut();
      await listener.close();
      await requests.close();
    },
  };
}
