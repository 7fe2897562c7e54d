import { textOf } from '../../model/content.js';
import { formatCount } from '../number-text.js';
import type { TextStyle } from '../text-line.js';
import { renderLine } from '../text-line.js';
import type { Line } from '../text-line.js';
import { placeText } from './entry.js';
import { rewardText, stateOf } from './list-page.js';
import type { Rollout } from './read-batch.js';
import { sampledOf } from './rollout-page.js';
import { meanLogprob } from './block.js';
import { callTexts } from './call-blocks.js';
import { padded, wrapped } from './wrapping.js';
import { isProgram } from '../../model/turn/stop-rules.js';
import { openAnswer } from '../../model/journal/open-answers.js';

/** The minimum of a readable column. */
const NARROWEST = 36;
/** The default width. */
const USUAL_WIDTH = 160;
const GAP = ' | ';

/** The rollouts of a group side by side, as many as fit, the others below. */
export function groupPage(rollouts: readonly Rollout[], style: TextStyle): string[] {
  const total = Number.isFinite(style.columns) ? style.columns : USUAL_WIDTH;
  const beside = Math.max(
    1,
    Math.min(rollouts.length, Math.floor((total + GAP.length) / (NARROWEST + GAP.length))),
  );
  const width = Math.floor((total - GAP.length * (beside - 1)) / beside);
  const lines: string[] = [];
  for (let from = 0; from < rollouts.length; from += beside) {
    const columns = rollouts.slice(from, from + beside).map((one) => columnOf(one, width));
    const height = Math.max(...columns.map((column) => column.length));
    if (from > 0) lines.push('');
    for (let at = 0; at < height; at++) {
      const cells = columns.map((column) => column[at] ?? { text: '', isTitle: false });
      const line = cells.flatMap(({ text, isTitle }, place): Line => {
        const cell = place === cells.length - 1 ? text : padded(text, width);
        return [
          ...(place === 0 ? [] : [{ text: GAP, ink: 'dim' as const }]),
          isTitle ? { text: cell, ink: 'bold' as const } : cell,
        ];
      });
      lines.push(renderLine(line, { ...style, columns: total }));
    }
  }
  return lines;
}

interface Cell {
  text: string;
  isTitle: boolean;
}

function columnOf({ entry, trajectory }: Rollout, width: number): Cell[] {
  const { turns } = trajectory;
  const open = openAnswer(trajectory);
  const title = (text: string): Cell[] =>
    wrapped(text, width).map((line) => ({ text: line, isTitle: true }));
  const body = (text: string): Cell[] =>
    wrapped(text, width).map((line) => ({ text: line, isTitle: false }));
  const mean = meanLogprob(sampledOf(trajectory));
  const { failure } = entry;
  const why = failure === null ? '' : ` ${failure.type}: ${failure.message}`;
  return [
    ...title(`${placeText(entry)}  reward ${rewardText(entry)}`),
    ...body(
      `${formatCount(entry.turns, isProgram(trajectory) ? 'call' : 'turn')}, ${formatCount(entry.tokens, 'token')}${mean === null ? '' : `, logprob ${mean.toFixed(3)}`}`,
    ),
    ...body(`${stateOf(entry)}${why}`),
    ...callTexts(trajectory).flatMap(({ title: head, text }) => [
      ...title(`-- ${head}`),
      ...body(text),
    ]),
    ...turns.flatMap(({ generation, observation }, at) => [
      ...title(`-- ${at}: assistant`),
      ...body(generation.content),
      ...title(
        `-- ${at}: ${observation.message?.role ?? 'environment'}, reward ${observation.reward}`,
      ),
      ...(observation.message === null ? [] : body(textOf(observation.message.content))),
    ]),
    ...(open.token_ids.length === 0 || isProgram(trajectory)
      ? []
      : [...title(`-- ${turns.length}: assistant, unfinished`), ...body(open.text)]),
  ];
}
