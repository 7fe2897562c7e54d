import type { Waiting } from '../results/answers.js';

/** `service`, where an error of this program's own code is in the way. */
export const REPAIR = 'a repaired worker';

/** `service` of a wait that only a person ends. */
const OPERATOR = 'an operator';
const WORKER_OF = 'a worker of task queue ';
const SLOT_OF = 'a slot of task queue ';

/** It waits for the person who paused it: `why` says what is paused, and which command ends that. */
export const operatorsHand = (why: string): Waiting => ({ service: OPERATOR, message: why });

/** It waits for a worker: its call is in a task queue that nobody polls. */
export const unpolledQueue = (name: string): Waiting => ({
  service: `${WORKER_OF}${name}`,
  message: 'no worker polls it: start one with its role (temporal-rollout worker)',
});

/** It waits for a slot: its call is in a task queue whose workers are busy. */
export const takenSlots = (name: string, backlog: number): Waiting => ({
  service: `${SLOT_OF}${name}`,
  message: `${backlog} ${backlog === 1 ? 'task waits' : 'tasks wait'}, because all slots of its workers are taken. Start more workers, or raise max_concurrent of its environments or worker.memory`,
});

/** Whether a journal could not say it: then what journals say is old. */
export const isOfTemporal = ({ service }: Waiting): boolean =>
  service === REPAIR || service === OPERATOR || service.startsWith(WORKER_OF);

/** Seconds since 1970 as text in UTC. */
export const timeText = (at_s: number): string =>
  `${new Date(at_s * 1000).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

export const waitedForText = ({ service, call }: Waiting): string =>
  call === undefined || call === service ? service : `${call} at ${service}`;

/** How often and since when; empty if unknown. */
export function waitedHowText({ tries, since, rollouts }: Waiting): string {
  const tried = tries === undefined ? '' : `${tries} ${tries === 1 ? 'try' : 'tries'}`;
  const parts = [
    rollouts === undefined ? '' : `${rollouts} ${rollouts === 1 ? 'rollout' : 'rollouts'}`,
    [tried, since === undefined ? '' : `since ${since}`].filter(Boolean).join(' '),
  ].filter(Boolean);
  return parts.length === 0 ? '' : ` (${parts.join(', ')})`;
}

/** The answer, without the address that the text before it names. */
export const answerText = ({ service, message }: Waiting): string =>
  message.startsWith(`${service}: `) ? message.slice(service.length + 2) : message;

/** All of it in one text. `quote`: how texts of others are quoted. */
export const waitingText = (waiting: Waiting, quote = (text: string): string => text): string =>
  `${quote(waitedForText(waiting))}${waitedHowText(waiting)}: ${quote(answerText(waiting))}`;
