import type { JournalLine } from '../model/journal.js';
import { parseLine } from '../model/journal.js';
import { applyLine, emptyTrajectory } from '../model/journal/trajectory.js';
import type { GlancedEnd } from './trajectory-store.js';

/** The last bytes of a journal, cut anywhere. */
export interface Tail {
  bytes: Buffer;
  is_whole: boolean;
}

/** Returns at least this many bytes, if there are. */
export type TailOf = (bytes: number) => Tail | Promise<Tail>;

/** How lines begin. A line feed is never inside a line. */
const END = '\n{"kind":"end"';
const CLAIM = '\n{"kind":"claim"';

/** An end and the claims after it are shorter. */
const TAIL_BYTES = 1 << 16;

/**
 * The standing end, from the last lines. An end counts if the claim before it is its writer's and no later claim
 * reopens the rollout; an attempt that finds an end writes none. So folding only these lines gives the same end as
 * folding all. Unusual cases are left to the full fold.
 */
export async function findEnd(tailOf: TailOf): Promise<GlancedEnd | null> {
  const trajectory = emptyTrajectory();
  for (const line of (await linesThatEnd(tailOf)).map(parseLine)) {
    if (line === null) return null;
    applyLine(trajectory, line);
  }
  const { end } = trajectory;
  return end?.glance === undefined ? null : { ...end, glance: end.glance };
}

/** The last end, the claim before it and everything after it; empty if no end is near the journal's end. */
async function linesThatEnd(tailOf: TailOf): Promise<string[]> {
  for (let length = TAIL_BYTES; ; length *= 4) {
    const { bytes: tail, is_whole } = await tailOf(length);
    // Most have none, and a search from the front is many times faster than one from the back.
    if (!tail.includes(END)) return [];
    const end = tail.lastIndexOf(END);
    const claim = tail.lastIndexOf(CLAIM, end);
    if (claim !== -1) {
      const claimed = tail.toString('utf8', claim + 1, tail.indexOf('\n', claim + 1));
      const rest = tail.toString('utf8', end + 1).split('\n');
      return [claimed, ...rest.filter((line) => line !== '')];
    }
    if (is_whole) return [];
  }
}

/** After any of these lines, totals are known. */
const TOTALS = ['observation', 'start', 'answer', 'end'].map((kind) => `\n{"kind":"${kind}"`);
/** A name that is quoted so stands in no text, where quotes are escaped. */
const CHUNK = /^\{"kind":"chunk".*?"turn":(\d+)/;

/** As in `TrajectoryStore`. A chunk says how long its answer is, so the last of each answer is enough. */
export async function readLastLines(tailOf: TailOf): Promise<JournalLine[]> {
  const texts = await linesAfterTotals(tailOf);
  const turns = texts.map((text) => CHUNK.exec(text)?.[1]);
  const last = new Map(turns.map((turn, i) => [turn, i]));
  return texts
    .filter((_, i) => turns[i] === undefined || last.get(turns[i]) === i)
    .flatMap((text) => parseLine(text) ?? []);
}

async function linesAfterTotals(tailOf: TailOf): Promise<string[]> {
  for (let length = TAIL_BYTES; ; length *= 4) {
    const { bytes: tail, is_whole } = await tailOf(length);
    const at = lastTotals(tail);
    if (at !== null || is_whole) return tail.toString('utf8', at ?? 0).split('\n');
  }
}

/** Searched at once; more than any of these beginnings. */
const BLOCK_BYTES = 1 << 16;
const LONGEST = Math.max(...TOTALS.map((begin) => begin.length));

/** Where the last of these lines begins, found block by block from the back; null: all begin before. */
function lastTotals(tail: Buffer): number | null {
  for (let to = tail.length; to > 0; to -= BLOCK_BYTES) {
    const from = Math.max(0, to - BLOCK_BYTES);
    // A line may begin in front of the block's end.
    const block = tail.subarray(from, to + LONGEST - 1);
    const found = TOTALS.filter((begin) => block.includes(begin));
    if (found.length > 0)
      return from + Math.max(...found.map((begin) => block.lastIndexOf(begin))) + 1;
  }
  return null;
}

/** The standing end, or else the last lines, from one reading. */
export async function findEndOrLastLines(tailOf: TailOf): Promise<GlancedEnd | JournalLine[]> {
  const tails = new Map<number, Tail>();
  const remembered = async (bytes: number): Promise<Tail> => {
    const tail = tails.get(bytes) ?? (await tailOf(bytes));
    tails.set(bytes, tail);
    return tail;
  };
  return (await findEnd(remembered)) ?? (await readLastLines(remembered));
}
