import { isKnown } from '../model/journal/calls.js';
import { createWaitingLine } from '../platform/waits/waiting-line.js';
import { Fault } from '../model/faults.js';
import type { AgentSession, PlayedAgent } from './agent-session.js';
import { beginCall, continuedBy } from './begin-call.js';
import { createRefusedLines } from './call-limits.js';
import { createCallTree } from './call-tree.js';
import type { Handed } from './delivery.js';
import { createGlue } from './glue.js';
import type { Candidate } from './matching.js';
import { matchCall } from './matching.js';
import type { HashedRequest } from './meaning.js';
import { ended, refusalIn, tooLong } from './patience.js';
import { playCall } from './play-call.js';
import type { PlayedCall } from './played-call.js';
import { newCall, readingOf } from './played-call.js';
import type { Refusal } from './refusals.js';
import { limitIn, limitReached, Refused } from './refusals.js';
import type { GatewayTimes } from './times.js';

/** One life of a rollout: its calls, and who waits for them. */

/** What a connection holds of a call. */
export interface Attached {
  call: PlayedCall;
  /** The client has closed it before the end. */
  cut: () => void;
  /** It has the whole answer: what becomes of it. */
  handed: (watch: (decide: (whole: boolean) => void) => Handed) => void;
  /** It was told that there is no answer. */
  left: () => void;
}

export interface Session extends Pick<AgentSession, 'overstays' | 'ourFault' | 'end'> {
  rollout_id: string;
  life: number;
  writer: string;
  playing: PlayedAgent;
  /** Why it answers no more; null: it does. */
  ending: () => Refusal | null;
  /** Finds the call that a request is, or begins it. At once: nothing comes between. */
  attach: (request: HashedRequest, idempotency_key: string | null) => Attached | Refusal;
}

const CONNECTIONS_EACH = 5;
/** A client that gave up earlier has not waited for us. */
const SILENT_MS = 10_000;

const MISMATCH: Refusal = {
  status: 422,
  code: 'idempotency_mismatch',
  message: 'expected the request that came with this Idempotency-Key before, got another one',
};

type Times = Pick<GatewayTimes, 'linger_ms' | 'overstay_ms'>;

export function createSession(playing: PlayedAgent, times: Times): Session {
  const { journal, settings, rollout_id } = playing;
  const { trajectory } = journal;
  const last = trajectory.lives.at(-1)?.line;
  if (last === undefined)
    throw new Error(`${rollout_id}: expected a life line in the journal before its session opens`);
  const { life, writer } = last;
  const { limits } = settings;
  const tree = createCallTree();
  tree.grow(trajectory.calls);
  const glue = createGlue(playing.render);
  const calls: PlayedCall[] = knownCalls(playing, life);
  const named = new Map<string, { key: string; call: number }>();
  const faults = new Map<string, string>();
  const refused = createRefusedLines(journal);
  const running = new Set<Promise<void>>();
  let asked = 0;
  let ending: Refusal | null = null;
  let places = limits.parallel;
  const line = createWaitingLine(() => (places > 0 ? (places -= 1) : null));
  const limit = overstaying(times.overstay_ms);

  const served = (call: PlayedCall, whole: boolean): void => {
    const { turn } = call;
    if (turn === null || call.is_delivered) return;
    call.is_delivered = whole;
    void track(journal.append({ kind: 'served', turn, life, whole }));
  };
  /** Waits for what is on its way to the journal; what fails there ends the session. */
  const track = (work: Promise<unknown>): Promise<void> => {
    const tracked = work.then(
      () => undefined,
      (error: unknown) => {
        lost(error);
      },
    );
    running.add(tracked);
    return tracked.finally(() => running.delete(tracked));
  };
  const lost = (error: unknown): void => {
    if (playing.signal.aborted || ending !== null) return;
    // A journal in other hands, or one that cannot be written: the next attempt answers.
    void error;
    stop(ended('moved'));
  };
  const stop = (why: Refusal): void => {
    ending ??= why;
    playing.signal.removeEventListener('abort', aborted);
    for (const call of calls) {
      clearTimeout(call.lingers);
      call.running?.abort();
      call.news.tell();
    }
  };
  const aborted = (): void => {
    stop(ended('moved'));
  };
  playing.signal.addEventListener('abort', aborted, { once: true });
  if (playing.signal.aborted) aborted();

  const run = async (call: PlayedCall, cut: AbortController): Promise<void> => {
    const { signal } = cut;
    await line.join(undefined, signal);
    try {
      if (call.turn === null && call.request !== null) {
        const isAsked = (): boolean => call.connections > 0;
        call.turn = await beginCall(call.request, { playing, life, tree, glue, signal, isAsked });
        if (call.turn === null) return;
        call.request = null;
        parentHas(call.turn);
      }
      if (call.turn === null) return;
      call.tries += 1;
      await playCall({ playing, call, turn: call.turn, signal, tries: call.tries - 1 });
      tree.grow(trajectory.calls);
      faults.delete(call.key);
    } finally {
      places += 1;
      line.serve();
    }
  };
  /** Who continues an answer has it. */
  const parentHas = (turn: number): void => {
    const begun = trajectory.calls[turn];
    const parent = begun === undefined ? null : continuedBy(begun);
    const before = calls.find((one) => one.turn === parent && parent !== null);
    if (before === undefined || trajectory.calls[parent ?? -1]?.answer == null) return;
    for (const handed of before.handed) handed.leave();
    before.handed.clear();
    served(before, true);
  };
  const refuse = async (call: PlayedCall, refusal: Refusal): Promise<void> => {
    call.refusal = refusal;
    const { code, message, status } = refusal;
    if (status >= 500) faults.set(call.key, message);
    if (code === 'rollout_limit') limit.reached();
    if (code === 'rollout_limit' || code === 'context_length_exceeded')
      await refused({ life, key: call.key, code, message, ...limitIn(refusal) });
  };
  const start = (call: PlayedCall): void => {
    if (call.running !== null || isAnswered(call)) return;
    const cut = new AbortController();
    call.running = cut;
    call.refusal = null;
    const late = setTimeout(() => {
      cut.abort(new Refused(tooLong(limits.call_ms)));
    }, limits.call_ms);
    const played = run(call, cut)
      .catch(async (error: unknown) => {
        if (ending !== null) return;
        const why: unknown = cut.signal.aborted ? cut.signal.reason : error;
        const refusal = isStoreFault(error) ? null : refusalIn(why);
        if (refusal !== null) await refuse(call, refusal);
        // Nobody waits for it.
        else if (!cut.signal.aborted) throw error;
      })
      .finally(() => {
        clearTimeout(late);
        call.running = null;
      });
    void track(played).then(() => {
      // Who came while it was cut goes on with it.
      if (call.connections > 0 && call.refusal === null && ending === null) start(call);
      forget(call);
      call.news.tell();
    });
  };
  const isAnswered = ({ turn }: PlayedCall): boolean =>
    turn !== null && trajectory.calls[turn]?.answer != null;
  /** A request that got no line is none. */
  const forget = (call: PlayedCall): void => {
    if (call.turn !== null || call.connections > 0) return;
    call.key = '';
    call.request = null;
  };

  const attach: Session['attach'] = (request, idempotency_key) => {
    if (ending !== null) return ending;
    asked += 1;
    const most = limits.calls === null ? Infinity : CONNECTIONS_EACH * limits.calls;
    if (asked > most) {
      limit.reached();
      return limitReached('connections', most);
    }
    const candidates = calls.map(candidateOf);
    const match = matchCall({ key: request.key, idempotency_key }, { calls: candidates, named });
    if (match === 'mismatch') return MISMATCH;
    const found = match === 'new' ? undefined : calls[match.attach];
    const call = found ?? newCall({ key: request.key, request, turn: null, is_delivered: false });
    if (found === undefined) calls.push(call);
    if (idempotency_key !== null)
      named.set(idempotency_key, { key: request.key, call: calls.indexOf(call) });
    call.connections += 1;
    clearTimeout(call.lingers);
    start(call);
    return attached(call);
  };
  const leave = (call: PlayedCall): void => {
    call.connections -= 1;
    if (call.connections > 0) return;
    if (call.running === null) {
      forget(call);
      return;
    }
    // One that has no line yet is given up at once.
    if (call.turn === null) call.running.abort();
    else call.lingers = setTimeout(() => call.running?.abort(), times.linger_ms).unref();
  };
  const attached = (call: PlayedCall): Attached => ({
    call,
    left: () => {
      leave(call);
    },
    cut: () => {
      const { content, reasoning } = readingOf(call, trajectory);
      call.closed_at.push(content.length + reasoning.length);
      const silent = performance.now() - call.moved_ms;
      if (call.held !== null && silent >= SILENT_MS && !isAnswered(call))
        faults.set(call.key, `no replica served for ${Math.floor(silent / 1000)} s: ${call.held}`);
      leave(call);
    },
    handed: (watch) => {
      leave(call);
      const handed: Handed = watch((whole) => {
        call.handed.delete(handed);
        served(call, whole);
      });
      if (handed.isOpen()) call.handed.add(handed);
    },
  });

  return {
    rollout_id,
    life,
    writer,
    playing,
    ending: () => ending,
    attach,
    overstays: limit.overstays,
    ourFault: () => faults.values().next().value ?? null,
    end: async (why) => {
      limit.leave();
      for (const { handed } of calls)
        for (const one of [...handed]) {
          if (why === 'over') one.over();
          else one.leave();
        }
      stop(ended(why));
      ending = ended(why);
      while (running.size > 0) await Promise.allSettled(running);
    },
  };
}

const isStoreFault = (error: unknown): boolean =>
  error instanceof Fault && error.type === 'StoreFault';

/** Those that an earlier attempt of this life has begun. */
function knownCalls({ journal }: PlayedAgent, life: number): PlayedCall[] {
  return journal.trajectory.calls.flatMap((call, turn) => {
    if (!isKnown(call, life)) return [];
    const is_delivered = call.given.get(life) === true;
    return [newCall({ key: call.line.key, request: null, turn, is_delivered })];
  });
}

const candidateOf = (
  { key, is_delivered, connections, handed, closed_at }: PlayedCall,
  call: number,
): Candidate => {
  const open = [...handed].filter((one) => one.isOpen()).length;
  return { call, key, is_known: true, is_delivered, connections: connections + open, closed_at };
};

/** A program that was refused because of a limit, and goes on. */
function overstaying(ms: number): {
  reached: () => void;
  overstays: Promise<void>;
  leave: () => void;
} {
  let timer: NodeJS.Timeout | undefined;
  let isOver = false;
  let late: () => void = () => undefined;
  const overstays = new Promise<void>((resolve) => (late = resolve));
  return {
    overstays,
    reached: () => {
      if (!isOver) timer ??= setTimeout(late, ms).unref();
    },
    leave: () => {
      isOver = true;
      clearTimeout(timer);
    },
  };
}
