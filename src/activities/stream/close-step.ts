import type { DeliveredGroup, StepFact, StoredStep } from '../../model/stream/facts.js';
import { lagMetrics, overtakenNote } from '../../model/stream/step-row.js';
import { Fault } from '../../model/faults.js';
import type { Metrics } from '../../model/results/metrics.js';
import { closePart, joinParts, putResult } from '../close/closing.js';
import type { Replacements } from '../close/fold-rows.js';
import type { StepResult } from '../contract/stream.js';
import type { StepOutputs } from '../../trajectories/trajectory-store.js';
import type { Body, Running } from '../dependencies.js';
import { requestOf, streamOf } from '../request-of.js';
import { forgetDecided, streamFacts } from './stream-facts.js';
import type { StreamFacts } from './stream-facts.js';

/**
 * The rows of a step, folded from its groups' journals like a batch's. Later requests get the existing ones: the
 * metrics are written last, and a step that has them is never written again.
 */
export const closeStep: Body<'closeStep'> = async ([place], running) => {
  const { store } = running;
  const facts = streamFacts(place.stream_id, store.facts);
  const outputs = store.stepOutputs(place);
  const existing = (await outputs.readMetrics()) as StepResult | null;
  const result = existing ?? (await writeStep(place, { ...running, facts, outputs }));
  // Also of a step that exists: the attempt that wrote it may have died before this.
  const fact = await facts.steps.find(place.step);
  if (fact !== null) await forgetDecided(fact, facts);
  return result;
};

interface StepPlace {
  stream_id: string;
  step: number;
}

async function writeStep(
  { stream_id, step }: StepPlace,
  { facts, ...running }: Running & { facts: StreamFacts; outputs: StepOutputs },
): Promise<StepResult> {
  const { store, attempt, outputs } = running;
  const fact = await keptStep({ stream_id, step }, facts);
  const { version, groups, final, delivered } = fact;
  const request = await requestOf(stream_id, store);
  const { max_lag, versions_per_step, when_stale } = streamOf(request, stream_id);
  const inStep = { step, version, max_lag, masks: when_stale === 'mask' };
  const closing = {
    ...running,
    input: { batch_id: stream_id, stopped: true },
    request,
    replacements: replacementsOf(delivered, request),
    delivered: {
      ...inStep,
      born: new Map(delivered.flatMap(({ group, born }) => (born === null ? [] : [[group, born]]))),
    },
  };
  // By their places in the step, because its groups are not consecutive.
  const part = { first: 0, last: groups.length - 1 };
  await closePart(part, { ...closing, rows: groups });
  const before = step === 0 ? null : ((await facts.steps.find(step - 1))?.version ?? null);
  const closed = await joinParts([part], {
    ...closing,
    besides: (summaries) => {
      const note = overtakenNote(summaries, { ...inStep, versions_per_step, before });
      if (note !== null) attempt.warn(`${stream_id}: ${note}`);
      return {
        metrics: { ...lagMetrics(summaries, { version, max_lag }), ...streamMetrics(fact) },
        notes: note === null ? [] : [note],
        ...{ step, version, final },
      };
    },
  });
  // Journals of a step that was forgotten meanwhile are gone: what was written is not the step.
  await keptStep({ stream_id, step }, facts);
  return await putResult(closed, outputs);
}

/** The step, if it was put and is not forgotten. */
async function keptStep(
  { stream_id, step }: StepPlace,
  { steps, forgotten }: StreamFacts,
): Promise<StoredStep> {
  const through = (await forgotten.last(-1))?.value.through ?? -1;
  if (step <= through) {
    const message = `step ${step} of ${stream_id} was forgotten; steps from ${through + 1} on are kept (keep_steps of the request; forget deletes more)`;
    throw new Fault({ type: 'StepOutOfOrder', message });
  }
  const fact = await steps.find(step);
  if (fact !== null) return fact;
  const message = `the store has no step ${step} of ${stream_id}`;
  throw new Fault({ type: 'StoreFault', message });
}

/** Every group records its number of members, so the journals of all groups need not be listed. */
const replacementsOf = (
  delivered: readonly DeliveredGroup[],
  { num_repeats }: { num_repeats: number },
): Replacements =>
  new Map(
    delivered.map(({ group, members }) => {
      const length = Math.max(0, (members ?? 0) - num_repeats);
      return [group, Array.from({ length }, (_, i) => num_repeats + i)];
    }),
  );

const streamMetrics = ({ counts }: StepFact): Metrics =>
  Object.fromEntries(
    Object.entries({ untrained: 0, ...counts }).map(([name, count]) => [`stream/${name}`, count]),
  );
