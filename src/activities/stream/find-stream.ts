import type { OpenGroup, OutGroup, StepFact, StreamState } from '../contract/stream.js';
import type { StreamFacts } from './stream-facts.js';

/** What a stream has come to, from its facts alone: all that happened since its last step, and that step. */
export async function findState(facts: StreamFacts): Promise<StreamState> {
  const last = (await facts.steps.last(-1))?.value ?? null;
  const kept_from = ((await facts.forgotten.last(-1))?.value.through ?? -1) + 1;
  const before = last?.admitted ?? 0;
  const admitted = ((await facts.admitted.last(before - 1))?.n ?? before - 1) + 1;
  const candidates = [...(last?.open ?? []), ...range(before, admitted)];
  const groups: OpenGroup[] = [];
  const out: OutGroup[] = [];
  for (const group of candidates) {
    const found = await stateOf(group, facts);
    if ('as' in found) out.push(found);
    else groups.push(found);
  }
  return {
    step: last === null ? 0 : last.step + 1,
    kept_from,
    version: last?.version ?? null,
    first_version: last?.first_version ?? null,
    admitted,
    groups,
    out,
    admitted_before: before,
    totals: totalsOf(last),
  };
}

const totalsOf = (last: StepFact | null): StepFact['totals'] =>
  last?.totals ?? { filtered: 0, dropped: 0, failed: 0 };

async function stateOf(
  group: number,
  { admitted, ended, dropped }: StreamFacts,
): Promise<OpenGroup | OutGroup> {
  if ((await dropped.find(group)) !== null) return { group, as: 'dropped' };
  const { outcome = null } = (await ended.find(group)) ?? {};
  if (outcome === 'filtered' || outcome === 'failed') return { group, as: outcome };
  const { born = null } = (await admitted.find(group)) ?? {};
  return { group, born, state: outcome === 'complete' ? 'complete' : 'running' };
}

const range = (from: number, to: number): number[] =>
  Array.from({ length: to - from }, (_, i) => from + i);
