import { StepResult } from '../../src/model/results/result.js';
import { Forgotten, StepFact } from '../../src/model/stream/facts.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import type { StepEntry } from '../documents.js';

/** Reads the steps that a stream has closed and kept, each once. */
export function createStepReader(
  { facts, stepOutputs }: Pick<TrajectoryStore, 'facts' | 'stepOutputs'>,
  stream_id: string,
): () => Promise<StepEntry[]> {
  const known = new Map<number, StepEntry>();
  return async () => {
    const forgotten = await facts.last([stream_id, 'forgotten'], -1);
    const through = forgotten === null ? -1 : Forgotten.parse(JSON.parse(forgotten.text)).through;
    for (const step of known.keys()) if (step <= through) known.delete(step);
    const last = Math.max(through, ...known.keys());
    for (const { n, text } of await facts.news([{ series: [stream_id, 'steps'], known: last }])) {
      const { groups } = StepFact.pick({ groups: true }).strip().parse(JSON.parse(text));
      const found = StepResult.safeParse(await stepOutputs({ stream_id, step: n }).readMetrics());
      if (!found.success) break;
      const { version, counts, metrics } = found.data;
      known.set(n, {
        step: n,
        version,
        completed: counts.completed,
        failed: counts.requested - counts.completed,
        mean_reward: metrics['mean_total_reward'] ?? null,
        metrics,
        groups,
      });
    }
    return [...known.values()].sort((a, b) => a.step - b.step);
  };
}
