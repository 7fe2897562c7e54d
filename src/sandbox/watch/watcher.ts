import { Fault } from '../../model/faults.js';
import { LATE, within } from '../../platform/waits/abort.js';
import { describeError } from '../../platform/errors.js';
import { startThread } from '../../platform/process/threads.js';
import type { Excess } from '../snippets/outcomes.js';
import type { Finding, Order, Tree } from './tree-watch.js';

export type Watcher = ReturnType<typeof createWatcher>;
export type Watch = ReturnType<Watcher['watch']>;

const REST_MS = 20_000;

/** Reports interpreters with excessive use. Starts its thread (`tree-watch.ts`) at the first use. */
export function createWatcher() {
  let thread: Thread | null = null;
  return {
    watch(tree: Tree, tell: (excess: Excess) => void) {
      if (thread?.lost !== null) thread = newThread();
      return thread.watch(tree, tell);
    },
    async close(): Promise<void> {
      await thread?.close();
    },
  };
}

type Thread = ReturnType<typeof newThread>;

interface Watched {
  tell: (excess: Excess) => void;
  rested: ((excess: Excess | null) => void) | null;
}

function newThread() {
  const worker = startThread(
    { beside: import.meta.url, name: 'tree-watch' },
    { resourceLimits: { maxOldGenerationSizeMb: HEAP_MB } },
  );
  worker.unref();
  const all = new Map<number, Watched>();
  let last_id = 0;
  let lost: string | null = null;
  const lose = (why: string): void => {
    lost ??= why;
    for (const { rested } of all.values()) rested?.(null);
  };
  const order = (it: Order): void => {
    if (lost !== null) throw away(lost);
    worker.postMessage(it);
  };
  worker.on('error', (error) => {
    lose(describeError(error));
  });
  worker.on('exit', (code) => {
    lose(`it ended with ${code}`);
  });
  worker.on('message', ({ id, excess, rested }: Finding) => {
    const one = all.get(id);
    if (rested) one?.rested?.(excess);
    else if (excess !== null) one?.tell(excess);
  });

  return {
    get lost(): string | null {
      return lost;
    },
    /** Over one interpreter, which rests at first. Once the thread has ended, it throws `EnvironmentUnavailable`. */
    watch(tree: Tree, tell: (excess: Excess) => void) {
      const id = ++last_id;
      const one: Watched = { tell, rested: null };
      all.set(id, one);
      order({ id, order: 'watch', tree });
      return {
        /** Wakes it; its use from here on counts for one turn. */
        run: (): void => {
          order({ id, order: 'run' });
        },
        /** Stops it; resolves with the excess until then. `tell` is also called with excess while it rests. */
        async rest(): Promise<Excess | null> {
          order({ id, order: 'rest' });
          const looked = new Promise<Excess | null>((resolve) => (one.rested = resolve));
          const excess = await within(REST_MS, looked);
          one.rested = null;
          if (excess === LATE) throw away(`no look came back within ${REST_MS / 1000} s`);
          if (lost !== null) throw away(lost);
          return excess;
        },
        end: (): void => {
          all.delete(id);
          one.rested?.(null);
          if (lost === null) order({ id, order: 'forget' });
        },
      };
    },
    async close(): Promise<void> {
      await worker.terminate();
    },
  };
}

const away = (why: string): Fault => {
  const message = `code: interpreters are no longer watched: ${why}`;
  return new Fault({ type: 'EnvironmentUnavailable', message });
};

/** In MB. A tree is at most some thousand small files of /proc. */
const HEAP_MB = 256;
