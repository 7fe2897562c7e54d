import path from 'node:path';
import { BatchResult } from '../model/results/result.js';
import { UsageError } from '../platform/command.js';
import { plain } from '../platform/plain.js';
import type { BatchOutputs, TrajectoryStore } from '../trajectories/trajectory-store.js';
import { TEXT, integerIn, onlyOne, optionsAndWordsIn } from '../platform/arguments.js';
import { meantBatch, withStoreThatAnswers } from './store.js';

export async function exportCommand(args: string[]): Promise<number> {
  const options = { config: TEXT, step: TEXT, to: TEXT };
  const { values, positionals } = optionsAndWordsIn(args, options);
  const id = onlyOne(positionals, 'one batch or stream');
  const to = { file: values.to ?? '', format: formatOf(values.to) };
  const step = integerIn('--step', { text: values.step, least: 0 }) ?? null;
  return await withStoreThatAnswers(values.config, async ({ store }) => {
    const outputs = step === null ? store.outputs(id) : store.stepOutputs({ stream_id: id, step });
    const completed = await completedIn(outputs);
    if (completed === null) throw new Error(await withoutResult({ id, step }, store));
    await outputs.exportRollouts({ ...to, completed });
    console.log(plain(`${completed} rollouts of ${nameOf({ id, step })} are in ${to.file}`));
    return 0;
  });
}

interface Place {
  id: string;
  step: number | null;
}

const nameOf = ({ id, step }: Place): string => (step === null ? id : `step ${step} of ${id}`);

function formatOf(file = ''): 'jsonl' | 'arrow' {
  const extension = path.extname(file).slice(1);
  if (extension === 'arrow' || extension === 'jsonl') return extension;
  throw new UsageError(
    `expected --to with a file named .arrow or .jsonl, got ${JSON.stringify(file)}`,
  );
}

/** How many rows metrics.json counts; null: there is none. */
async function completedIn(outputs: BatchOutputs): Promise<number | null> {
  const result = await outputs.readMetrics();
  if (result === null) return null;
  return BatchResult.pick({ counts: true }).strip().parse(result).counts.completed;
}

async function withoutResult(place: Place, store: TrajectoryStore): Promise<string> {
  const request = await store.findRequest(place.id);
  if (request === null)
    return `no batch ${place.id} in ${store.name}${await meantBatch(place.id, store)}`;
  if (request.stream !== undefined && place.step === null)
    return `${place.id} is a stream: --step N exports one of its steps`;
  return `${nameOf(place)} has no result yet: it runs, or it is not kept, or starting its id again continues it`;
}
