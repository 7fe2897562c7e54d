import type { JournalLine } from '../model/journal.js';
import { parseLine } from '../model/journal.js';
import { applyLine, emptyTrajectory } from '../model/trajectory.js';
import type { GlancedEnd } from './trajectory-store.js';

/** The last bytes of a journal, cut where they are. */
export interface Tail {
  bytes: Buffer;
  is_whole: boolean;
}

/** At least so many bytes, where there are. */
export type TailOf = (bytes: number) => Tail | Promise<Tail>;

/** How lines begin: a line feed stands in no line's middle. */
const END = '\n{"kind":"end"';
const CLAIM = '\n{"kind":"claim"';

/** An end and the claims behind it are shorter. */
const TAIL_BYTES = 1 << 16;

/**
 * The end that stands, from the last lines. An end counts where the claim before it is its writer's, and while no later
 * claim opens the rollout again; an attempt that finds one writes none. So the fold of these lines alone has the end that
 * the fold of all has. Whatever is unusual is left to the latter.
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

/** The last end, the claim before it and all that follows it; nothing where no end is near the journal's own. */
async function linesThatEnd(tailOf: TailOf): Promise<string[]> {
  for (let length = TAIL_BYTES; ; length *= 4) {
    const { bytes: tail, is_whole } = await tailOf(length);
    const end = tail.lastIndexOf(END);
    if (end === -1) return [];
    const claim = tail.lastIndexOf(CLAIM, end);
    if (claim !== -1) {
      const claimed = tail.toString('utf8', claim + 1, tail.indexOf('\n', claim + 1));
      const rest = tail.toString('utf8', end + 1).split('\n');
      return [claimed, ...rest.filter((line) => line !== '')];
    }
    if (is_whole) return [];
  }
}

/** Behind any of them, totals are known. */
const TOTALS = ['\n{"kind":"observation"', '\n{"kind":"start"', END];
const CHUNK = '{"kind":"chunk"';

/** As `TrajectoryStore` has it. */
export async function readLastLines(tailOf: TailOf): Promise<JournalLine[]> {
  const texts = await textsBehindTotals(tailOf);
  const chunk = texts.findLastIndex((text) => text.startsWith(CHUNK));
  return texts
    .filter((text, i) => i === chunk || !text.startsWith(CHUNK))
    .flatMap((text) => parseLine(text) ?? []);
}

async function textsBehindTotals(tailOf: TailOf): Promise<string[]> {
  for (let length = TAIL_BYTES; ; length *= 4) {
    const { bytes: tail, is_whole } = await tailOf(length);
    const at = Math.max(...TOTALS.map((kind) => tail.lastIndexOf(kind)));
    if (at !== -1 || is_whole) return tail.toString('utf8', Math.max(0, at)).split('\n');
  }
}
