import { randomUUID } from 'node:crypto';
import type { Change } from '../../model/policy/record.js';
import { PolicyRecord } from '../../model/policy/record.js';
import { shared } from '../../platform/waits/shared.js';
import type { Facts } from '../../trajectories/trajectory-store.js';
import { factsOf } from '../facts.js';

export type PolicyRecords = ReturnType<typeof createPolicyRecords>;

/** Records behind the current one. A stream that survives an update reads those of its replica's changes. */
const KEPT = 1000;

/** The record of one service's policy. Methods throw `StoreFault`. `kept`: how many earlier records stay. */
export function createPolicyRecords(
  service: string,
  { facts, kept = KEPT }: { facts: Facts; kept?: number },
) {
  const records = factsOf(['_policy', encoded(service)], {
    schema: PolicyRecord,
    facts,
    name: `record of policy ${service}`,
  });
  const forgetUpTo = async (epoch: number): Promise<void> => {
    await records.forget(await records.upTo(epoch));
  };
  let known: PolicyRecord | null = null;
  const latest = shared(async () => {
    known = (await records.last(known?.epoch ?? -1))?.value ?? known;
    return known;
  });
  return {
    latest,
    /** As it was read last in this process; null: it was not, or there is none. */
    known: () => known,
    at: records.find,
    /** Applies a change to the current record, and again if another writer was first. Returns the record afterwards. */
    change: async (decide: Change): Promise<PolicyRecord | null> => {
      for (;;) {
        const before = await latest();
        const decided = decide(before);
        if (decided === null) return before;
        const epoch = (before?.epoch ?? -1) + 1;
        const record: PolicyRecord = { ...decided, epoch, writer: randomUUID().slice(0, 8) };
        // The loser reads again: the next number exists by then.
        const { writer } = await records.put(epoch, record);
        if (writer !== record.writer) continue;
        const newest = (await records.last(-1))?.n ?? epoch;
        if (newest - epoch <= kept) {
          // If this fails, the next change forgets them.
          await forgetUpTo(epoch - kept - 1).catch(() => undefined);
          return record;
        }
        // Its number was free only because it is forgotten: this writer was held up for that long.
        await records.forget([epoch]);
      }
    },
  };
}

/** A service may have any name, but a place in the store needs a plain one, and no two services share one. */
const encoded = (service: string): string =>
  service.replace(
    /[^A-Za-z0-9_-]/g,
    (character) => `:${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
