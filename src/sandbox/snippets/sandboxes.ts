import { createHash } from 'node:crypto';
import { Fault } from '../../model/faults.js';
import { createWaitingLine } from '../../platform/waits/waiting-line.js';
import type { Interpreter } from './interpreter.js';
import type { Blocks, Ran, RunRequest, Sandbox } from './outcomes.js';

/** Interpreters by rollout: kept between turns while there is room, otherwise rebuilt from the rollout's code. */

interface Session {
  interpreter: Interpreter;
  state: string;
  /** The last turn's outcome, for a repeated step: it must not run twice in one state. */
  last: { before: string; ran: Ran } | null;
  idle: NodeJS.Timeout | null;
}

export interface SandboxesOptions {
  start: (session: string, signal: AbortSignal) => Promise<Interpreter>;
  timeout_ms: number;
  max_sandboxes: number;
  idle_timeout_ms: number;
}

/** Running it again may meet a busier machine. */
const REPLAY_PATIENCE = 3;

const digestOf = (history: Blocks[]): string =>
  createHash('sha256').update(JSON.stringify(history)).digest('hex');

export function createSandboxes(options: SandboxesOptions): Pick<Sandbox, 'run' | 'close'> {
  const { timeout_ms } = options;
  const shelf = createShelf(options);
  const closing = new AbortController();
  /** The end of each session's line: its steps run one after the other. */
  const lines = new Map<string, Promise<unknown>>();

  const runOnce = async (request: RunRequest): Promise<Ran> => {
    const { session, history, blocks, signal } = request;
    const it = await sessionAt(request, { shelf, options });
    try {
      const ran = await it.interpreter.run(blocks, { signal, timeout_ms });
      if ('outcomes' in ran && ran.outcomes.every(({ status }) => status !== 'raises')) {
        it.last = { before: it.state, ran };
        it.state = digestOf([...history, blocks]);
        await shelf.rest(session, it);
      } else await shelf.end(it);
      return ran;
    } catch (error) {
      await shelf.end(it);
      throw error;
    }
  };

  const runTurn = async (request: RunRequest): Promise<Ran> => {
    const { session, history, blocks, signal } = request;
    signal.throwIfAborted();
    const found = shelf.look(session);
    const isAsked = found?.state === digestOf([...history, blocks]);
    if (isAsked && found.last?.before === digestOf(history)) return found.last.ran;
    const ran = await runOnce(request);
    // An interpreter killed from outside looks like code that ended itself, but only the code does it again.
    return 'killed' in ran && ran.killed === 'ended' ? await runOnce(request) : ran;
  };

  return {
    run(request) {
      const { session } = request;
      const before = lines.get(session) ?? Promise.resolve();
      const signal = AbortSignal.any([request.signal, closing.signal]);
      const ran = before.then(() => runTurn({ ...request, signal }));
      const line = ran.catch(() => undefined);
      lines.set(session, line);
      void line.then(() => {
        if (lines.get(session) === line) lines.delete(session);
      });
      return ran;
    },

    async close() {
      const message = 'code: this worker ends';
      closing.abort(new Fault({ type: 'EnvironmentUnavailable', message }));
      await shelf.close();
      await Promise.all(lines.values());
    },
  };
}

/** An interpreter in which exactly this history ran. */
async function sessionAt(
  request: RunRequest,
  { shelf, options }: { shelf: Shelf; options: SandboxesOptions },
): Promise<Session> {
  const { session, history, signal } = request;
  const wanted = digestOf(history);
  const found = shelf.take(session);
  if (found?.interpreter.alive === true && found.state === wanted) return found;
  if (found !== null) await shelf.end(found);
  for (let attempt = 1; ; attempt++) {
    const made = await shelf.begin(session, { signal, start: options.start });
    try {
      const is_last = attempt === REPLAYS;
      if (await replay(request, { made, is_last, timeout_ms: options.timeout_ms })) {
        made.state = wanted;
        return made;
      }
    } catch (error) {
      await shelf.end(made);
      throw error;
    }
    await shelf.end(made);
  }
}

/** An interpreter may be killed from outside, which says nothing about the code. */
const REPLAYS = 2;

/** false: the interpreter ended meanwhile, and another attempt follows. */
async function replay(
  { history, check, signal }: RunRequest,
  { made, is_last, timeout_ms }: { made: Session; is_last: boolean; timeout_ms: number },
): Promise<boolean> {
  for (const [turn, blocks] of history.entries()) {
    const patient = { signal, timeout_ms: timeout_ms * REPLAY_PATIENCE };
    const ran = await made.interpreter.run(blocks, patient);
    if ('killed' in ran && ran.killed === 'ended' && !is_last) return false;
    check(turn, ran);
  }
  return true;
}

type Shelf = ReturnType<typeof createShelf>;

/** At most `max_sandboxes` interpreters; holds the unused ones. */
function createShelf({ max_sandboxes, idle_timeout_ms }: SandboxesOptions) {
  const resting = new Map<string, Session>();
  let occupied = 0;
  let ending = 0;
  let closed = false;
  const line = createWaitingLine(() => (occupied < max_sandboxes ? ++occupied : null));

  const leave = (): void => {
    occupied -= 1;
    line.serve();
  };
  const end = async (it: Session): Promise<void> => {
    ending += 1;
    await it.interpreter.close();
    ending -= 1;
    leave();
  };
  /** Takes an unused interpreter, if there is one; it stays counted. */
  const take = (session: string): Session | null => {
    const found = resting.get(session) ?? null;
    if (found?.idle != null) clearTimeout(found.idle);
    resting.delete(session);
    return found;
  };
  const endOldest = async (count: number): Promise<void> => {
    const found = [...resting.keys()].slice(0, Math.max(0, count)).map(take);
    await Promise.all(found.filter((it) => it !== null).map(end));
  };
  const makeRoom = (): void => void endOldest(line.length() - ending);

  return {
    look: (session: string): Session | undefined => resting.get(session),
    take,
    end,

    /** Returns an interpreter. It stays until it is requested, idle for too long, or displaced. */
    async rest(session: string, it: Session): Promise<void> {
      if (closed || !it.interpreter.alive) {
        await end(it);
        return;
      }
      it.idle = setTimeout(() => {
        if (take(session) === it) void end(it);
      }, idle_timeout_ms).unref();
      resting.set(session, it);
      makeRoom();
    },

    /** A new one, once there is a place for it. Waits in line while the least recently used ones end. */
    async begin(
      session: string,
      { signal, start }: { signal: AbortSignal; start: SandboxesOptions['start'] },
    ): Promise<Session> {
      const place = line.join(undefined, signal);
      makeRoom();
      await place;
      try {
        const interpreter = await start(session, signal);
        return { interpreter, state: digestOf([]), last: null, idle: null };
      } catch (error) {
        leave();
        throw error;
      }
    },

    async close(): Promise<void> {
      closed = true;
      await endOldest(resting.size);
    },
  };
}
