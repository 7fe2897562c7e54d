import type { PolicyRecord } from '../../model/policy/record.js';
import { hasLeft } from '../../model/policy/replicas.js';
import type { GenerationService } from '../generation-service.js';
import type { WatchedReplica } from './watched-replica.js';

export interface Member extends WatchedReplica {
  /** Generations that it runs for this process. */
  load: number;
}

/** The replicas that this process knows: those of temporal.yaml, and those that the record says have joined. */
export function createMembers(
  services: readonly GenerationService[],
  {
    connect,
    memberOf,
    joined,
  }: {
    connect: (replica: string) => GenerationService | null;
    memberOf: (service: GenerationService) => Member;
    joined: () => void;
  },
) {
  const members = new Map(services.map((service) => [service.replica, memberOf(service)]));
  const isGiven = new Set(members.keys());
  const epochs = new Map<string, number>();
  let all: readonly Member[] = [...members.values()];
  let known = -1;

  const close = async (member: Member): Promise<void> => {
    member.close();
    await member.service.close();
  };
  const join = (replica: string): boolean => {
    if (members.has(replica)) return false;
    const service = connect(replica);
    if (service !== null) members.set(replica, memberOf(service));
    return service !== null;
  };
  const forget = (replicas: PolicyRecord['replicas']): void => {
    for (const { service, forget: forgetMode } of all) {
      const { replica } = service;
      const { epoch } = replicas[replica] ?? { epoch: -1 };
      if (epochs.has(replica) && epochs.get(replica) !== epoch) forgetMode();
      epochs.set(replica, epoch);
    }
  };
  return {
    all: () => all,
    /**
     * Connects to replicas that have joined, and cuts off those that have left, whoever named them: their streams go on
     * elsewhere, even those of a paused replica that nobody will resume.
     */
    follow: (record: PolicyRecord | null): void => {
      if (record === null || record.epoch === known) return;
      known = record.epoch;
      const isGone = (replica: string): boolean => {
        const entry = record.replicas[replica];
        return entry === undefined ? !isGiven.has(replica) : hasLeft(entry);
      };
      for (const [replica, member] of [...members].filter(([url]) => isGone(url))) {
        members.delete(replica);
        epochs.delete(replica);
        // Its requests fail, and continue at another replica.
        close(member).catch(() => undefined);
      }
      const there = Object.keys(record.replicas).filter((replica) => !isGone(replica));
      const hasJoined = there.filter(join).length > 0;
      all = [...members.values()];
      forget(record.replicas);
      if (hasJoined) joined();
    },
    close: async () => {
      await Promise.all([...members.values()].map(close));
    },
  };
}
