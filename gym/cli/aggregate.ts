import { createAgentUrls } from '../metrics/agent-urls.js';
import { aggregate } from '../metrics/aggregate.js';
import { parseAggregate } from '../config/collect-config.js';
import { shardsOf } from '../metrics/shards.js';
import { plain } from '../../src/platform/plain.js';
import { runInterruptibly } from './interruptible.js';

/** Upstream's `ng_aggregate_rollouts`, with its output. */
export const aggregateCommand = (args: string[]): Promise<number> =>
  runInterruptibly(({ signal }) => aggregateUntil(signal, args));

async function aggregateUntil(signal: AbortSignal, args: string[]): Promise<number> {
  const cwd = process.cwd();
  const own = ['answer-key', 'subset-key'];
  const parsed = await parseAggregate({ args, cwd, env: process.env, own });
  const { config, head_server, notes } = parsed;
  const { output_jsonl_fpath: output, merge_shards: merge } = config;
  const report = (line: string): void => {
    console.log(plain(line));
  };
  for (const note of notes) report(note);
  const inputs = shardsOf(config.input_glob, { cwd, output, merge, report });
  report(`Aggregating ${inputs.length} shard(s):`);
  for (const input of inputs) report(`  - ${input}`);
  const agents = createAgentUrls({ head_server, signal, report });
  try {
    const { urlOf } = agents;
    const metrics = await aggregate({
      inputs,
      output,
      merge,
      refuse_conflicts: true,
      answer_key: parsed.own['answer-key'] ?? null,
      subset_key: parsed.own['subset-key'] ?? null,
      urlOf,
      signal,
      report,
      onLoaded: (results) => {
        report(`Loaded ${results} rollout record(s) from ${inputs.length} shard(s)`);
      },
    });
    report(
      `Finished rollout aggregation! View results at:\n` +
        `Merged rollouts: ${merge ? output : '<not merged>'}\n` +
        `Aggregate metrics: ${metrics ?? '<no results>'}`,
    );
    return 0;
  } finally {
    await agents.close();
  }
}
