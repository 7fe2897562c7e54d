import type { SleepLevel } from '../../model/workflow-safe/policy-states.js';
import type { Bound, WeightControl } from '../weight-control.js';
import type { Ask } from '../wire/ask.js';
import { asleep } from '../control/answers.js';

/**
 * An engine's memory. SGLang does not say whether it sleeps, and its process ends when it is put to sleep or woken
 * twice. So a mark behind its label says it: in the engine, where every worker finds it, and gone with its process.
 */

const MARKS = {
  asleep: ' (asleep)',
  weights: ' (weights)',
  /** It has all of it, and is paused. */
  awake: ' (awake)',
} as const;
type State = keyof typeof MARKS;
const STATES = Object.keys(MARKS) as State[];

export const MEMORY_ROUTES = ['/release_memory_occupation', '/resume_memory_occupation'] as const;

const REST = ['kv_cache', 'cuda_graph'];

export interface Marked {
  label: string;
  /** null: it has not slept since it was resumed last. */
  state: State | null;
}

export function unmarked(said: string): Marked {
  const state = STATES.find((one) => said.endsWith(MARKS[one])) ?? null;
  return { label: state === null ? said : said.slice(0, -MARKS[state].length), state };
}

export const marked = ({ label, state }: Marked): string =>
  state === null ? label : `${label}${MARKS[state]}`;

export const isAsleep = ({ state }: Marked): boolean => state === 'asleep' || state === 'weights';

interface MemoryOf {
  replica: string;
  control: Ask;
  said: (bound: Bound) => Promise<Marked>;
  setLabel: (label: Marked, bound: Bound) => Promise<void>;
}

export function createMemory({ replica, control, said, setLabel }: MemoryOf) {
  const order = (
    path: (typeof MEMORY_ROUTES)[number],
    { tags, ...bound }: Bound & { tags?: readonly string[] },
  ): Promise<void> => control.order(`POST ${path}`, { body: tags ? { tags } : {}, ...bound });
  const sleeping = {
    /** It is paused, and runs nothing. The level is decided by how it was started (`sleep_levels`). */
    sleep: async (_: SleepLevel, bound: Bound): Promise<void> => {
      const { label, state } = await said(bound);
      if (state === 'asleep') return;
      const tags = state === 'weights' ? { tags: ['weights'] } : {};
      await order('/release_memory_occupation', { ...tags, ...bound });
      await setLabel({ label, state: 'asleep' }, bound);
    },
    wakeUp: async (tag: 'weights' | null, bound: Bound): Promise<void> => {
      const { label, state } = await said(bound);
      if (state !== 'asleep' && (state !== 'weights' || tag !== null)) return;
      const tags = state === 'weights' ? REST : tag === null ? undefined : [tag];
      await order('/resume_memory_occupation', { ...(tags && { tags }), ...bound });
      await setLabel({ label, state: tag ?? 'awake' }, bound);
    },
    isAsleep: async (bound: Bound): Promise<boolean> => isAsleep(await said(bound)),
  } satisfies Pick<WeightControl, 'sleep' | 'wakeUp' | 'isAsleep'>;
  return {
    sleeping,
    /** Called before `resume`, which would end the process of an engine that sleeps. */
    beforeResume: async (bound: Bound): Promise<void> => {
      const now = await said(bound);
      if (isAsleep(now)) throw asleep(replica, MEMORY_ROUTES);
      if (now.state !== null) await setLabel({ ...now, state: null }, bound);
    },
  };
}
