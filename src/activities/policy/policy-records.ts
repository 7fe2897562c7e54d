import { randomUUID } from 'node:crypto';
import { Fault } from '../../model/faults.js';
import type { PolicyReading } from '../../generation/generation-service.js';
import type { Change } from '../../model/policy/record.js';
import { PolicyRecord } from '../../model/policy/record.js';
import { problemsOf } from '../../model/problems.js';
import { shared } from '../../platform/waits/shared.js';
import type { Facts, Series } from '../../trajectories/trajectory-store.js';

/** The record of one service's policy. Methods throw `StoreFault`. */
export interface PolicyRecords extends PolicyReading {
  /** Applies a change to the current record, and again if another writer was first. Returns the record afterwards. */
  change: (decide: Change) => Promise<PolicyRecord | null>;
}

export function createPolicyRecords({
  facts,
  service,
}: {
  facts: Facts;
  service: string;
}): PolicyRecords {
  const series: Series = ['_policy', encoded(service)];
  let known: PolicyRecord | null = null;
  const latest = shared(async () => {
    const fact = await facts.last(series, known?.epoch ?? -1);
    if (fact !== null) known = parsed(fact.text, service);
    return known;
  });
  return {
    latest,
    at: async (epoch) => {
      const text = await facts.find(series, epoch);
      return text === null ? null : parsed(text, service);
    },
    change: async (decide) => {
      for (;;) {
        const before = await latest();
        const decided = decide(before);
        if (decided === null) return before;
        const n = (before?.epoch ?? -1) + 1;
        const record: PolicyRecord = { ...decided, epoch: n, writer: randomUUID().slice(0, 8) };
        // The loser reads again: the next number exists by then.
        if (await facts.put({ series, n, text: `${JSON.stringify(record)}\n` })) return record;
      }
    },
  };
}

function parsed(text: string, service: string): PolicyRecord {
  const value = JSON.parse(text) as unknown;
  const { data, error } = PolicyRecord.safeParse(value);
  if (data !== undefined) return data;
  const [problem] = problemsOf(error, value);
  const what = `${problem?.where ?? ''}: ${problem?.what ?? 'malformed'}`;
  throw new Fault({ type: 'StoreFault', message: `record of policy ${service}: ${what}` });
}

/** A service may have any name, but a place in the store needs a plain one, and no two services share one. */
const encoded = (service: string): string =>
  service.replace(
    /[^A-Za-z0-9_-]/g,
    (character) => `:${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
