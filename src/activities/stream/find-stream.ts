import type { Failures } from '../../model/results/answers.js';
import { sumOf } from '../../model/workflow-safe/failures.js';
import type { OpenGroup } from '../../model/workflow-safe/stream/state.js';
import { countedOut, pacingFrom } from '../../model/workflow-safe/stream/state.js';
import type { GroupEnd, OutGroup, StreamState } from '../contract/stream.js';
import type { StreamFacts } from './stream-facts.js';

/** The state of a stream, from its facts alone: its last step, and everything since. */
export async function findState(
  facts: StreamFacts,
  { num_repeats }: { num_repeats: number },
): Promise<StreamState> {
  const last = (await facts.steps.last(-1))?.value ?? null;
  const kept_from = ((await facts.forgotten.last(-1))?.value.through ?? -1) + 1;
  const version = last?.version ?? null;
  const before = last?.admitted ?? 0;
  const admitted = ((await facts.admitted.last(before - 1))?.n ?? before - 1) + 1;
  const candidates = [...(last?.open ?? []), ...range(before, admitted)];
  const groups: OpenGroup[] = [];
  const out: OutGroup[] = [];
  const failures: (Failures | undefined)[] = [];
  for (const group of candidates) {
    const end = await facts.ended.find(group);
    const found = await stateOf(group, { facts, end, num_repeats });
    if ('as' in found) out.push(found);
    else groups.push(found);
    failures.push(end?.failures);
  }
  const totalsBefore = last?.totals ?? { filtered: 0, dropped: 0, failed: 0, delivered: 0 };
  const totals = out.reduce((counts, { as }) => countedOut(counts, as), totalsBefore);
  return {
    pacing: pacingFrom({
      next_step: (last?.step ?? -1) + 1,
      last_version: version,
      served: version ?? 0,
      admitted,
      groups,
      out: totals,
      failures: sumOf(failures),
    }),
    is_versioned: version !== null || groups.some(({ born }) => born !== null),
    is_published: false,
    kept_from,
    out,
    admitted_before: before,
  };
}

async function stateOf(
  group: number,
  { facts, end, num_repeats }: { facts: StreamFacts; end: GroupEnd | null; num_repeats: number },
): Promise<OpenGroup | OutGroup> {
  if ((await facts.dropped.find(group)) !== null) return { group, as: 'dropped' };
  if (end !== null && end.outcome !== 'complete') return { group, as: end.outcome };
  const born = (await facts.admitted.find(group))?.born ?? null;
  return end !== null
    ? { group, born, state: 'complete', in_flight: 0 }
    : { group, born, state: 'running', in_flight: num_repeats };
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => from + i);
