import { shortened } from '../../platform/errors.js';
import { plainLine } from '../../platform/plain.js';
import type { Trajectory } from './trajectory.js';

/** As much as a wide terminal shows beside a rollout's numbers. */
const MOST_CHARACTERS = 200;

/**
 * Why a rollout went as it did, in a line: the environment's last message, else the end of the policy's. Begins with
 * `length` if the last generation was cut. null: nobody spoke.
 */
export function lastWordsOf({ turns, open }: Trajectory): string | null {
  const { generation, observation } = turns.at(-1) ?? {};
  const cut = generation?.finish_reason === 'length' ? 'length, ' : '';
  const seen = oneLine(observation?.message?.content ?? '');
  if (seen !== '')
    return `${cut}${observation?.message?.role ?? ''}: ${shortened(seen, MOST_CHARACTERS)}`;
  const said = oneLine(generation?.content ?? open.line?.content ?? open.text);
  return said === '' ? null : `${cut}assistant: ${endOf(said)}`;
}

/** Of a long text, only a part is looked at. */
const LOOKED_AT = 20 * MOST_CHARACTERS;
const oneLine = (text: string): string =>
  plainLine(text.length > 2 * LOOKED_AT ? text.slice(0, LOOKED_AT) + text.slice(-LOOKED_AT) : text)
    .replace(/\s+/g, ' ')
    .trim();

/** A policy comes to its answer at the end, which a line of 80 columns shows. */
const END_CHARACTERS = 50;
const endOf = (text: string): string =>
  text.length <= END_CHARACTERS ? text : `...${Array.from(text).slice(-END_CHARACTERS).join('')}`;
