import type { AgentSession, PlayedAgent } from './agent-session.js';
import type { IncomingRequest } from './match/attach.js';
import { attach } from './match/attach.js';
import type { Attached } from './match/connections.js';
import { settle } from './match/connections.js';
import type { Life } from './life.js';
import { createLife, stop } from './life.js';
import { ended } from './play/patience.js';
import type { Refusal } from './request/refusals.js';

/** One life of a rollout, as its requests and its activity see it. */
export interface Session extends Pick<
  AgentSession,
  'overstays' | 'broken' | 'ourFault' | 'misfit' | 'end'
> {
  life: number;
  writer: string;
  playing: PlayedAgent;
  /** Why it answers no more; null: it does. */
  ending: () => Refusal | null;
  /** Finds the call that a request is, or begins it. */
  attach: (asked: IncomingRequest) => Promise<Attached | Refusal>;
  /** A request was refused that is refused again, however often it is asked. */
  misfits: (refusal: Refusal) => void;
}

export function createSession(playing: PlayedAgent, times: Life['times']): Session {
  const life = createLife(playing, times);
  const { standing } = life;
  const { signal } = playing;
  const aborted = (): void => {
    stop(life, ended('moved'));
  };
  signal.addEventListener('abort', aborted, { once: true });
  if (signal.aborted) aborted();
  return {
    life: life.life,
    writer: life.writer,
    playing,
    ending: standing.ending,
    attach: (asked) => attach(life, asked),
    misfits: ({ message }) => {
      standing.misfits(message);
    },
    misfit: standing.misfit,
    overstays: standing.overstays,
    broken: standing.broken,
    ourFault: standing.ourFault,
    end: async (why) => {
      signal.removeEventListener('abort', aborted);
      standing.leave();
      settle(life.known, why);
      stop(life, ended(why));
      while (life.work.size > 0) await Promise.all(life.work);
    },
  };
}
