import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import type { Played } from '../bench/bare-rollout.js';
import { createBareRollouts } from '../bench/bare-rollout.js';
import type { PuzzleSample } from '../../src/environments/sliding-puzzle/generate-samples.js';
import { describeError } from '../../src/platform/errors.js';
import { BatchRequest } from '../../src/model/batch-request.js';
import { hash32 } from '../../src/model/workflow-safe/hash32.js';

/** The loop in its own process: plays the given rollouts and reports each that ends to its parent. */

const Order = z.strictObject({
  base_url: z.string(),
  first_token_timeout_s: z.number(),
  idle_timeout_s: z.number(),
  /** Contains its samples. */
  request: BatchRequest,
  /** Whether an error ends the process, or only the rollout starts over. */
  on_error: z.enum(['exit', 'restart_rollout']),
  /** Whether a rollout that starts over is sampled with new seeds, or repeats the same game. */
  fresh_seeds: z.boolean(),
  /** By their place in the batch, from 0: all repeats of a sample, then those of the next. */
  rollouts: z.array(z.int()),
  /** Part of request ids: contender, and how often this process was started. */
  name: z.string(),
  life: z.int(),
});
export type Order = z.input<typeof Order>;

export interface Finished extends Played {
  rollout: number;
}

/** As long as the first retry of an activity. */
const RETRY_MS = 1000;

async function playAll(order: z.output<typeof Order>): Promise<void> {
  const { base_url, request, rollouts, name, life, on_error, fresh_seeds } = order;
  const { first_token_timeout_s, idle_timeout_s } = order;
  const loop = createBareRollouts({
    base_url,
    first_token_timeout_ms: first_token_timeout_s * 1000,
    idle_timeout_ms: idle_timeout_s * 1000,
    request,
  });
  const play = async (rollout: number): Promise<void> => {
    const row = Math.floor(rollout / request.num_repeats);
    const repeat = rollout % request.num_repeats;
    const sample = sampleOf(request, row);
    for (let attempt = 1; ; attempt++) {
      const request_id = (turn: number): string =>
        `${name}/${row}-${repeat}.${turn}.${life}-${attempt}`;
      const drawn = fresh_seeds ? hash32([repeat, life, attempt]) : repeat;
      try {
        const played = await loop.play({ sample, row, repeat: drawn, request_id });
        const finished: Finished = { rollout, ...played };
        process.send?.(finished);
        return;
      } catch (error) {
        if (on_error === 'exit') throw error;
        await sleep(RETRY_MS);
      }
    }
  };
  // Each player takes the next one when it is done.
  const waiting = rollouts.values();
  const playOn = async (): Promise<void> => {
    for (const rollout of waiting) await play(rollout);
  };
  await Promise.all(Array.from({ length: request.max_in_flight }, playOn));
  await loop.close();
}

function sampleOf({ samples }: BatchRequest, row: number): PuzzleSample {
  const sample = Array.isArray(samples) ? samples[row] : undefined;
  if (sample === undefined) throw new Error(`there is no row ${row}`);
  return sample as PuzzleSample;
}

process.once('disconnect', () => process.exit(0));
process.once('message', (message) => {
  playAll(Order.parse(message)).then(
    () => {
      process.disconnect();
    },
    (error: unknown) => {
      console.error(describeError(error));
      process.exit(1);
    },
  );
});
process.send?.('ready');
