import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '../../../src/platform/errors.js';
import { taskAt } from '../../bed/operator.js';
import { UNREADABLE } from '../../../test/fakes/hostile-inputs.js';
import { eventually } from '../../bed/waiting.js';
import type { Subject } from './subject.js';

/** What an operator does to a batch or a stream while it plays, and what has to be said of it. */
export interface Operation {
  name: string;
  /** `chance`: from 0 up to but excluding 1, for what the operation leaves open. */
  strike: (subject: Subject, chance: number) => Promise<Held | null>;
}

/** Something waits until it is lifted. */
export interface Held {
  /** What clients have to show until then. */
  says: RegExp;
  lift: () => Promise<void>;
}

const START_DELAY = '5s';
/** Signals have been read by then. */
const TASK_MS = 1000;
const CHILD = 'an open child to strike';

/** A child may end just before the blow. */
async function onChild(
  { children }: Subject,
  { chance, strike }: { chance: number; strike: (id: string) => Promise<void> },
): Promise<string> {
  return await eventually(CHILD, async () => {
    const open = (await children()).toSorted();
    const child = open[Math.floor(chance * open.length)];
    if (child === undefined) return null;
    try {
      await strike(child);
      return child;
    } catch (error) {
      if (error instanceof assert.AssertionError) throw error;
      console.error(`  ${child}: ${describeError(error)}; another one`);
      return null;
    }
  });
}

const nothing =
  (strike: (subject: Subject, chance: number) => Promise<unknown>) =>
  async (subject: Subject, chance: number): Promise<null> => {
    await strike(subject, chance);
    return null;
  };

const unreadable = (chance: number) => UNREADABLE[Math.floor(chance * UNREADABLE.length)]!;

export const OPERATIONS: readonly Operation[] = [
  {
    name: 'pause',
    strike: async ({ id, operator }) => {
      await operator.pause(id);
      return {
        says: new RegExp(`${id} is paused; temporal workflow unpause --workflow-id ${id} ends `),
        lift: () => operator.unpause(id),
      };
    },
  },
  {
    name: 'pause of its children',
    strike: async ({ id, operator, children }) => {
      const paused = new Set<string>();
      // One that ends meanwhile makes room for another.
      await eventually(CHILD, async () => {
        const open = (await children()).filter((child) => !paused.has(child));
        for (const child of open)
          await operator.pause(child).then(
            () => paused.add(child),
            () => undefined,
          );
        return open.length === 0 && paused.size > 0;
      });
      return {
        says: new RegExp(`${id}/\\S+ is paused; temporal workflow unpause `),
        lift: async () => {
          await Promise.all([...paused].map(operator.unpause));
        },
      };
    },
  },
  {
    name: 'unreadable signals',
    strike: nothing(async (subject, chance) => {
      const kind = unreadable(chance);
      const signal = async (id: string): Promise<void> => {
        const before = await subject.failedTasks(id);
        await subject.signal(id, kind);
        await sleep(TASK_MS);
        assert.equal(await subject.failedTasks(id), before, `failed workflow tasks of ${id}`);
      };
      await signal(subject.id);
      await onChild(subject, { chance, strike: signal });
    }),
  },
  {
    name: 'unreadable updates',
    strike: nothing(({ update }, chance) => update(unreadable(chance))),
  },
  {
    name: 'reset to the first task',
    strike: nothing(({ id, operator }) => operator.reset(id, taskAt(0))),
  },
  {
    name: 'reset into the middle',
    strike: nothing(({ id, operator }, chance) => operator.reset(id, taskAt(chance))),
  },
  {
    name: 'reset to the last task',
    strike: nothing(({ id, operator }) => operator.reset(id, taskAt(1))),
  },
  {
    name: 'reset of a child',
    strike: nothing((subject, chance) =>
      onChild(subject, {
        chance,
        strike: (child) => subject.operator.reset(child, taskAt(chance)),
      }),
    ),
  },
  {
    name: 'termination of a child',
    strike: nothing((subject, chance) =>
      onChild(subject, { chance, strike: subject.operator.terminate }),
    ),
  },
  {
    name: 'deletion of a child',
    strike: nothing((subject, chance) =>
      onChild(subject, { chance, strike: subject.operator.remove }),
    ),
  },
  {
    name: 'termination',
    strike: nothing(async ({ id, operator, start }) => {
      await operator.terminate(id);
      await start();
    }),
  },
  {
    name: 'deletion',
    strike: nothing(async ({ id, operator, start }) => {
      await operator.remove(id);
      await start();
    }),
  },
  {
    name: 'cancellation',
    strike: nothing(async ({ id, operator, start }) => {
      await operator.cancel(id);
      await start();
    }),
  },
  {
    name: 'start with a delay',
    strike: async ({ id, operator, start }) => {
      await operator.terminate(id);
      await start(START_DELAY);
      return {
        says: new RegExp(`${id} begins at .*: its start is delayed`),
        lift: () => Promise.resolve(),
      };
    },
  },
];
