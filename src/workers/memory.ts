import { PROCESS_FILES } from '../platform/process/open-files.js';
import { mostOpenJournals } from '../trajectories/files/open-journals.js';

export type MemoryPlan = ReturnType<typeof planMemory>;

const KIB = 1024;
const MIB = KIB * KIB;

/** Node, the SDK, the workflow bundle and compiled code, in a worker that has worked and holds nothing. */
const PROCESS_BYTES = 256 * MIB;

/** Percent of what is left beside that. */
const SHARES = {
  workflows: 0.4,
  journals: 0.2,
  activities: 0.3,
  answers: 0.05,
  replies: 0.02,
  requests: 0.03,
} as const;

/** The heap grows to twice its live size before it is collected. Node's default would be four times. */
export const GARBAGE_PERCENT = 100;
const WITH_GARBAGE = 1 + GARBAGE_PERCENT / 100;

/** A rollout that waits for its turn: in the workflow thread, in the SDK's core and in the main thread. */
const WORKFLOW_BYTES = 256 * KIB;
/** With some 4,000 tokens: its fold, the prompt as JSON, the stream; and connections to engine and environment. */
const TURN: Room = { bytes: 256 * KIB, files: 2 };
/** One whose rollout generates nothing: it waits for an engine's place, for weights or for its environment. */
const WAIT: Room = { bytes: 64 * KIB, files: 1 };

/** An answer, relative to its bytes on the wire: text, parsed JSON, the journal's line. */
const ANSWER_WEIGHT = 4;
const REQUEST_WEIGHT = 4;

/** Planning is rare and short, so its text is outside the shares. It takes at most this share of the whole. */
const SHARE_OF_SAMPLES = 0.5;

/** Few enough that a worker with hardly any memory works, slowly. */
const FEWEST = { workflows: 16, activities: 8 } as const;
/** Planning, starting and finishing are short, and steps wait for others, so more at once would gain nothing. */
export const MOST_AT_ONCE = { steps: 256, others: 64 } as const;
const SHARE_OF_OTHERS = 1 / 8;

/**
 * What a worker process may hold at once, from `worker.memory` and the limit of open files. Everything that grows with
 * load gets a share of what is left beside the process itself. Costs are resident bytes, measured under load.
 */
export function planMemory({
  memory_bytes,
  open_files = Infinity,
  max_generations,
  services = 1,
  queues,
}: {
  memory_bytes: number;
  /** How many the process may have, without those of interpreters. */
  open_files?: number;
  max_generations: number;
  services?: number;
  /** Queues of this process that share the room for turns: generation, environments behind services. */
  queues: number;
}) {
  const left = Math.max(0, memory_bytes - PROCESS_BYTES);
  const fitting = (share: number, bytes: number): number => Math.floor((left * share) / bytes);
  const room: Room = {
    bytes: left * SHARES.activities,
    files: Math.max(0, open_files - PROCESS_FILES) - mostOpenJournals(open_files),
  };
  const share = Math.min(MOST_AT_ONCE.others, Math.floor(fits(TURN, room) * SHARE_OF_OTHERS));
  const others = Math.max(FEWEST.activities, share);
  const beside = without(room, { many: others, each: TURN });
  const ofQueue = { bytes: beside.bytes / queues, files: beside.files / queues };
  const turns = Math.max(FEWEST.activities, fits(TURN, ofQueue));
  const generations = Math.min(max_generations, Math.ceil(turns / services));
  const generating = Math.min(turns, generations * services);
  const rest = without(ofQueue, { many: generating, each: TURN });
  const waiting = generating < max_generations * services ? 0 : fits(WAIT, rest);
  return {
    /** Workflows kept between their tasks. Any other is replayed from its history. */
    cached_workflows: Math.max(FEWEST.workflows, fitting(SHARES.workflows, WORKFLOW_BYTES)),
    /** Bytes of cached folds of journals; others are read again. */
    cached_fold_bytes: fitting(SHARES.journals, WITH_GARBAGE),
    /** Bytes of the folds of turns in progress; long contexts wait until they fit. */
    played_fold_bytes: fitting(SHARES.activities, WITH_GARBAGE),
    /** Bytes of environments' and agents' large answers held at once; a larger answer is held alone. */
    answer_bytes: fitting(SHARES.answers, ANSWER_WEIGHT * WITH_GARBAGE),
    /** Likewise for engines' large answers: tokens of long prompts. */
    reply_bytes: fitting(SHARES.replies, ANSWER_WEIGHT * WITH_GARBAGE),
    request_bytes: fitting(SHARES.requests, REQUEST_WEIGHT * WITH_GARBAGE),
    /** Size limit of a batch's samples while it is planned. */
    sample_bytes: Math.floor(memory_bytes * SHARE_OF_SAMPLES),
    /** Open generations of one generation service. */
    generations,
    /** Concurrent activities: rollouts that are played, steps on queues of environments, and all others. */
    plays: Math.max(FEWEST.activities, generating + waiting),
    steps: Math.min(MOST_AT_ONCE.steps, turns),
    others,
  };
}

interface Room {
  bytes: number;
  files: number;
}

const fits = (one: Room, { bytes, files }: Room): number =>
  Math.floor(Math.min(bytes / one.bytes, files / one.files));

const without = ({ bytes, files }: Room, { many, each }: { many: number; each: Room }): Room => ({
  bytes: Math.max(0, bytes - many * each.bytes),
  files: Math.max(0, files - many * each.files),
});
