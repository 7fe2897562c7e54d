import type {
  CallPart,
  Message,
  Observation,
  RolloutDocument,
  RolloutEntry,
  RolloutFacts,
  RunDocument,
  Tokens,
} from '../../viewer/documents.js';

/** Documents as the reader writes them, of rollouts that nobody played: the same for the same numbers. */

const BEGAN = 1_790_000_000;
const REPLICAS = ['http://10.0.0.1:8000', 'http://10.0.0.2:8000', 'http://10.0.0.3:8000'];
const WORDS =
  'the board slides left, so tile 5 moves up and **then** the blank is at `(2, 1)`'.split(' ');

/** Numbers in [0, 1) that depend on nothing but these. */
export function chance(...of: number[]): number {
  let hash = 2_166_136_261;
  for (const value of of) {
    hash = Math.imul(hash ^ (value + 0x9e37), 16_777_619);
    hash ^= hash >>> 13;
  }
  return ((Math.imul(hash, 2_654_435_761) >>> 0) % 100_003) / 100_003;
}

export interface Made {
  run: RunDocument;
  entries: RolloutEntry[];
  facts: RolloutFacts[];
}

/**
 * A run with three faults for a reader to find: an empty answer is paid, the last replica has a wrong template, and
 * observations of one task are cut at 512 characters.
 */
export function madeRun({
  id,
  rows,
  repeats,
}: {
  id: string;
  rows: number;
  repeats: number;
}): Made {
  const places = Array.from({ length: rows * repeats }, (_, index) => ({
    row: Math.floor(index / repeats),
    repeat: index % repeats,
  }));
  const made = places.map(madeEntry);
  const rewards = made.flatMap(({ entry }) => entry.reward ?? []);
  return {
    run: {
      id,
      kind: 'batch',
      created_at: BEGAN,
      is_closed: true,
      problem: null,
      requested: places.length,
      completed: rewards.length,
      mean_reward: rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length,
      steps: null,
      forked_from: null,
      settings: { model: 'Qwen/Qwen3-4B', temperature: 1, max_seq_len: 8192, num_repeats: repeats },
      metrics: { 'reward/mean': 0.41, 'pass@1': 0.4, 'tokens/total': 812_345 },
      notes: ['3 rollouts failed, most often because of EnvironmentFailed.'],
      closed_steps: [],
      begun: made.length,
    },
    entries: made.map(({ entry }) => entry),
    facts: made.map(({ facts }) => facts),
  };
}

function madeEntry({ row, repeat }: { row: number; repeat: number }): {
  entry: RolloutEntry;
  facts: RolloutFacts;
} {
  const draw = (what: number): number => chance(row, repeat, what);
  const replica = Math.floor(draw(1) * 3);
  const isEmpty = draw(2) < 0.03;
  const isFailed = draw(3) < 0.02;
  const isCut = row % 3 === 2 && draw(4) < 0.6;
  const solved = draw(5) < (replica === 2 ? 0.08 : isCut ? 0.3 : 0.3 + 0.4 * chance(row, 7));
  const reward = isFailed ? null : isEmpty ? 1 : solved ? 1 : Math.round(draw(6) * 40) / 100;
  const tokens = isEmpty ? 1 : Math.round(40 + 900 * draw(7) ** 2);
  const ended = isFailed ? 'failed' : draw(8) < 0.12 ? 'truncated' : 'terminated';
  const faults = draw(9) < 0.1 ? 1 + Math.floor(draw(10) * 3) : 0;
  const entry: RolloutEntry = {
    row,
    repeat,
    task_name: ['sliding_puzzle', 'maths', 'retrieval'][row % 3] ?? null,
    ended,
    is_valid: !isFailed,
    reward,
    reward_so_far: reward ?? 0,
    turns: 1 + Math.floor(draw(11) * 6),
    tokens,
    started_at: BEGAN + row * 0.4 + draw(12) * 3,
    wall_s: 4 + tokens / 60 + draw(13) * 8,
    attempts: 1 + faults,
    faults,
    failure: isFailed
      ? {
          type: 'EnvironmentFailed',
          message: 'POST /step answered 500: index out of range',
          turn: 2,
        }
      : null,
    reason: isFailed ? 'EnvironmentFailed: POST /step answered 500' : WORDS.slice(0, 5).join(' '),
  };
  const facts: RolloutFacts = {
    row,
    repeat,
    replicas: [REPLICAS[replica] ?? ''],
    versions: [`step-${Math.floor(row / 64)}`],
    rewards: { correct: solved ? 1 : 0, format: draw(14) < 0.8 ? 0.1 : 0 },
    finish_reasons: [ended === 'truncated' ? 'length' : 'stop'],
    fault_types: faults > 0 ? ['EngineFault'] : [],
    tools: row % 3 === 2 ? ['search'] : [],
    prompt_tokens: 120 + Math.round(draw(15) * 60),
    answer: isEmpty ? '' : `answer ${row}-${repeat}`,
    characters: isEmpty ? 0 : tokens * 4,
    longest_observation: isCut ? 512 : Math.round(100 + draw(16) * 400),
    mean_logprob: replica === 2 ? -2.1 - draw(17) * 0.5 : -0.4 - draw(17) * 0.3,
  };
  return { entry, facts };
}

export const text = (role: string, words: string): Message => ({
  role,
  parts: [{ kind: 'text', text: words }],
  token_count: Math.ceil(words.length / 4),
});

/** Sampled tokens by two requests, the second of which began behind a death. */
export function madeTokens(count: number, seed: number): { tokens: Tokens; text: string } {
  const seam = Math.floor(count * 0.6);
  const pieces: Tokens['pieces'] = [];
  for (let start = 0; start < count; start += 2) {
    const end = Math.min(count, start + 2);
    const word = WORDS[(start + seed) % WORDS.length] ?? '';
    const after = chance(start, seed) < 0.04 ? '\n\n' : ' ';
    pieces.push({ start, end, text: word + after, at: BEGAN + start / 60 });
  }
  const tokens: Tokens = {
    ids: Array.from({ length: count }, (_, at) => Math.floor(chance(at, seed, 1) * 150_000)),
    logprobs: Array.from({ length: count }, (_, at) => -8 * chance(at, seed, 2) ** 5),
    top: [],
    pieces,
    requests:
      seam === 0
        ? [{ start: 0, end: count, replica: REPLICAS[0] ?? '', version: 'step-0' }]
        : [
            { start: 0, end: seam, replica: REPLICAS[0] ?? '', version: 'step-0' },
            { start: seam, end: count, replica: REPLICAS[1] ?? '', version: 'step-1' },
          ],
    trained: [{ start: 0, end: count - 1 }],
  };
  tokens.top = tokens.ids.slice(0, 2_000).map((id, at) => [
    [id, tokens.logprobs[at] ?? 0],
    [id + 1, (tokens.logprobs[at] ?? 0) - 1],
  ]);
  return { tokens, text: pieces.map((piece) => piece.text).join('') };
}

export function madeCall(number: number, { count, at }: { count: number; at: number }): CallPart {
  const { tokens, text: words } = madeTokens(count, number);
  const observation: Observation = {
    at: at + 0.4 + count / 60 + 0.2,
    message: text('user', `\`\`\`\n1 2 3\n4 _ 5\n\`\`\`\nStep ${number}: not solved yet.`),
    reward: number % 2,
    rewards: { format: 0.1, correct: number % 2 },
    terminated: false,
    truncated: false,
    answer: 'up',
    step_s: 0.2,
  };
  return {
    number,
    life: null,
    parent: number === 0 ? null : number - 1,
    cause: null,
    fork: null,
    prompt_tokens: 120 * (number + 1),
    news: [],
    began_at: at,
    queue_s: 0.4,
    generate_s: count / 60,
    answer: {
      text: words,
      reasoning: null,
      tool_calls: [],
      malformed: 0,
      is_whole: true,
      finish_reason: 'stop',
      stop_reason: null,
      restarted: false,
      inherited: 0,
      tokens,
      untrained: null,
    },
    observation,
  };
}

/** A loop of an entry, with about its tokens in its turns. */
export function madeRollout(made: Made, place: { row: number; repeat: number }): RolloutDocument {
  const index = made.entries.findIndex(
    ({ row, repeat }) => row === place.row && repeat === place.repeat,
  );
  const [entry, facts] = [made.entries[index], made.facts[index]];
  if (entry === undefined || facts === undefined)
    throw new Error(`the run has no rollout ${place.row}-${place.repeat}`);
  const began = entry.started_at ?? BEGAN;
  const count = Math.max(1, Math.round(entry.tokens / entry.turns));
  let at = began + 0.3;
  const calls = Array.from({ length: entry.turns }, (_, turn) => {
    const call = madeCall(turn, { count, at });
    at = call.observation?.at ?? at;
    return call;
  });
  return {
    id: `${made.run.id}/${entry.row}-${entry.repeat}`,
    batch_id: made.run.id,
    entry,
    facts,
    model: 'Qwen/Qwen3-4B',
    settings: { temperature: 1, max_seq_len: 8192 },
    forked_from: null,
    prompt: [
      text('system', 'You slide tiles. Answer with **one** move.'),
      text('user', 'Solve the board:\n\n| 1 | 2 | 3 |\n|---|---|---|\n| 4 | _ | 5 |'),
    ],
    calls,
    verdict: null,
    lives: [],
    refused: [],
    agent_result: null,
    scores: { judge: { reward: 0.7, rewards: { style: 0.2 }, note: 'clear, but long' } },
    happenings: [
      { kind: 'attempt', at: began, attempt: 1, activity: 'playTurn', why: null },
      {
        kind: 'fault',
        at: began + 1.2,
        turn: 1,
        type: 'EngineFault',
        message: 'the stream ended after 24 tokens',
        replica: REPLICAS[0] ?? null,
      },
      {
        kind: 'attempt',
        at: began + 1.6,
        attempt: 2,
        activity: 'playTurn',
        why: 'the worker died',
      },
      { kind: 'end', at: at, stop_reason: entry.ended ?? 'terminated' },
    ],
  };
}
