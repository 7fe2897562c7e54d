import type { AgentSession, Gateway, Holders } from './agent-session.js';
import { createBodies } from './request/bodies.js';
import { createHolder } from './request/holder.js';
import { keyOf } from './request/key.js';
import { createNeighbours } from './request/neighbours.js';
import { createRequestReader } from './request/request-reader.js';
import type { Routing } from './request/routes.js';
import { createRoutes } from './request/routes.js';
import { answerDoor, openListener } from './request/listener.js';
import type { Session } from './session.js';
import { createSession } from './session.js';
import type { GatewayTimes } from './times.js';
import { TIMES } from './times.js';

/** The listener of a worker, which answers the agents of the rollouts that this process plays. */

export interface GatewayOptions {
  /** `host:port`; port 0: any free one. */
  listen: string;
  /** How agents reach it, without `/v1`; null: at the listener's own address. */
  advertise?: string | null;
  /** How it alone is reached, where `advertise` leads to several; null: as `advertise` says. */
  direct?: string | null;
  /** The secret of the keys. */
  secret: string;
  /** Who answers what other workers play; null: there are none. */
  holders?: Holders | null;
  times?: Partial<GatewayTimes>;
}

/** Rejects if it cannot listen there. */
export async function createGateway({
  listen,
  advertise = null,
  direct = null,
  secret,
  holders = null,
  times: given,
}: GatewayOptions): Promise<Gateway> {
  const times = { ...TIMES, ...given };
  const neighbours = createNeighbours();
  const holder = createHolder(secret, { holders, neighbours, url: () => url });
  const requests = createRequestReader();
  const answering = { bodies: createBodies(), requests, times };
  const listener = await openListener(listen, createRoutes({ ...answering, holder }));
  const base_url = `${rootOf(advertise ?? listener.url)}/v1`;
  const url = rootOf(direct ?? advertise ?? listener.url);
  /** Each cuts the doors of one life. */
  const open = new Set<() => void>();
  return {
    base_url,
    open: async (playing) => {
      const { rollout_id, journal } = playing;
      const held = { url, writer: journal.writer };
      await holders?.take(rollout_id, { ...held, stillOurs: () => journal.sync() });
      const session = createSession(playing, times);
      const { life, writer, overstays, broken, ourFault, misfit, end } = session;
      holder.put(session);
      const { serve, shut } = doorsOf(session, { answering, open });
      return {
        base_url,
        key: keyOf({ rollout_id, life, writer }, secret),
        serve,
        overstays,
        broken,
        ourFault,
        misfit,
        end: async (why) => {
          holder.leave(session, why);
          await end(why);
          shut();
          if (why === 'over') await holders?.leave(rollout_id, held);
        },
      };
    },
    close: async () => {
      await holder.close();
      for (const shut of open) shut();
      await listener.close();
      await neighbours.close();
      await requests.close();
    },
  };
}

/** Who reaches a door has no other life's. */
function doorsOf(
  session: Session,
  { answering, open }: { answering: Omit<Routing, 'holder'>; open: Set<() => void> },
): Pick<AgentSession, 'serve'> & { shut: () => void } {
  const only = {
    here: () => session,
    answererOf: () => Promise.resolve(session.ending() ?? session),
  };
  const answer = createRoutes({ ...answering, holder: only });
  const doors: (() => void)[] = [];
  const shut = (): void => {
    for (const cut of doors) cut();
    open.delete(shut);
  };
  open.add(shut);
  return {
    serve: (door) => {
      doors.push(answerDoor(door, answer));
    },
    shut,
  };
}

/** Some name the URL as clients have it. */
const rootOf = (url: string): string => url.replace(/\/(?:v1\/?)?$/, '');
