import type { SimulatorSettings } from './settings.js';

/** Why a generation ended, in vLLM's words. */
export type EndReason = 'stop' | 'length' | 'abort' | 'error';

export interface EngineStats {
  running: number;
  waiting: number;
  prompt_tokens: number;
  generation_tokens: number;
  finished: Readonly<Record<EndReason, number>>;
}

/** A generation as the engine handles it. */
export interface Sequence {
  /** It has a place: it runs. `leave` gives the place back. */
  start: (leave: () => void) => void;
  /** Nothing comes of it while it is frozen. */
  freeze: (isFrozen: boolean) => void;
  /** The weights are others from here on: what has not been sent is sampled anew. */
  reweigh: () => void;
  /** It is cut off, running or in line, and leaves. */
  abort: () => void;
}

/** What a pause does with what runs: cuts it off, lets it end, or keeps it where it is. */
export type PauseMode = 'abort' | 'wait' | 'keep';

/** The engine behind the server: so many generations run, the others wait in line; it counts what it does. */
export interface Engine {
  /** Starts it at once or when a place is free. `leave` gives the place back, or leaves the line. */
  enter(sequence: Sequence): () => void;
  /**
   * Nothing is started until `resume`. Resolves when what runs has been dealt with: with `wait` when it has ended, or
   * when the pause is over.
   */
  pause(mode: PauseMode): Promise<void>;
  resume(): void;
  isPaused(): boolean;
  /** What runs is frozen where it is. */
  isFrozen(): boolean;
  /** The weights have changed. */
  reweigh(): void;
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
  return {
    ...places,
    countPrompt(tokens) {
      prompt_tokens += tokens;
    },
    countTokens(tokens) {
      generation_tokens += tokens;
    },
    countEnd(reason) {
      finished[reason] += 1;
    },
    stats: () => ({ ...counts(), prompt_tokens, generation_tokens, finished: { ...finished } }),
  };
}

interface Places extends Pick<
  Engine,
  'enter' | 'pause' | 'resume' | 'isPaused' | 'isFrozen' | 'reweigh'
> {
  counts: () => Pick<EngineStats, 'running' | 'waiting'>;
}

/** Who runs and who waits in line. */
function createPlaces(settings: Pick<SimulatorSettings, 'max_num_seqs'>): Places {
  const line = new Set<Sequence>();
  const running = new Set<Sequence>();
  /** Pauses that wait until nothing runs any more. */
  const draining = new Set<() => void>();
  let paused = false;
  let frozen = false;
  let admitting = false;

  /** Fills the free places; `max_num_seqs` may have changed meanwhile. What ends while it is started is seen by the loop. */
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
  return {
    enter(sequence) {
      line.add(sequence);
      admit();
      return leaving(sequence);
    },
    async pause(mode) {
      paused = true;
      if (mode === 'keep') freeze(true);
      if (mode === 'abort') for (const sequence of [...running, ...line]) sequence.abort();
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
