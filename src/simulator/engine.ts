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

/** The engine behind the server: so many generations run, the others wait in line; it counts what it does. */
export interface Engine {
  /** Calls `start` at once or when a place is free. `leave` gives the place back, or leaves the line. */
  enter(start: (leave: () => void) => void): () => void;
  countPrompt(tokens: number): void;
  countTokens(tokens: number): void;
  countEnd(reason: EndReason): void;
  stats(): EngineStats;
}

export function createEngine(settings: Pick<SimulatorSettings, 'max_num_seqs'>): Engine {
  const line = new Set<() => void>();
  const finished = { stop: 0, length: 0, abort: 0, error: 0 };
  let running = 0;
  let prompt_tokens = 0;
  let generation_tokens = 0;
  let admitting = false;

  /** Fills the free places; `max_num_seqs` may have changed meanwhile. What ends while it is started is seen by the loop. */
  const admit = (): void => {
    if (admitting) return;
    admitting = true;
    for (const start of line) {
      if (running >= settings.max_num_seqs) break;
      line.delete(start);
      running += 1;
      start();
    }
    admitting = false;
  };
  return {
    enter(start) {
      let left = false;
      const leave = (): void => {
        if (left) return;
        left = true;
        if (!line.delete(begin)) running -= 1;
        admit();
      };
      const begin = (): void => {
        start(leave);
      };
      line.add(begin);
      admit();
      return leave;
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
      running,
      waiting: line.size,
      prompt_tokens,
      generation_tokens,
      finished: { ...finished },
    }),
  };
}
