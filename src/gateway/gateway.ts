import type { AgentSession, Answerers, Gateway } from './agent-session.js';
import { createBodies } from './request/body.js';
import { createSessions } from './request/sessions.js';
import { keyOf } from './request/key.js';
import { createRequestReader } from './request/request-reader.js';
import type { Routing } from './request/routes.js';
import { createRoutes } from './request/routes.js';
import { answerDoor, openListener } from './request/listener.js';
import type { Life } from './life.js';
import { createLife } from './life.js';
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
  secret: string;
  /** Finds the worker that answers for a rollout that another worker plays; null: this worker is the only one. */
  answerers?: Answerers | null;
  times?: Partial<GatewayTimes>;
}

/** Rejects if it cannot listen there. */
export async function createGateway({
  listen,
  advertise = null,
  direct = null,
  secret,
  answerers = null,
  times: given,
}: GatewayOptions): Promise<Gateway> {
  const times = { ...TIMES, ...given };
  const sessions = createSessions(secret, { answerers, url: () => url });
  const requests = createRequestReader();
  const answering = { bodies: createBodies(), requests, times };
  const listener = await openListener(listen, createRoutes({ ...answering, sessions }));
  const base_url = `${rootOf(advertise ?? listener.url)}/v1`;
  const url = rootOf(direct ?? advertise ?? listener.url);
  /** Each cuts the doors of one life. */
  const open = new Set<() => void>();
  return {
    base_url,
    open: async (playing) => {
      const { rollout_id, journal } = playing;
      const own = { url, writer: journal.writer };
      await answerers?.take(rollout_id, { ...own, stillOurs: () => journal.sync() });
      const life = createLife(playing, times);
      sessions.put(life);
      const { serve, shut } = doorsOf(life, { answering, open });
      return {
        base_url,
        key: keyOf({ rollout_id, life: life.life, writer: life.writer }, secret),
        serve,
        ...life.standing,
        end: async (why) => {
          sessions.leave(life, why);
          await life.end(why);
          shut();
          if (why === 'over') await answerers?.leave(rollout_id, own);
        },
      };
    },
    close: async () => {
      await sessions.close();
      for (const shut of open) shut();
      await listener.close();
      await requests.close();
    },
  };
}

/** Listeners that lead to this life alone. */
function doorsOf(
  life: Life,
  { answering, open }: { answering: Omit<Routing, 'sessions'>; open: Set<() => void> },
): Pick<AgentSession, 'serve'> & { shut: () => void } {
  const only = {
    here: () => life,
    answererOf: () => Promise.resolve(life.standing.ending() ?? life),
  };
  const answer = createRoutes({ ...answering, sessions: only });
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
