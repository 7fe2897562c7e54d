import { lagMetrics, overtakenNote } from '../../model/stream/step-row.js';
import { Fault } from '../../model/faults.js';
import type { Metrics } from '../../model/results/metrics.js';
import type { Attempt } from '../attempt.js';
import { closePart, metricsOf, putResult, resultOf, summariesOf } from '../close/closing.js';
import { environmentMetrics } from '../close/environment-metrics.js';
import type { Replacements } from '../close/fold-rows.js';
import type { StepFact, StepResult, StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { requestOf, streamOf } from '../request-of.js';
import type { StreamFacts } from './stream-facts.js';
import { streamFacts } from './stream-facts.js';

/**
 * The rows of a step, folded from its groups' journals like a batch's. Later requests get the existing ones: the
 * metrics are written last, and a step that has them is never written again.
 */
export const createCloseStep =
  (dependencies: Dependencies): StreamActivities['closeStep'] =>
  (place) =>
    dependencies.attempt((attempt) => closeStep(place, { ...dependencies, attempt }));

async function closeStep(
  { stream_id, step }: { stream_id: string; step: number },
  { store, environment, endOf, attempt }: Omit<Dependencies, 'attempt'> & { attempt: Attempt },
): Promise<StepResult> {
  const facts = streamFacts(stream_id, store.facts);
  const outputs = store.stepOutputs({ stream_id, step });
  const existing = await outputs.readMetrics();
  if (existing !== null) return existing as StepResult;
  const fact = await keptStep({ stream_id, step }, facts);
  const { version, groups, final } = fact;
  const request = await requestOf(stream_id, store);
  const { max_lag, versions_per_step, when_stale } = streamOf(request, stream_id);
  const delivered = { step, version, max_lag, masks: when_stale === 'mask' };
  const closing = {
    input: { batch_id: stream_id, stopped: true },
    request,
    replacements: await replacementsOf(groups, { facts, num_repeats: request.num_repeats }),
    store,
    endOf,
    delivered: { ...delivered, born: await bornOf(groups, facts) },
    outputs,
    attempt,
  };
  // By their places in the step, because its groups are not consecutive.
  const part = { first: 0, last: groups.length - 1 };
  await closePart(part, { ...closing, rows: groups });
  const summaries = await summariesOf([part], outputs);
  const before = await versionBefore(step, facts);
  const note = overtakenNote(summaries, { ...delivered, versions_per_step, before });
  const result = {
    ...resultOf(summaries, closing),
    metrics: {
      ...metricsOf(summaries, request),
      ...lagMetrics(summaries, { version, max_lag }),
      ...streamMetrics(fact),
      ...(await environmentMetrics({ summaries, outputs, attempt, environment })),
    },
    step,
    version,
    final,
    ...(note !== null && { notes: [note] }),
  };
  // Journals of a step that was forgotten meanwhile are gone: what was written is not the step.
  await keptStep({ stream_id, step }, facts);
  await putResult(result, { summaries, outputs });
  if (note !== null) attempt.warn(`${stream_id}: ${note}`);
  return result;
}

/** What was put and is not forgotten. */
async function keptStep(
  { stream_id, step }: { stream_id: string; step: number },
  { steps, forgotten }: StreamFacts,
): Promise<StepFact> {
  const through = (await forgotten.last(-1))?.value.through ?? -1;
  if (step <= through) {
    const message = `step ${step} of ${stream_id} was forgotten; those from ${through + 1} on are kept (keep_steps of the request says how many, forget deletes more)`;
    throw new Fault({ type: 'StepOutOfOrder', message });
  }
  const fact = await steps.find(step);
  if (fact !== null) return fact;
  const message = `the store has no step ${step} of ${stream_id}`;
  throw new Fault({ type: 'StoreFault', message });
}

/** Every group records its number of members, so the journals of all groups need not be listed. */
async function replacementsOf(
  groups: readonly number[],
  { facts, num_repeats }: { facts: StreamFacts; num_repeats: number },
): Promise<Replacements> {
  const found = new Map<number, number[]>();
  for (const group of groups) {
    const { members = num_repeats } = (await facts.ended.find(group)) ?? {};
    const more = Array.from({ length: members - num_repeats }, (_, i) => num_repeats + i);
    if (more.length > 0) found.set(group, more);
  }
  return found;
}

async function bornOf(
  groups: readonly number[],
  { admitted }: StreamFacts,
): Promise<Map<number, number>> {
  const found = new Map<number, number>();
  for (const group of groups) {
    const born = (await admitted.find(group))?.born ?? null;
    if (born !== null) found.set(group, born);
  }
  return found;
}

const versionBefore = async (step: number, { steps }: StreamFacts): Promise<number | null> =>
  step === 0 ? null : ((await steps.find(step - 1))?.version ?? null);

const streamMetrics = ({ counts }: StepFact): Metrics =>
  Object.fromEntries(
    Object.entries({ untrained: 0, ...counts }).map(([name, count]) => [`stream/${name}`, count]),
  );
