import type { GoldenCase, GoldenFile } from './case.js';
import { readGoldenCase } from './case.js';

/** Recorded cases that this project's outside cannot show, and why. Everything else is played. */
interface Exception {
  reason: string;
  applies: (golden: GoldenFile) => boolean;
  /** How many there are: none joins or leaves unseen. */
  count: number;
}

export const EXCEPTIONS: readonly Exception[] = [
  {
    reason: 'one function of upstream called alone; whole runs cover its statements',
    applies: ({ kind }) => kind === 'function',
    count: 19,
  },
  {
    reason: 'async_engine: false is a setting of upstream’s engine; nothing of it is on the wire',
    applies: ofCase(({ script }) => !script.backend.async_engine),
    count: 2,
  },
  {
    reason:
      'the engine gives more than max_seq_len holds; max_tokens is clamped to what fits, so it is never asked to',
    applies: ofCase(overruns),
    count: 6,
  },
];

export const exceptionOf = (golden: GoldenFile): string | null =>
  EXCEPTIONS.find(({ applies }) => applies(golden))?.reason ?? null;

function ofCase(holds: (golden: GoldenCase) => boolean): (golden: GoldenFile) => boolean {
  return ({ name, kind }) => kind !== 'function' && holds(readGoldenCase(name));
}

function overruns({ expected, config }: GoldenCase): boolean {
  return (expected.generation_calls ?? []).some(
    ({ input_length, output_length = 0 }) =>
      output_length > 0 && input_length + output_length > config.max_seq_len,
  );
}
