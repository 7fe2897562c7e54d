import { z } from 'zod';

const UNITS = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 } as const;
const SIZE = /^(\d+(?:\.\d+)?)(KiB|MiB|GiB)$/;
const LARGEST = '1048576GiB';

const noSize = ({ input }: { input?: unknown }): string | undefined =>
  input === undefined
    ? undefined
    : `expected a size such as 64MiB or 1GiB, got ${JSON.stringify(input)}`;

export const Size = z
  .string({ error: noSize })
  .refine((text) => bytesOf(text) > 0, { abort: true, error: noSize })
  .refine((text) => bytesOf(text) <= bytesOf(LARGEST), {
    error: ({ input }) => `expected a size of at most ${LARGEST}, got ${JSON.stringify(input)}`,
  })
  .meta({ title: 'size' });

/** A validated {@link Size} in whole bytes. */
export function bytesOf(text: string): number {
  const [, amount, unit] = SIZE.exec(text) ?? [];
  return Math.floor(Number(amount ?? 0) * UNITS[(unit ?? 'KiB') as keyof typeof UNITS]);
}

/** Size limit of an HTTP answer, decoded. A longer answer is refused. */
export const MAX_ANSWER = '16MiB';
/** The most that a text can hold, and that a worker can hold while reading it. */
const LONGEST_ANSWER = '256MiB';

export const MaxAnswer = Size.refine((text) => bytesOf(text) <= bytesOf(LONGEST_ANSWER), {
  error: ({ input }) => `expected at most ${LONGEST_ANSWER}, got ${JSON.stringify(input)}`,
});
