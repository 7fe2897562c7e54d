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
  /** Calls `start` at once or when a place is free. What it returns gives the place back, or leaves the line. */
  enter(start: () => void): () => void;
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

  /** Fills the free places; `max_num_seqs` may have changed meanwhile. */
  const admit = (): void => {
    for (const start of line) {
      if (running >= settings.max_num_seqs) return;
      line.delete(start);
      running += 1;
      start();
    }
  };
  return {
    enter(start) {
      let left = false;
      line.add(start);
      admit();
      return () => {
        if (left) return;
        left = true;
        if (!line.delete(start)) running -= 1;
        admit();
      };
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

/** Prometheus text, the names that routers and controllers read (captures 111, 137). */
export function metricsText({ running, waiting, ...totals }: EngineStats, model: string): string {
  const labels = `engine="0",model_name="${model}"`;
  const metric = (name: string, facts: { type: string; help: string; samples: Samples }): string => {
    const lines = facts.samples.map(
      ([extra, value]) => `vllm:${name}{${extra}${labels}} ${value.toFixed(1)}`,
    );
    const head = [`# HELP vllm:${name} ${facts.help}`, `# TYPE vllm:${name} ${facts.type}`];
    return [...head, ...lines, ''].join('\n');
  };
  const gauge = (name: string, help: string, value: number): string =>
    metric(name, { type: 'gauge', help, samples: [['', value]] });
  const counter = (name: string, help: string, samples: Samples): string =>
    metric(name, { type: 'counter', help, samples });
  const { prompt_tokens, generation_tokens, finished } = totals;
  return [
    gauge('num_requests_running', 'Number of requests in model execution batches.', running),
    gauge('num_requests_waiting', 'Number of requests waiting to be processed.', waiting),
    gauge('kv_cache_usage_perc', 'KV-cache usage. 1 means 100 percent usage.', 0),
    counter('num_preemptions_total', 'Cumulative number of preemptions.', [['', 0]]),
    counter('prompt_tokens_total', 'Number of prefill tokens processed.', [['', prompt_tokens]]),
    counter('generation_tokens_total', 'Number of generation tokens processed.', [
      ['', generation_tokens],
    ]),
    counter(
      'request_success_total',
      'Count of successfully processed requests.',
      Object.entries(finished).map(([reason, n]) => [`finished_reason="${reason}",`, n]),
    ),
  ].join('');
}

type Samples = readonly (readonly [extraLabels: string, value: number])[];
