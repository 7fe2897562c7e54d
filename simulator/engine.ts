import type { SimulatorSettings } from './settings.js';

/** Why a generation ended, in vLLM's words. */
export type EndReason = 'stop' | 'length' | 'abort' | 'error';

export interface EngineStats {
  running: number;
  waiting: number;
  prompt_tokens: number;
  generation_tokens: number;
  finished: Readonly<Record<EndReason, number>>;
  is_asleep: boolean;
}

/** A generation as the engine handles it. */
export interface Sequence {
  /** By which it may be aborted; null: it has none. */
  id: string | null;
  /** It has a place and runs. `leave` gives the place back. */
  start: (leave: () => void) => void;
  /** It produces nothing while it is frozen. */
  freeze: (isFrozen: boolean) => void;
  /** The weights have changed: what was not sent is sampled again. */
  reweigh: () => void;
  /** It is cut off, running or waiting, and leaves. */
  abort: () => void;
}

/** What a pause does to running generations: cuts them off, lets them end, or freezes them. */
export type PauseMode = 'abort' | 'wait' | 'keep';

/** The engine behind the server: a limited number of generations runs, the others wait; it counts what it does. */
export interface Engine {
  /** Starts it at once or when a place is free. `leave` gives the place back, or leaves the line. */
  enter(sequence: Sequence): () => void;
  /**
   * Nothing is started until `resume`. Resolves when running generations have been handled: with `wait` when they have
   * ended, or when the pause is over.
   */
  pause(mode: PauseMode): Promise<void>;
  resume(): void;
  /** Running and waiting ones whose id is meant. */
  abort(isMeant: (id: string) => boolean): void;
  has(id: string): boolean;
  isPaused(): boolean;
  /** Running generations are frozen. */
  isFrozen(): boolean;
  /** The weights have changed. */
  reweigh(): void;
  sleeps(is_asleep: boolean): void;
  countPrompt(tokens: number): void;
  countTokens(tokens: number): void;
  countEnd(reason: EndReason): void;
  stats(): EngineStats;
}

export function createEngine(settings: Pick<SimulatorSettings, 'max_num_seqs'>): Engine {
  const { counts, ...places } = createPlaces(settings);
  const finished = { stop: 0, length: 0, abort: 0, error: 0 };
  let prompt_tokens = 0;
  let generation_tokens = 0;
  let is_asleep = false;
  return {
    ...places,
    sleeps(one) {
      is_asleep = one;
    },
    countPrompt(tokens) {
      prompt_tokens += tokens;
    },
    countTokens(tokens) {
      generation_tokens += tokens;
    },
    countEnd(reason) {
      finished[reason] += 1;
    },
    stats: () => ({
      ...counts(),
      prompt_tokens,
      generation_tokens,
      finished: { ...finished },
      is_asleep,
    }),
  };
}

interface Places extends Pick<
  Engine,
  'enter' | 'pause' | 'resume' | 'abort' | 'has' | 'isPaused' | 'isFrozen' | 'reweigh'
> {
  counts: () => Pick<EngineStats, 'running' | 'waiting'>;
}

/** Running and waiting generations. */
function createPlaces(settings: Pick<SimulatorSettings, 'max_num_seqs'>): Places {
  const line = new Set<Sequence>();
  const running = new Set<Sequence>();
  /** Pauses that wait until no generation runs. */
  const draining = new Set<() => void>();
  let paused = false;
  let frozen = false;
  let admitting = false;

  /** Fills the free places; `max_num_seqs` may have changed. The loop sees what ends while it is started. */
  const admit = (): void => {
    if (admitting) return;
    admitting = true;
    for (const sequence of line) {
      if (paused || running.size >= settings.max_num_seqs) break;
      line.delete(sequence);
      running.add(sequence);
      sequence.start(leaving(sequence));
    }
    admitting = false;
  };
  const leaving = (sequence: Sequence) => (): void => {
    line.delete(sequence);
    running.delete(sequence);
    if (running.size === 0) release(draining);
    admit();
  };
  const freeze = (isFrozen: boolean): void => {
    frozen = isFrozen;
    for (const sequence of running) sequence.freeze(isFrozen);
  };
  const abort = (isMeant: (id: string) => boolean): void => {
    for (const one of [...running, ...line]) if (isMeant(one.id ?? '')) one.abort();
  };
  return {
    abort,
    has: (id) => [...running, ...line].some((one) => one.id === id),
    enter(sequence) {
      line.add(sequence);
      admit();
      return leaving(sequence);
    },
    async pause(mode) {
      paused = true;
      if (mode === 'keep') freeze(true);
      if (mode === 'abort') abort(() => true);
      if (mode === 'wait' && running.size > 0 && !frozen)
        await new Promise<void>((resolve) => draining.add(resolve));
    },
    resume() {
      paused = false;
      freeze(false);
      release(draining);
      admit();
    },
    isPaused: () => paused,
    isFrozen: () => frozen,
    reweigh: () => {
      for (const sequence of running) sequence.reweigh();
    },
    counts: () => ({ running: running.size, waiting: line.size }),
  };
}

function release(waiting: Set<() => void>): void {
  for (const resolve of waiting) resolve();
  waiting.clear();
}
