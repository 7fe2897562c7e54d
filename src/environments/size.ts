import { z } from 'zod';

const UNITS = { KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30 } as const;
const SIZE = /^(\d+)(KiB|MiB|GiB)$/;

export const Size = z.string().refine((text) => bytesOf(text) > 0, {
  error: ({ input }) => `expected a size such as 64MiB or 1GiB, got ${JSON.stringify(input)}`,
});

/** Of a validated {@link Size}. */
export function bytesOf(text: string): number {
  const [, amount, unit] = SIZE.exec(text) ?? [];
  return Number(amount ?? 0) * UNITS[(unit ?? 'KiB') as keyof typeof UNITS];
}

/** Of an answer over HTTP, decoded; a longer one is refused. */
export const MAX_ANSWER = '16MiB';
/** What a text can hold, and a worker in the course of reading it. */
const LONGEST_ANSWER = '256MiB';

export const MaxAnswer = Size.refine((text) => bytesOf(text) <= bytesOf(LONGEST_ANSWER), {
  error: ({ input }) => `expected at most ${LONGEST_ANSWER}, got ${JSON.stringify(input)}`,
});
