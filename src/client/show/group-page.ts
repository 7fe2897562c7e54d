import type { TextStyle } from '../text-line.js';
import type { Rollout } from './read-batch.js';
import { headingOf, playedBlocks } from './rollout-page.js';
import { padded } from './wrapping.js';

/** The minimum of a readable column. */
const NARROWEST = 36;
/** The default width. */
const USUAL_WIDTH = 160;
const GAP = ' | ';

/** The pages of a group's rollouts side by side, as many as fit, the others below. */
export function groupPage(rollouts: readonly Rollout[], { columns }: TextStyle): string[] {
  const total = Number.isFinite(columns) ? columns : USUAL_WIDTH;
  const most = Math.floor((total + GAP.length) / (NARROWEST + GAP.length));
  const beside = Math.max(1, Math.min(rollouts.length, most));
  const width = Math.floor((total - GAP.length * (beside - 1)) / beside);
  const lines: string[] = [];
  for (let from = 0; from < rollouts.length; from += beside) {
    const pages = rollouts.slice(from, from + beside).map((one) => columnOf(one, width));
    const height = Math.max(...pages.map(({ length }) => length));
    if (from > 0) lines.push('');
    for (let at = 0; at < height; at++) {
      const cells = pages.map((page) => padded(page[at] ?? '', width));
      lines.push(cells.join(GAP).trimEnd());
    }
  }
  return lines;
}

/** Without the prompt, which all have, and without events. */
function columnOf(rollout: Rollout, columns: number): string[] {
  const style = { columns, colour: false };
  const blocks = playedBlocks(rollout.trajectory, { style, tokens: false, turns: null });
  return [...headingOf(rollout, { siblings: [], style }), ...blocks.flatMap(({ lines }) => lines)];
}
