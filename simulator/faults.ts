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
  /** Without an id: all of them. Returns how many there were. */
  clear(id?: string): number;
  /** Resolves when this fault has been cleared. */
  cleared(spec: FaultSpec): Promise<void>;
  /** The oldest active fault that applies to this request. Counts as a hit. */
  hit(target: FaultTarget): FaultSpec | null;
}

export function createFaults(initial: readonly FaultSpec[]): Faults {
  const faults = new Map<string, InjectedFault & { wants(target: FaultTarget): boolean }>();
  const released = new Map<FaultSpec, (() => void)[]>();
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
      const gone = [...faults.values()].filter((fault) => id === undefined || fault.id === id);
      for (const fault of gone) {
        faults.delete(fault.id);
        released.get(fault.spec)?.forEach((release) => {
          release();
        });
      }
      return gone.length;
    },
    cleared: (spec) =>
      new Promise((resolve) => {
        if (![...faults.values()].some((fault) => fault.spec === spec)) resolve();
        else released.set(spec, [...(released.get(spec) ?? []), resolve]);
      }),
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

function pathOf(spec: FaultSpec): string | null {
  if ('path' in spec) return spec.path;
  if (spec.fault === 'hang') return '/update_weights';
  return spec.fault === 'load_half' ? '/collective_rpc' : '/v1/completions';
}

function createFilter(spec: FaultSpec): (target: FaultTarget) => boolean {
  const { match, probability } = spec;
  const path = pathOf(spec);
  const random = createRandom(spec.seed);
  return (target) =>
    (path === null || path === target.path) &&
    (match === null ? !isProbe(target.session_id) : isIn(match, target.session_id)) &&
    (probability === null || random() < probability);
}
