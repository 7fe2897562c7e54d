import { Fault, faultWith } from '../../model/faults.js';
import { NO_ENGINE } from '../../model/workflow-safe/policy.js';
import type { Clock } from '../../platform/waits/clock.js';
import { SYSTEM_CLOCK } from '../../platform/waits/clock.js';
import type {
  Fence,
  GenerationService,
  PolicyReading,
  Question,
  Replicas,
} from '../generation-service.js';
import { NOBODY } from '../generation-service.js';
import type { Gate } from './gate.js';
import { createGate } from './gate.js';
import type { Member } from './members.js';
import { createMembers } from './members.js';
import { chooseReplica } from './replica-choice.js';
import { probeUnlessPaused } from '../logprobs-probe.js';
import { createSharedLine } from './shares.js';
import type { WatchedReplica, WatchOptions } from './watched-replica.js';
import { isUnavailable, watchReplica, failedAtIt } from './watched-replica.js';

export interface ReplicasOptions {
  /** How many generations one of so many replicas runs for this process. Further ones wait in this process. */
  max_concurrent: number | ((replicas: number) => number);
  clock?: Clock;
  /** In [0, 1). */
  random?: () => number;
  /** Finds the mode of a replica's logprobs. */
  probe?: WatchOptions['probe'];
  /** The policy record of the service. Once there is one, only `current` replicas get generations. */
  policy?: PolicyReading;
  /** Connects to a replica that has joined, or joins again; null: temporal.yaml neither names nor allows it. */
  connect?: (replica: string) => GenerationService | null;
  /** A replica was set aside, or is back. */
  report?: (change: { replica: string; set_aside: boolean; why: string }) => void;
}

const NOTHING_PUBLISHED: PolicyReading = {
  latest: () => Promise.resolve(null),
  at: () => Promise.resolve(null),
};

/** The replicas of a service: where and when each request is sent. */
export function createReplicas(
  services: readonly GenerationService[],
  options: ReplicasOptions,
): Replicas & { close: () => Promise<void> } {
  const { max_concurrent, clock = SYSTEM_CLOCK, random = Math.random, report } = options;
  const { probe = probeUnlessPaused, policy = NOTHING_PUBLISHED, connect = () => null } = options;
  const line = createSharedLine((session_id) => {
    const member = choice.withRoom(session_id, limitOf(max_concurrent, members.all().length));
    if (member === null) gate.watch();
    else member.load += 1;
    return member;
  });
  const serve = (): void => {
    line.serve();
  };
  const memberOf = (service: GenerationService): Member => {
    // A replica that is back has room. When the last healthy one is lost, the others may be asked again.
    const changed: WatchOptions['changed'] = ({ aside }, why) => {
      report?.({ replica: service.replica, set_aside: aside !== null, why });
      serve();
    };
    return { watched: watchReplica(service, { clock, random, probe, changed }), load: 0 };
  };
  const members = createMembers(services, { connect, memberOf, joined: serve });
  const gate = createGate({
    policy,
    clock,
    serve,
    isAwaited: () => line.length() > 0,
    read: members.follow,
    isEmpty: () => members.all().length === 0,
  });
  const choice = createChoice({ all: () => members.all(), gate });
  return {
    request: async (request, run) => {
      const { session_id, signal, is_generation, is_suspect = false, sharer = NOBODY } = request;
      signal.throwIfAborted();
      const asked_at = clock.now();
      const first = is_generation
        ? await gate.pass(() => line.join({ session_id, sharer }, signal), request)
        : await choice.any(session_id);
      const ask = async (member: Member) => {
        const { service, pauseOver, logprobsMode, watch } = member.watched;
        const fence = gate.fenceOf(service.replica);
        const waited_s = (clock.now() - asked_at) / 1000;
        const lease = { waited_s, fence, policy, pauseOver, logprobsMode };
        try {
          return await watch(request, () => run(service, lease));
        } catch (error) {
          throw hasHealthyNeighbour(member, members.all()) ? withoutWait(error) : error;
        }
      };
      try {
        if (!is_suspect) return await ask(first);
        const another = (than: Member): Member | null => choice.another(than, session_id);
        return await withSecondOpinion(first, { ask, another, signal });
      } finally {
        if (is_generation) {
          first.load -= 1;
          line.givesBack(sharer);
        }
      }
    },
    ...questionsTo({ ...gate, ...choice }),
    look: () => gate.refresh(),
    close: members.close,
  };
}

const limitOf = (max_concurrent: ReplicasOptions['max_concurrent'], replicas: number): number =>
  typeof max_concurrent === 'number' ? max_concurrent : max_concurrent(replicas);

/** Which replica a request goes to. */
function createChoice({ all, gate }: { all: () => readonly Member[]; gate: Gate }) {
  const admitted = (): Member[] =>
    all().filter(({ watched }) => gate.admits(watched.service.replica));
  const serving = (): Member[] =>
    all().filter(({ watched }) => gate.serves(watched.service.replica));
  const among = (ones: readonly Member[], how: { session_id: string; limit: number }) =>
    chooseReplica(ones.map(standingOf), how)?.member ?? null;
  return {
    admitted,
    serving,
    withRoom: (session_id: string, limit: number): Member | null =>
      among(serving(), { session_id, limit }),
    another: (than: Member, session_id: string): Member | null =>
      among(
        admitted().filter((one) => one !== than && one.watched.health().aside === null),
        { session_id, limit: Infinity },
      ),
    /** Small requests beside generation do not depend on the weights. */
    any: async (session_id: string): Promise<Member> => {
      const how = { session_id, limit: Infinity };
      const known = among(admitted(), how);
      if (known !== null) return known;
      await gate.refresh();
      const member = among(admitted(), how);
      if (member !== null) return member;
      throw new Fault({ type: 'GenerationUnavailable', message: NO_ENGINE });
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

interface AskedReplicas extends Pick<Gate, 'refresh' | 'fenceOf'> {
  admitted: () => readonly Member[];
  serving: () => readonly Member[];
}

function questionsTo({
  refresh,
  fenceOf,
  admitted,
  serving,
}: AskedReplicas): Pick<Replicas, 'describe' | 'askEach' | 'askServing'> {
  const there = async (): Promise<readonly Member[]> => {
    await refresh();
    const members = admitted();
    if (members.length > 0) return members;
    throw new Fault({ type: 'GenerationUnavailable', message: NO_ENGINE });
  };
  const ask =
    <T>(
      question: Parameters<typeof askAnswer<T>>[0]['question'],
      signal: AbortSignal,
    ): ((replica: WatchedReplica) => Promise<{ replica: string; answer: T }>) =>
    (watched) =>
      askAnswer({ watched, question, signal, fence: fenceOf(watched.service.replica) });
  return {
    describe: async (signal) =>
      askAll(await there(), async ({ service, describe }) => ({
        replica: service.replica,
        ...(await describe(signal)),
      })),
    askEach: async (question, signal) => askAll(await there(), ask(question, signal)),
    askServing: async (question, signal) => {
      await refresh();
      return await askAll(serving(), ask(question, signal));
    },
  };
}

const askAnswer = async <T>({
  watched: { service, watch, logprobsMode },
  question,
  signal,
  fence,
}: {
  watched: WatchedReplica;
  question: Question<T>;
  signal: AbortSignal;
  fence: Fence | null;
}): Promise<{ replica: string; answer: T }> => ({
  replica: service.replica,
  answer: await watch({ signal, is_generation: false }, () =>
    question(service, { logprobsMode, fence }),
  ),
});

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

/** A small request that another program wrote: one that two replicas answer with 500 is at fault itself, and neither is set aside. */

interface Asking<T> {
  ask: (member: Member) => Promise<T>;
  /** null: there is no other; the first one is asked again. */
  another: (than: Member) => Member | null;
  signal: AbortSignal;
}

async function withSecondOpinion<T>(
  first: Member,
  { ask, another, signal }: Asking<T>,
): Promise<T> {
  try {
    return await ask(first);
  } catch (error) {
    if (!failedAtIt(error)) throw error;
    const second = another(first);
    try {
      const answer = await ask(second ?? first);
      if (second !== null) first.watched.blame(error);
      return answer;
    } catch (again) {
      if (!failedAtIt(again)) throw again;
      // One that is not healthy says nothing about the request.
      await (second ?? first).watched.describe(signal);
      const who =
        second === null ? 'it answers so twice' : `so does ${first.watched.service.replica}`;
      const message = `${again.message}; ${who}, and is healthy`;
      throw faultWith(again, { type: 'GenerationRejected', message, retryable: false });
    }
  }
}
