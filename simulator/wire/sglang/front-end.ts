import type { ServerResponse } from 'node:http';
import type { Engine } from '../../engine.js';
import type { SimulatorSettings } from '../../settings.js';
import type { WeightStore } from '../../weights.js';

/**
 * The process in front of the scheduler. It has its own label, which it writes into each chunk, and its own pause, in
 * which it keeps new requests to itself; spans and frozen requests are the scheduler's.
 */
export interface FrontEnd {
  /** What a chunk, and `/model_info`, say now. */
  label: () => string;
  /** The label of a span, from here on; and of one front end, if that has heard of it. */
  setLabel: (label: string, is_heard: boolean) => void;
  /** The name of the model, which becomes the path of the last update. */
  name: () => string;
  rename: (path: string) => void;
  pause: (mode: Pause, response: ServerResponse) => Promise<void>;
  resume: () => void;
  isPaused: () => boolean;
  /** What ran is among those that wait. */
  isRetracted: () => boolean;
  /** Resolves when it hands a request to the scheduler. */
  open: () => Promise<void>;
  /** Without an id: all. One that is frozen in place ends once it goes on. */
  abort: (id?: string) => void;
  /** Nothing holds the cache. */
  isIdle: () => boolean;
  /** Requests that run under an adapter have ended. */
  unused: (adapter: string) => Promise<void>;
  uses: (adapter: string, response: ServerResponse) => void;
}

export const PAUSES = ['abort', 'in_place', 'retract'] as const;
export type Pause = (typeof PAUSES)[number];

export function createFrontEnd(
  engine: Engine,
  {
    weights,
    settings,
  }: { weights: WeightStore; settings: Pick<SimulatorSettings, 'model' | 'front_ends'> },
): FrontEnd {
  const labels = Array.from({ length: settings.front_ends }, () => weights.label());
  const waiting = new Set<() => void>();
  const users = new Map<string, Set<ServerResponse>>();
  let asked = 0;
  let name = settings.model;
  let paused: Pause | null = null;
  let late: (() => void)[] = [];
  const isFrozen = (): boolean => paused === 'in_place' && engine.stats().running > 0;
  return {
    label: () => labels[asked++ % labels.length] ?? '',
    setLabel: (label, is_heard) => {
      weights.setLabel(label);
      if (is_heard) labels[asked++ % labels.length] = label;
    },
    name: () => name,
    rename: (path) => {
      name = path;
    },
    async pause(mode, response) {
      // It waits for requests that do not go on.
      if (mode === 'abort' && isFrozen()) await new Promise((left) => response.once('close', left));
      else await engine.pause(mode === 'abort' ? 'abort' : 'keep');
      paused = mode;
    },
    resume() {
      paused = null;
      for (const abort of late) abort();
      late = [];
      engine.resume();
      for (const go of waiting) go();
      waiting.clear();
    },
    isPaused: () => paused !== null,
    isRetracted: () => paused === 'retract',
    open: () =>
      paused === null ? Promise.resolve() : new Promise((resolve) => waiting.add(resolve)),
    abort(id) {
      const abort = (): void => {
        engine.abort((one) => id === undefined || one.startsWith(id));
      };
      if (isFrozen()) late.push(abort);
      else abort();
    },
    isIdle: () => {
      const { running, waiting: line } = engine.stats();
      return paused === null ? running + line === 0 : paused === 'retract' || running === 0;
    },
    unused: async (adapter) => {
      const open = [...(users.get(adapter) ?? [])].filter((response) => !response.closed);
      await Promise.all(open.map((one) => new Promise((closed) => one.once('close', closed))));
    },
    uses: (adapter, response) => {
      const known = users.get(adapter) ?? new Set();
      users.set(adapter, known.add(response));
      response.once('close', () => known.delete(response));
    },
  };
}
