import { setHandler } from '@temporalio/workflow';
import type { Waiting } from '../../activities/contract.js';
import { waitingText } from '../../model/workflow-safe/waiting.js';
import { plainLine, quoted } from '../../platform/plain.js';
import { waitingSignal } from '../steering/messages.js';
import { isCount, isWaiting } from '../steering/input-checks.js';

/** Signal `waiting` comes from an activity, but any client of the server may send it. */
export function onWaiting(say: (waiting: Waiting | null, holds: boolean) => void): void {
  setHandler(waitingSignal, (waiting) => {
    if (isWaiting(waiting)) say(forDisplay(waiting), waiting?.holds === true);
  });
}

/** Length of each kept text: as much as an activity sends. */
const MOST = 300;

const TIME = /^[\d: -]{19} UTC$/;

/** Prepared for display and answers: bounded, and without active characters. */
export function forDisplay(waiting: Waiting | null): Waiting | null {
  if (waiting === null) return null;
  const { service, message, call, tries, since, rollouts } = waiting;
  return {
    service: short(service),
    message: short(message),
    ...(typeof call === 'string' && { call: short(call) }),
    ...(isCount(tries) && { tries }),
    ...(typeof since === 'string' && TIME.test(since) && { since }),
    ...(isCount(rollouts) && { rollouts }),
  };
}

const short = (text: string): string => plainLine(text.slice(0, MOST));

/** For current details, which are Markdown. */
export const waitingLine = (waiting: Waiting): string =>
  `Waiting for ${waitingText(waiting, quoted)}`;

/** A link to its page, for current details: behind an empty line; nothing where there is none. */
export const pageLine = (page: string | undefined): string[] =>
  page === undefined ? [] : ['', `[what the policy did](${page})`];
