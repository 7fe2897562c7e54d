import { z } from 'zod';

/** Trainers and engines keep ids in 32 bits. No service reports its vocabulary size; an engine refuses larger ids. */
const MOST = 2 ** 31 - 1;

const isTokenId = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= MOST;

export const TokenId = z.custom<number>(isTokenId, {
  error: `expected a token id, an integer from 0 to ${MOST}`,
});
