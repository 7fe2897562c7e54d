import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { createBareRollouts } from '../bench/bare-rollout.js';
import { puzzleSamples } from '../bench/samples.js';
import { describeError } from '../src/model/faults.js';
import { BatchRequest } from '../src/model/batch-request.js';
import { FIRST_TOKEN_TIMEOUT_S, IDLE_TIMEOUT_S, requestOf } from './workload.js';

/** The loop in a process of its own: plays the rows that it is given and tells its parent of each that ends. */

const Order = z.strictObject({
  base_url: z.string(),
  workload: z.strictObject({
    rollouts: z.int(),
    turns: z.int(),
    tokens_per_second: z.number(),
    thinking_tokens: z.int(),
  }),
  /** An error ends the process, or the rollout alone starts over. */
  on_error: z.enum(['exit', 'restart_rollout']),
  rows: z.array(z.int()),
  /** Part of request ids: contender, and which life of the process this is. */
  name: z.string(),
  life: z.int(),
});
export type Order = z.infer<typeof Order>;

export interface Finished {
  row: number;
  tokens: number;
}

/** As long as the first retry of an activity. */
const RETRY_MS = 1000;

async function playAll(order: Order): Promise<void> {
  const { base_url, workload, rows, name, life, on_error } = order;
  const loop = createBareRollouts({
    base_url,
    first_token_timeout_ms: FIRST_TOKEN_TIMEOUT_S * 1000,
    idle_timeout_ms: IDLE_TIMEOUT_S * 1000,
    request: BatchRequest.parse(requestOf(workload)),
  });
  const samples = puzzleSamples(workload.rollouts);
  const play = async (row: number): Promise<void> => {
    const sample = samples[row];
    if (sample === undefined) throw new Error(`there is no row ${row}`);
    for (let attempt = 1; ; attempt++) {
      const request_id = (turn: number): string => `${name}/${row}-0.${turn}.${life}-${attempt}`;
      try {
        const { tokens } = await loop.play({ sample, row, request_id });
        const finished: Finished = { row, tokens };
        process.send?.(finished);
        return;
      } catch (error) {
        if (on_error === 'exit') throw error;
        await sleep(RETRY_MS);
      }
    }
  };
  await Promise.all(rows.map(play));
  await loop.close();
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
