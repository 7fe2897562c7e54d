import type { Waiting } from '../../activities/contract.js';
import { plainLine, quoted } from '../../platform/plain.js';

/** Signal `waiting` comes from an activity, and from anybody who reaches the server. */

/** What is kept of each text: as much as an activity sends. */
const MOST = 300;

/** As it is shown and answered: bounded, and without characters that act. */
export function heard(waiting: Waiting | null): Waiting | null {
  if (waiting === null) return null;
  const { service, message } = waiting;
  return { service: short(service), message: short(message) };
}

const short = (text: string): string => plainLine(text.slice(0, MOST));

/** For current details, which are Markdown. */
export const waitingLine = ({ service, message }: Waiting): string =>
  `Waiting for ${quoted(service)}: ${quoted(message)}`;
