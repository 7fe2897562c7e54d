/**
 * What a worker process may hold at once, from `worker.memory`: everything that grows with load has a share of what is
 * left of it beside the process itself. Costs are resident bytes, measured under load (ARCHITECTURE.md).
 */
export interface MemoryPlan {
  /** Workflows kept between their tasks; one more is replayed from its history. */
  cached_workflows: number;
  /** Bytes that kept folds of journals take; others are read again. */
  cached_fold_bytes: number;
  /** Bytes that the folds of turns in progress take; those of long contexts wait until they fit. */
  played_fold_bytes: number;
  /** Bytes of environments' and agents' large answers that are held at once; one that is larger is held alone. */
  answer_bytes: number;
  /** Of engines' large answers likewise: tokens of long prompts. */
  reply_bytes: number;
  /** Bytes of batch.json files whose requests are kept. */
  request_bytes: number;
  /** Of a batch's samples while it is planned. */
  sample_bytes: number;
  /** Activities at once: turns that generate, steps of environments behind a service, and all others. */
  generations: number;
  steps: number;
  others: number;
}

const KIB = 1024;
const MIB = KIB * KIB;

/** Node, the SDK, the workflow bundle and compiled code, in a worker that has worked and holds nothing. */
const PROCESS_BYTES = 256 * MIB;

/** Of what is left beside that. */
const SHARES = {
  workflows: 0.4,
  journals: 0.2,
  activities: 0.3,
  answers: 0.05,
  replies: 0.02,
  requests: 0.03,
} as const;

/**
 * The heap grows to twice what lives in it before it is collected: `GARBAGE_PERCENT`, which Node's default would make
 * three times that.
 */
export const GARBAGE_PERCENT = 100;
const WITH_GARBAGE = 1 + GARBAGE_PERCENT / 100;

/** A rollout that waits for its turn: in the workflow thread, in the SDK's core and in the main thread. */
const WORKFLOW_BYTES = 256 * KIB;
/** An activity: a turn's fold, the prompt as JSON, the stream, of some 4,000 tokens. Longer ones are fewer at once. */
const ACTIVITY_BYTES = 256 * KIB;
/** An answer beside its bytes on the wire: text, JSON taken apart, the journal's line. */
const ANSWER_WEIGHT = 4;
/** A request beside its file. */
const REQUEST_WEIGHT = 4;

/** Planning is rare and short: its text is beside the shares, and no more than this of all. */
const SHARE_OF_SAMPLES = 0.5;

/** Few enough that a worker with hardly any memory works, slowly. */
const FEWEST = { workflows: 16, activities: 8 } as const;
/** Planning, starting and finishing are short, steps wait for others: more at once would gain nothing. */
export const MOST_AT_ONCE = { steps: 256, others: 64 } as const;
/** The eighth part of the activities. */
const SHARE_OF_OTHERS = 1 / 8;

export function planMemory({
  memory_bytes,
  max_generations,
  queues,
}: {
  memory_bytes: number;
  max_generations: number;
  /** That this process serves and that share the room for turns: generation, environments behind services. */
  queues: number;
}): MemoryPlan {
  const left = Math.max(0, memory_bytes - PROCESS_BYTES);
  const fitting = (share: number, bytes: number): number => Math.floor((left * share) / bytes);
  const activities = fitting(SHARES.activities, ACTIVITY_BYTES);
  const others = Math.min(MOST_AT_ONCE.others, Math.floor(activities * SHARE_OF_OTHERS));
  const turns = Math.floor((activities - others) / Math.max(1, queues));
  return {
    cached_workflows: Math.max(FEWEST.workflows, fitting(SHARES.workflows, WORKFLOW_BYTES)),
    cached_fold_bytes: fitting(SHARES.journals, WITH_GARBAGE),
    played_fold_bytes: fitting(SHARES.activities, WITH_GARBAGE),
    answer_bytes: fitting(SHARES.answers, ANSWER_WEIGHT * WITH_GARBAGE),
    reply_bytes: fitting(SHARES.replies, ANSWER_WEIGHT * WITH_GARBAGE),
    request_bytes: fitting(SHARES.requests, REQUEST_WEIGHT * WITH_GARBAGE),
    sample_bytes: Math.floor(memory_bytes * SHARE_OF_SAMPLES),
    generations: Math.min(max_generations, Math.max(FEWEST.activities, turns)),
    steps: Math.min(MOST_AT_ONCE.steps, Math.max(FEWEST.activities, turns)),
    others: Math.max(FEWEST.activities, others),
  };
}
