import { z } from 'zod';

/** Trainers and engines keep ids in 32 bits. No service says how large its model's vocabulary is; an engine refuses what is beyond it. */
export const GREATEST_TOKEN_ID = 2 ** 31 - 1;

export const isTokenId = (value: unknown): value is number =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) <= GREATEST_TOKEN_ID;

export const EXPECTED_TOKEN_ID = `expected a token id, an integer from 0 to ${GREATEST_TOKEN_ID}`;

export const TokenId = z.custom<number>(isTokenId, { error: EXPECTED_TOKEN_ID });

/** One list after the other. `flat` and spreading go through them id by id, which takes fifty times as long. */
export const joinedIds = (parts: readonly (readonly number[])[]): number[] =>
  new Array<number>().concat(...parts);
