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
