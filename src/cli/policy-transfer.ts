import { randomUUID } from 'node:crypto';
import type { PolicyClient } from '../client/policy-client.js';
import { UsageError } from '../platform/command.js';
import { plainJson } from '../platform/plain.js';
import { integerOf } from './arguments.js';

/** `policy begin`, `alive`, `finish`, `abandon`, `attach`, `release`, `sleep` and `wake`: what a trainer asks that is no Python. */

export const TRANSFER_VERBS = [
  'begin',
  'alive',
  'finish',
  'abandon',
  'attach',
  'release',
  'sleep',
  'wake',
] as const;
export type TransferVerb = (typeof TRANSFER_VERBS)[number];

export const isTransferVerb = (verb: string): verb is TransferVerb =>
  TRANSFER_VERBS.some((one) => one === verb);

export const TRANSFER_OPTIONS = {
  holder: { type: 'string' },
  incarnation: { type: 'string' },
  checkpoint: { type: 'string' },
  groups: { type: 'string' },
  'stall-limit': { type: 'string' },
  ticket: { type: 'string' },
  done: { type: 'string' },
  sent: { type: 'string' },
  touched: { type: 'string' },
  level: { type: 'string' },
  until: { type: 'string' },
  tags: { type: 'string' },
} as const;

type Values = Record<string, string | undefined>;

/** Fields that options name; the others are the file's. */
export function transferInput(
  verb: TransferVerb,
  { values, file }: { values: Values; file: object },
): object {
  const given = fieldsOf[verb](values);
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...file, ...Object.fromEntries(set) };
}

const fieldsOf: Record<TransferVerb, (values: Values) => Record<string, unknown>> = {
  begin: ({
    version,
    holder,
    incarnation,
    checkpoint,
    mode,
    cache,
    groups,
    quorum,
    ...values
  }) => ({
    version: integer('--version', { text: version, least: 0 }),
    holder: holderIn({ holder, incarnation }),
    checkpoint,
    mode,
    cache,
    groups: integer('--groups', { text: groups, least: 1 }),
    quorum: integer('--quorum', { text: quorum, least: 1 }),
    pause_limit: values['pause-limit'],
    stall_limit: values['stall-limit'],
  }),
  alive: ({ ticket, done }) => ({ ticket, done: integer('--done', { text: done, least: 0 }) }),
  finish: ({ ticket, sent }) => ({ ticket, sent: numbers('--sent', sent) }),
  abandon: ({ ticket, touched }) => ({ ticket, touched: numbers('--touched', touched) }),
  attach: ({ version, path, checkpoint }) => ({
    version: integer('--version', { text: version, least: 0 }),
    checkpoint: checkpoint ?? path,
  }),
  release: ({ holder: name, incarnation }) => ({ holder: name && { name, incarnation } }),
  sleep: ({ level, until, ...values }) => ({
    level: integer('--level', { text: level, least: 1 }),
    until,
    holder: holderIn(values),
  }),
  wake: ({ tags }) => ({ tags: tags?.split(',') }),
};

/** Each command is a process of its own. */
export const holderIn = ({ holder, incarnation }: Values) =>
  holder && { name: holder, incarnation: incarnation ?? randomUUID() };

const integer = (option: string, { text, least }: { text: string | undefined; least: number }) =>
  text === undefined ? undefined : integerOf(option, { text, least });

/** Groups, such as `0,1`; an empty text is none. */
const numbers = (option: string, text: string | undefined): number[] | undefined =>
  text
    ?.split(',')
    .filter((part) => part !== '')
    .map((part) => integerOf(option, { text: part, least: 0 }));

/** Prints the answer as JSON. */
export async function carryOut(
  policy: PolicyClient,
  { verb, input }: { verb: TransferVerb; input: object },
): Promise<void> {
  if (verb !== 'alive') {
    console.log(plainJson(JSON.stringify(await policy.update(verb, input), null, 2)));
    return;
  }
  const { ticket, done } = input as { ticket?: string; done?: number };
  if (ticket === undefined || done === undefined)
    throw new UsageError('policy alive: expected --ticket and --done');
  await policy.alive({ ticket, done });
}
