import type { GenerationSettings } from '../generation-settings.js';
import type { ForkPoint } from '../fork.js';
import type { Entry, JournalLine, LineOf } from '../journal.js';
import type { JournalCall } from './calls.js';
import type { Sampled } from './open-answers.js';
import { isProgram, type Trajectory } from './trajectory.js';

/** All that counts of the rollout so far, as its journal is read. */
export interface Played {
  trajectory: Trajectory;
  /** Observations with their states, or an agent's lives, material, calls and answers. */
  lines: JournalLine[];
}

/** Gets each line after it was folded in. What the fold has not taken is not there. */
export function collectPlayed() {
  let start: LineOf<'start'> | null = null;
  const lines: JournalLine[] = [];
  return {
    lines,
    take: (line: JournalLine, trajectory: Trajectory): void => {
      if (trajectory.start !== start) lines.length = 0;
      ({ start } = trajectory);
      if (isTaken(line, trajectory)) lines.push(line);
    },
  };
}

function isTaken(line: JournalLine, trajectory: Trajectory): boolean {
  const { observations, lives, materials, calls } = trajectory;
  switch (line.kind) {
    case 'observation':
      return !isProgram(trajectory) && observations.at(-1) === line;
    case 'life':
      return lives.at(-1)?.line === line;
    case 'material':
      return materials.get(line.hash) === line;
    case 'call':
      return calls.at(-1)?.line === line;
    case 'answer':
      return calls[line.turn]?.answer === line;
    default:
      return false;
  }
}

/** How many turns, or an agent's calls, stay whole, and how many tokens of the one that goes on. */
interface Cut {
  turns: number;
  tokens: number;
}

/** `has`: in words, what there is of a rollout that is shorter than the part that is to stay. */
export type Shorter = { has: string };

/** Where a rollout is cut. A turn of which every token stays is whole, with what the environment has said. */
export function cutOf(trajectory: Trajectory, at: ForkPoint): Cut | Shorter {
  const { calls, observations } = trajectory;
  if ('turn' in at || isProgram(trajectory)) {
    const whole = isProgram(trajectory) ? wholeCalls(calls) : observations.length;
    if ('turn' in at && at.turn <= whole) return { turns: at.turn, tokens: 0 };
    return {
      has: isProgram(trajectory) ? `turn:0 to turn:${whole}, calls of an agent` : turnsText(whole),
    };
  }
  const lengths = calls.map(({ sampled }) => knownLength(sampled));
  let [turns, tokens] = [0, at.token];
  while (turns < observations.length && (lengths[turns] ?? 0) <= tokens) {
    tokens -= lengths[turns] ?? 0;
    turns += 1;
  }
  if (tokens <= (lengths[turns] ?? 0)) return { turns, tokens };
  const sampled = lengths.reduce((sum, length) => sum + length, 0);
  return { has: `${sampled} sampled tokens in ${turnsText(observations.length)}` };
}

const turnsText = (count: number): string => `${count} whole turn${count === 1 ? '' : 's'}`;

/** Up to the first that was never answered. */
function wholeCalls(calls: readonly JournalCall[]): number {
  const open = calls.findIndex(({ answer }) => answer === null);
  return open === -1 ? calls.length : open;
}

/** Tokens whose weights are known, or can be by nobody. */
const knownLength = ({ segments, token_ids }: Sampled): number =>
  segments.find(({ version_source }) => version_source === 'pending')?.start ?? token_ids.length;

/** The lines of what stays, in an order in which they fold. */
export function prefixLines(
  { trajectory: { calls }, lines }: Played,
  { turns, tokens, generation }: Cut & { generation: Kept },
): (Entry & { inherited: true })[] {
  const isWhole = ({ turn }: { turn: number }): boolean => turn < turns;
  const last = lines.findLastIndex((line) => isAnswer(line) && isWhole(line));
  const kept = lines.slice(0, last + 1).flatMap((line): JournalLine[] => {
    if (isAnswer(line)) return isWhole(line) ? [...saidIn(calls[line.turn]), line] : [];
    return line.kind !== 'call' || isWhole(line) ? [line] : [];
  });
  const open = calls[turns];
  const begun = open === undefined ? [] : chunksOf(open, tokens);
  return [...kept, ...begun].map((line) => inherited(line, generation));
}

type Kept = Pick<GenerationSettings, 'include_logprobs' | 'top_logprobs'>;

const isAnswer = (line: JournalLine): line is LineOf<'observation' | 'answer'> =>
  line.kind === 'observation' || line.kind === 'answer';

const saidIn = (call: JournalCall | undefined): JournalLine[] =>
  call?.sampled.generation ? [...chunksOf(call), call.sampled.generation] : [];

/** One for each request, weights and source: its tokens are one line, however they came. */
function chunksOf(
  { line: { turn, writer, at }, sampled }: JournalCall,
  tokens = sampled.token_ids.length,
): LineOf<'chunk'>[] {
  return sampled.segments
    .filter(({ start }) => start < tokens)
    .map((segment) => {
      const { start, replica, request_id, policy_version, version_source, logprobs_mode } = segment;
      const part = <T>(of: readonly T[]): T[] => of.slice(start, Math.min(segment.end, tokens));
      const { token_ids, logprobs, top_logprobs } = sampled;
      return {
        ...{ kind: 'chunk', writer, at, turn, offset: start, text: '' },
        ...{ token_ids: part(token_ids), logprobs: part(logprobs) },
        ...(top_logprobs.length > 0 && { top_logprobs: part(top_logprobs) }),
        ...{ replica, request_id, policy_version },
        ...(version_source !== undefined && { version_source }),
        ...(logprobs_mode !== undefined && { logprobs_mode }),
      };
    });
}

/** Fields that the new journal, its lists and its own worker set themselves. */
const OWN = ['writer', 'at', 'glance', 'base_url'] as const;

/** As the journal of the fork takes it, with the logprobs that it asks for. */
function inherited(
  line: JournalLine,
  { include_logprobs, top_logprobs }: Kept,
): Entry & { inherited: true } {
  const entry = { ...line, inherited: true as const };
  for (const name of OWN) Reflect.deleteProperty(entry, name);
  if (entry.kind === 'chunk' && !include_logprobs) entry.logprobs = [];
  if (entry.kind === 'chunk' && top_logprobs === 0) delete entry.top_logprobs;
  return entry;
}
