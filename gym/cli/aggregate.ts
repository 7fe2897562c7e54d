import { createHeadServer } from '../../src/environments/gym-agent/head-server.js';
import { Fault } from '../../src/model/faults.js';
import { describeError } from '../../src/platform/errors.js';
import { aggregate } from '../metrics/aggregate.js';
import { parseAggregate } from '../config/collect-config.js';
import { shardsOf } from '../metrics/shards.js';
import { plain } from '../../src/platform/plain.js';
import type { Scalar } from '../upload/exporter.js';
import { uploadOf } from '../upload/upload.js';
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
  const openUpload = await uploadOf(parsed.gym, { cwd, env: process.env, say: report, signal });
  const inputs = shardsOf(config.input_glob, { cwd, output, merge, report });
  report(`Aggregating ${inputs.length} shard(s):`);
  for (const input of inputs) report(`  - ${input}`);
  const head = createHeadServer(head_server);
  let isAbsent = false;
  const urlOf = async (agent: string): Promise<string | null> => {
    if (isAbsent) return null;
    try {
      return await head.serverUrl(agent, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof Fault) || error.type !== 'EnvironmentUnavailable') throw error;
      isAbsent = true;
      report(`no head server: all metrics are computed here (${describeError(error)})`);
      return null;
    }
  };
  const scalars = new Map<string, Scalar>();
  try {
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
      scalars,
      onLoaded: (results) => {
        report(`Loaded ${results} rollout record(s) from ${inputs.length} shard(s)`);
      },
    });
    const upload = scalars.size === 0 ? null : await openUpload();
    await upload?.metrics(scalars);
    await upload?.close();
    report(
      `Finished rollout aggregation! View results at:\n` +
        `Merged rollouts: ${merge ? output : '<not merged>'}\n` +
        `Aggregate metrics: ${metrics ?? '<no results>'}`,
    );
    return 0;
  } finally {
    await head.close();
  }
}
