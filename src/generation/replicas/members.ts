import type { PolicyRecord } from '../../model/policy/record.js';
import type { GenerationService } from '../generation-service.js';
import type { WatchedReplica } from './watched-replica.js';

export interface Member {
  watched: WatchedReplica;
  load: number;
}

/** The replicas that this process knows: those of temporal.yaml, and those that the record says have joined. */
export interface Members {
  all: () => readonly Member[];
  /** Connects to those that have joined. Cuts off those that have left: what they sample goes on elsewhere. */
  follow: (record: PolicyRecord | null) => void;
  close: () => Promise<void>;
}

export function createMembers(
  services: readonly GenerationService[],
  {
    connect,
    memberOf,
    joined,
  }: {
    connect: (replica: string) => GenerationService | null;
    memberOf: (service: GenerationService) => Member;
    /** There is more room. */
    joined: () => void;
  },
): Members {
  const given = services.map(memberOf);
  const others = new Map<string, Member>();
  const isGiven = new Set(services.map(({ replica }) => replica));
  const epochs = new Map<string, number>();
  let all: readonly Member[] = given;
  let known = -1;

  const close = async ({ watched }: Member): Promise<void> => {
    watched.close();
    await watched.service.close();
  };
  const join = (replica: string): boolean => {
    if (isGiven.has(replica) || others.has(replica)) return false;
    const service = connect(replica);
    if (service !== null) others.set(replica, memberOf(service));
    return service !== null;
  };
  const forget = (replicas: PolicyRecord['replicas']): void => {
    for (const { watched } of all) {
      const { replica } = watched.service;
      const { epoch } = replicas[replica] ?? { epoch: -1 };
      if (epochs.has(replica) && epochs.get(replica) !== epoch) watched.forget();
      epochs.set(replica, epoch);
    }
  };
  return {
    all: () => all,
    follow: (record) => {
      if (record === null || record.epoch === known) return;
      known = record.epoch;
      const gone = [...others].filter(([replica]) => record.replicas[replica] === undefined);
      for (const [replica, member] of gone) {
        others.delete(replica);
        epochs.delete(replica);
        // What is in flight there fails, and is continued at another one.
        close(member).catch(() => undefined);
      }
      const hasJoined = Object.keys(record.replicas).filter(join).length > 0;
      all = [...given, ...others.values()];
      forget(record.replicas);
      if (hasJoined) joined();
    },
    close: async () => {
      await Promise.all([...given, ...others.values()].map(close));
    },
  };
}
