import { Fault, isUnavailable } from '../../model/faults.js';
import { NO_ENGINE } from '../../model/workflow-safe/policy.js';
import type { Clock } from '../../platform/waits/clock.js';
import { SYSTEM_CLOCK } from '../../platform/waits/clock.js';
import type {
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
import type { WatchOptions } from './watched-replica.js';
import { watchReplica, failedAtIt } from './watched-replica.js';

export interface ReplicasOptions {
  /** How many generations one of so many replicas runs for this process. Further ones wait in this process. */
  max_concurrent: number | ((replicas: number) => number);
  clock?: Clock;
  /** In [0, 1). */
  random?: () => number;
  probe?: WatchOptions['probe'];
  /** The policy record of the service. Once there is one, only `current` replicas get generations. */
  policy?: PolicyReading;
  /** Connects to a replica that has joined, or joins again; null: temporal.yaml neither names nor allows it. */
  connect?: (replica: string) => GenerationService | null;
  report?: (change: { replica: string; set_aside: boolean; why: string }) => void;
}

const NOTHING_PUBLISHED: PolicyReading = {
  latest: () => Promise.resolve(null),
  at: () => Promise.resolve(null),
};

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
    return { ...watchReplica(service, { clock, random, probe, changed }), load: 0 };
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
        const { service, pauseOver, logprobsMode, watch } = member;
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

type Choice = ReturnType<typeof createChoice>;

function createChoice({ all, gate }: { all: () => readonly Member[]; gate: Gate }) {
  const admitted = (): Member[] => all().filter(({ service }) => gate.admits(service.replica));
  const serving = (): Member[] => all().filter(({ service }) => gate.serves(service.replica));
  return {
    admitted,
    serving,
    withRoom: (session_id: string, limit: number): Member | null =>
      chooseReplica(serving(), { session_id, limit }),
    another: (than: Member, session_id: string): Member | null =>
      chooseReplica(
        admitted().filter((one) => one !== than && one.health().aside === null),
        { session_id, limit: Infinity },
      ),
    /** Small requests beside generation do not depend on the weights. */
    any: async (session_id: string): Promise<Member> => {
      const how = { session_id, limit: Infinity };
      const known = chooseReplica(admitted(), how);
      if (known !== null) return known;
      await gate.refresh();
      const member = chooseReplica(admitted(), how);
      if (member !== null) return member;
      throw new Fault({ type: 'GenerationUnavailable', message: NO_ENGINE });
    },
  };
}

const hasHealthyNeighbour = (member: Member, members: readonly Member[]): boolean =>
  members.some((other) => other !== member && other.health().aside === null);

/** A wait that one replica asked for does not matter if another one can be asked. */
function withoutWait(error: unknown): unknown {
  if (!isUnavailable(error) || error.retryAfterMs === null) return error;
  const { type, message, at } = error;
  return new Fault({ type, message, cause: error, ...(at !== null && { at }) });
}

function questionsTo({
  refresh,
  fenceOf,
  admitted,
  serving,
}: Pick<Gate, 'refresh' | 'fenceOf'> & Pick<Choice, 'admitted' | 'serving'>): Pick<
  Replicas,
  'describe' | 'askEach' | 'askServing'
> {
  const there = async (): Promise<readonly Member[]> => {
    await refresh();
    const members = admitted();
    if (members.length > 0) return members;
    throw new Fault({ type: 'GenerationUnavailable', message: NO_ENGINE });
  };
  const asking =
    <T>(question: Question<T>, signal: AbortSignal) =>
    async ({ service, watch, logprobsMode }: Member): Promise<{ replica: string; answer: T }> => {
      const { replica } = service;
      const run = () => question(service, { logprobsMode, fence: fenceOf(replica) });
      return { replica, answer: await watch({ signal, is_generation: false }, run) };
    };
  return {
    describe: async (signal) =>
      askAll(await there(), async ({ service: { replica }, describe }) => ({
        replica,
        ...(await describe(signal)),
      })),
    askEach: async (question, signal) => askAll(await there(), asking(question, signal)),
    askServing: async (question, signal) => {
      await refresh();
      return await askAll(serving(), asking(question, signal));
    },
  };
}

/** The answers of available replicas. An unavailable one is set aside; the service is unavailable only if all are. */
async function askAll<T>(
  members: readonly Member[],
  ask: (replica: Member) => Promise<T>,
): Promise<T[]> {
  const asked = await Promise.allSettled(members.map(ask));
  const answers = asked.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  const problems = asked.flatMap((one) => (one.status === 'rejected' ? [one.reason as Error] : []));
  const [wrong] = problems.filter((problem) => !isUnavailable(problem));
  if (wrong !== undefined) throw wrong;
  const [away] = problems;
  if (answers.length === 0 && away !== undefined) throw away;
  return answers;
}

interface Asking<T> {
  ask: (member: Member) => Promise<T>;
  /** null: there is no other; the first one is asked again. */
  another: (than: Member) => Member | null;
  signal: AbortSignal;
}

/** A small request that another program wrote is at fault itself if two replicas answer 500: neither is set aside. */
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
      if (second !== null) first.blame(error);
      return answer;
    } catch (again) {
      if (!failedAtIt(again)) throw again;
      // An unhealthy replica proves nothing about the request.
      await (second ?? first).describe(signal);
      const who =
        second === null ? 'it gives this answer twice' : `${first.service.replica} gives it, too`;
      const message = `${again.message}; ${who}, and is healthy`;
      throw again.with({ type: 'GenerationRejected', message, retryable: false });
    }
  }
}
