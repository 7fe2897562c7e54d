import type { EngineStats } from '../engine.js';

interface Metric {
  name: string;
  type: 'gauge' | 'counter';
  help: string;
  /** Values, some with their own labels. */
  samples: readonly { labels?: string; value: number }[];
}

/** Prometheus text: the metrics that routers and controllers read, with vLLM's names. */
export function metricsText(stats: EngineStats, model: string): string {
  return metricsOf(stats)
    .map(({ name, type, help, samples }) => {
      const lines = samples.map(({ labels, value }) => {
        const all = [
          'engine="0"',
          ...(labels === undefined ? [] : [labels]),
          `model_name="${model}"`,
        ];
        return `vllm:${name}{${all.join()}} ${value.toFixed(1)}\n`;
      });
      return `# HELP vllm:${name} ${help}\n# TYPE vllm:${name} ${type}\n${lines.join('')}`;
    })
    .join('');
}

function metricsOf(stats: EngineStats): Metric[] {
  return [
    {
      name: 'num_requests_running',
      type: 'gauge',
      help: 'Number of requests in model execution batches.',
      samples: [{ value: stats.running }],
    },
    {
      name: 'num_requests_waiting',
      type: 'gauge',
      help: 'Number of requests waiting to be processed.',
      samples: [{ value: stats.waiting }],
    },
    {
      name: 'kv_cache_usage_perc',
      type: 'gauge',
      help: 'KV-cache usage. 1 means 100 percent usage.',
      samples: [{ value: 0 }],
    },
    {
      name: 'num_preemptions_total',
      type: 'counter',
      help: 'Cumulative number of preemption from the engine.',
      samples: [{ value: 0 }],
    },
    {
      name: 'prompt_tokens_total',
      type: 'counter',
      help: 'Number of prefill tokens processed.',
      samples: [{ value: stats.prompt_tokens }],
    },
    {
      name: 'generation_tokens_total',
      type: 'counter',
      help: 'Number of generation tokens processed.',
      samples: [{ value: stats.generation_tokens }],
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
}
