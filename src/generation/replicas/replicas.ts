import { Fault } from '../../model/faults.js';
import type { Clock } from '../../platform/waits/clock.js';
import { SYSTEM_CLOCK } from '../../platform/waits/clock.js';
import type { GenerationService, PolicyReading, Replicas } from '../generation-service.js';
import { NOBODY } from '../generation-service.js';
import { createGate } from './gate.js';
import { chooseReplica } from './replica-choice.js';
import { probeUnlessPaused } from '../logprobs-probe.js';
import { createSharedLine } from './shares.js';
import type { WatchedReplica, WatchOptions } from './watched-replica.js';
import { isUnavailable, watchReplica } from './watched-replica.js';

export interface ReplicasOptions {
  /** How many generations one replica runs for this process. Further ones wait in this process. */
  max_concurrent: number;
  clock?: Clock;
  /** In [0, 1). */
  random?: () => number;
  /** Finds the mode of a replica's logprobs. */
  probe?: WatchOptions['probe'];
  /** The policy record of the service. Once there is one, only `current` replicas get generations. */
  policy?: PolicyReading;
  /** A replica was set aside, or is back. */
  report?: (change: { replica: string; set_aside: boolean; why: string }) => void;
}

const NOTHING_PUBLISHED: PolicyReading = {
  latest: () => Promise.resolve(null),
  at: () => Promise.resolve(null),
};

interface Member {
  watched: WatchedReplica;
  load: number;
}

/** The replicas of a service: where and when each request is sent. */
export function createReplicas(
  services: readonly GenerationService[],
  options: ReplicasOptions,
): Replicas & { close: () => Promise<void> } {
  const { max_concurrent, clock = SYSTEM_CLOCK, random = Math.random, report } = options;
  const { probe = probeUnlessPaused, policy = NOTHING_PUBLISHED } = options;
  const line = createSharedLine((session_id) => {
    const member = choose(session_id, max_concurrent);
    if (member === null) gate.watch();
    else member.load += 1;
    return member;
  });
  const serve = (): void => {
    line.serve();
  };
  const memberOf = (service: GenerationService): Member => {
    const changed: WatchOptions['changed'] = ({ aside }, why) => {
      report?.({ replica: service.replica, set_aside: aside !== null, why });
      // A replica that is back has room. When the last healthy one is lost, the others may be asked again.
      serve();
    };
    return { watched: watchReplica(service, { clock, random, probe, changed }), load: 0 };
  };
  const members = services.map(memberOf);
  const gate = createGate({ policy, clock, serve, isAwaited: () => line.length() > 0 });
  // Small requests beside generation do not depend on the weights.
  const chooseAny = (session_id: string): Member | null =>
    chooseReplica(members.map(standingOf), { session_id, limit: Infinity })?.member ?? null;

  function choose(session_id: string, limit: number): Member | null {
    const standings = members.filter(({ watched }) => gate.serves(watched.service.replica));
    return chooseReplica(standings.map(standingOf), { session_id, limit })?.member ?? null;
  }

  return {
    request: async (request, run) => {
      const { session_id, signal, is_generation, sharer = NOBODY } = request;
      signal.throwIfAborted();
      const asked_at = clock.now();
      const member = is_generation
        ? await gate.pass(() => line.join({ session_id, sharer }, signal), request)
        : chooseAny(session_id);
      if (member === null) throw new Error('expected a service with a replica, got one without');
      const { service, pauseOver, logprobsMode, watch } = member.watched;
      const fence = gate.fenceOf(service.replica);
      const lease = { waited_s: (clock.now() - asked_at) / 1000, fence, policy, pauseOver, logprobsMode }; // prettier-ignore
      try {
        return await watch(request, () => run(service, lease));
      } catch (error) {
        throw hasHealthyNeighbour(member, members) ? withoutWait(error) : error;
      } finally {
        if (is_generation) {
          member.load -= 1;
          line.givesBack(sharer);
        }
      }
    },
    ...questionsTo(members),
    close: async () => {
      for (const { watched } of members) watched.close();
      await Promise.all(services.map((service) => service.close()));
    },
  };
}

const hasHealthyNeighbour = (member: Member, members: readonly Member[]): boolean =>
  members.some((other) => other !== member && other.watched.health().aside === null);

function standingOf(member: Member) {
  const { service, health } = member.watched;
  return {
    member,
    replica: service.replica,
    aside_until: health().aside?.until ?? null,
    load: member.load,
  };
}

/** A wait that one replica asked for does not matter if another one can be asked. */
function withoutWait(error: unknown): unknown {
  if (!isUnavailable(error) || error.retryAfterMs === null) return error;
  const { type, message, at } = error;
  return new Fault({ type, message, cause: error, ...(at !== null && { at }) });
}

function questionsTo(members: readonly Member[]): Pick<Replicas, 'describe' | 'askEach'> {
  return {
    describe: (signal) =>
      askAll(members, async ({ service, describe }) => ({
        replica: service.replica,
        ...(await describe(signal)),
      })),
    askEach: (question, signal) =>
      askAll(members, async ({ service, watch, logprobsMode }) => ({
        replica: service.replica,
        answer: await watch({ signal, is_generation: false }, () =>
          question(service, { logprobsMode }),
        ),
      })),
  };
}

/** The answers of available replicas. An unavailable one is set aside; the service is unavailable only if all are. */
async function askAll<T>(
  members: readonly Member[],
  ask: (replica: WatchedReplica) => Promise<T>,
): Promise<T[]> {
  const asked = await Promise.allSettled(members.map(({ watched }) => ask(watched)));
  const answers = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const problems = asked.flatMap((one) => (one.status === 'rejected' ? [one.reason as Error] : []));
  const [wrong] = problems.filter((problem) => !isUnavailable(problem));
  if (wrong !== undefined) throw wrong;
  const [away] = problems;
  if (answers.length === 0 && away !== undefined) throw away;
  return answers;
}
