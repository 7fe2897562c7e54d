import type { EngineStats } from '../engine.js';

interface Metric {
  name: string;
  type: 'gauge' | 'counter';
  help: string;
  /** Values, some with their own labels. */
  samples: readonly { labels?: string; value: number }[];
}

/** Tells processes behind one URL apart, and one process behind several. */
export interface ProcessSign {
  started_s: number;
  cpu_s: number;
}

const signText = ({ started_s, cpu_s }: ProcessSign): string =>
  `# HELP process_cpu_seconds_total Total user and system CPU time spent in seconds.
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total ${cpu_s.toFixed(2)}
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds ${started_s.toFixed(2)}
`;

/** Prometheus text: the metrics that routers and controllers read, with vLLM's names. */
export function metricsText(
  stats: EngineStats,
  { model, sign }: { model: string; sign: ProcessSign },
): string {
  const lines = metricsOf(stats).map(({ name, type, help, samples }) => {
    const lines = samples.map(({ labels, value }) => {
      const all = [
        'engine="0"',
        ...(labels === undefined ? [] : [labels]),
        `model_name="${model}"`,
      ];
      return `vllm:${name}{${all.join()}} ${value.toFixed(1)}\n`;
    });
    return `# HELP vllm:${name} ${help}\n# TYPE vllm:${name} ${type}\n${lines.join('')}`;
  });
  return `${signText(sign)}${lines.join('')}`;
}

const gauge = (name: string, { help, value }: { help: string; value: number }): Metric => ({
  name,
  type: 'gauge',
  help,
  samples: [{ value }],
});

const counter = (...metric: Parameters<typeof gauge>): Metric => ({
  ...gauge(...metric),
  type: 'counter',
});

const metricsOf = (stats: EngineStats): Metric[] => [
  gauge('num_requests_running', {
    help: 'Number of requests in model execution batches.',
    value: stats.running,
  }),
  gauge('num_requests_waiting', {
    help: 'Number of requests waiting to be processed.',
    value: stats.waiting,
  }),
  gauge('kv_cache_usage_perc', { help: 'KV-cache usage. 1 means 100 percent usage.', value: 0 }),
  counter('num_preemptions_total', {
    help: 'Cumulative number of preemption from the engine.',
    value: 0,
  }),
  counter('prompt_tokens_total', {
    help: 'Number of prefill tokens processed.',
    value: stats.prompt_tokens,
  }),
  counter('generation_tokens_total', {
    help: 'Number of generation tokens processed.',
    value: stats.generation_tokens,
  }),
  {
    name: 'engine_sleep_state',
    type: 'gauge',
    help: 'Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake.',
    samples: [{ labels: 'sleep_state="awake"', value: stats.is_asleep ? 0 : 1 }],
  },
  {
    name: 'request_success_total',
    type: 'counter',
    help: 'Count of successfully processed requests.',
    samples: Object.entries(stats.finished).map(([reason, value]) => ({
      labels: `finished_reason="${reason}"`,
      value,
    })),
  },
];
