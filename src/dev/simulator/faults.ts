import { isProbe } from './probe.js';
import { createRandom } from './random.js';
import type { FaultSpec } from './settings.js';

/** An injected fault as `/simulator/faults` shows it. */
export interface InjectedFault {
  id: string;
  spec: FaultSpec;
  hits: number;
  /** false: it has hit as often as it should. */
  active: boolean;
}

export interface FaultTarget {
  path: string;
  session_id: string | null;
}

export interface Faults {
  add(spec: FaultSpec): InjectedFault;
  list(): InjectedFault[];
  /** All of them without an id. Returns how many there were. */
  clear(id?: string): number;
  /** What hits this request: the oldest active fault that wants it. Counts as a hit. */
  hit(target: FaultTarget): FaultSpec | null;
}

export function createFaults(initial: readonly FaultSpec[]): Faults {
  const faults = new Map<string, InjectedFault & { wants(target: FaultTarget): boolean }>();
  let added = 0;
  const add = (spec: FaultSpec): InjectedFault => {
    added += 1;
    const fault = { id: String(added), spec, hits: 0, active: true, wants: createFilter(spec) };
    faults.set(fault.id, fault);
    return fault;
  };
  for (const spec of initial) add(spec);
  return {
    add: (spec) => shown(add(spec)),
    list: () => Array.from(faults.values(), shown),
    clear(id) {
      if (id !== undefined) return Number(faults.delete(id));
      const { size } = faults;
      faults.clear();
      return size;
    },
    hit(target) {
      for (const fault of faults.values()) {
        if (!fault.active || !fault.wants(target)) continue;
        fault.hits += 1;
        fault.active = fault.hits < timesOf(fault.spec);
        return fault.spec;
      }
      return null;
    },
  };
}

function shown({ id, spec, hits, active }: InjectedFault): InjectedFault {
  return { id, spec, hits, active };
}

function timesOf({ times, probability }: FaultSpec): number {
  if (times !== undefined) return times ?? Infinity;
  return probability === null ? 1 : Infinity;
}

const isIn = (part: string, session: string | null): boolean => session?.includes(part) ?? false;

function createFilter(spec: FaultSpec): (target: FaultTarget) => boolean {
  const { match, probability } = spec;
  const path = 'path' in spec ? spec.path : '/v1/completions';
  const random = createRandom(spec.seed);
  return (target) =>
    (path === null || path === target.path) &&
    (match === null ? !isProbe(target.session_id) : isIn(match, target.session_id)) &&
    (probability === null || random() < probability);
}
