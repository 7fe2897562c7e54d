import type { AgentSession, PlayedAgent } from './agent-session.js';
import type { Asked, Attached } from './match/attach.js';
import { attach } from './match/attach.js';
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
  attach: (asked: Asked) => Promise<Attached | Refusal>;
  /** A request was refused that is refused again, however often it is asked. */
  misfits: (refusal: Refusal) => void;
}

export function createSession(playing: PlayedAgent, times: Life['times']): Session {
  const life = createLife(playing, times);
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
    ending: () => life.ending,
    attach: (asked) => attach(life, asked),
    misfits: ({ message }) => {
      life.misfit = message;
    },
    misfit: () => life.misfit,
    overstays: life.limit.overstays,
    broken: life.broken,
    ourFault: () => [...life.faults.values()].at(-1) ?? null,
    end: async (why) => {
      signal.removeEventListener('abort', aborted);
      life.limit.leave();
      settle(life, why);
      life.ending = null;
      stop(life, ended(why));
      while (life.work.size > 0) await Promise.all(life.work);
    },
  };
}

/** What is known of no answer yet: a program that has ended had it; one that goes on may ask again. */
function settle({ calls }: Life, why: 'over' | 'moved'): void {
  for (const { handed } of calls.values())
    for (const one of [...handed]) {
      if (why === 'over') one.over();
      else one.leave();
    }
}
