import type { CallPart, RolloutDocument } from '../documents.js';

export interface Span {
  kind: 'queue' | 'generate' | 'step';
  from: number;
  to: number;
}

export interface Lane {
  number: number;
  spans: Span[];
}

interface Lanes {
  /** The rollout's first moment, in seconds since 1970. */
  zero: number;
  lanes: Lane[];
  /** From there to its last moment. */
  seconds: number;
}

/** When each call waited, generated and was stepped, in seconds since `zero`: an attempt begins before its rollout. */
export function lanesOf(rollout: RolloutDocument): Lanes {
  const begins = rollout.calls.map(({ began_at }) => began_at).filter((at) => at !== null);
  const { started_at, wall_s } = rollout.entry;
  const started = started_at ?? begins[0] ?? rollout.happenings[0]?.at ?? 0;
  const zero = rollout.happenings.reduce((first, { at }) => Math.min(first, at), started);
  const lanes = rollout.calls.map((call) => ({ number: call.number, spans: spansOf(call, zero) }));
  const ends = [
    ...lanes.flatMap(({ spans }) => spans.map(({ to }) => to)),
    ...rollout.happenings.map(({ at }) => at - zero),
    started + (wall_s ?? 0) - zero,
  ];
  return { zero, lanes, seconds: ends.reduce((a, b) => Math.max(a, b), 0) };
}

function spansOf(call: CallPart, zero: number): Span[] {
  const { began_at, queue_s, generate_s, observation } = call;
  if (began_at === null) return [];
  const begin = began_at - zero;
  const queued = begin + (queue_s ?? 0);
  const generated = queued + (generate_s ?? 0);
  const spans: Span[] = [
    { kind: 'queue', from: begin, to: queued },
    { kind: 'generate', from: queued, to: generated },
  ];
  if (observation !== null) {
    const end = Math.max(generated, observation.at - zero);
    spans.push({ kind: 'step', from: Math.max(generated, end - observation.step_s), to: end });
  }
  return spans.filter(({ from, to }) => to > from);
}

/** How far calls of a tree are indented: the first that continues a call stands below it, others a step right. */
export function depthsOf(calls: readonly CallPart[]): number[] {
  const depths = new Map<number, number>();
  const continued = new Set<number>();
  return calls.map(({ number, parent }) => {
    const of = parent === null ? 0 : (depths.get(parent) ?? 0);
    const depth = parent !== null && continued.has(parent) ? of + 1 : of;
    if (parent !== null) continued.add(parent);
    depths.set(number, depth);
    return depth;
  });
}
