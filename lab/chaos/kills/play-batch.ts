import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describeError } from '../../../src/platform/errors.js';
import { describeExit, logTail } from '../../../dev/child.js';
import { textsInFolder } from '../../bed/journal-texts.js';
import { checkLabels } from '../../bed/policy-labels.js';
import { puzzleRequest } from '../../bed/puzzle-request.js';
import { within } from '../../bed/waiting.js';
import { judgeBatch } from '../judge-batch.js';
import type { Played } from '../played.js';
import type { KilledStack } from './npm-start.js';

const ID = 'killed-batch';
/** Twelve at a time: about a minute without a kill. */
const SIZE = { samples: 24, num_repeats: 4 };
const AT_ONCE = 12;
const ENDS_WITHIN_MS = 6 * 60_000;

/** A batch that a user starts, and watches until it has ended. */
export async function playBatch(stack: KilledStack, begun: () => void): Promise<Played> {
  const { directory, config, store_root } = stack;
  const file = path.join(directory, 'batch.json');
  const generation = { seed: 3, max_new_tokens: 256 };
  const request = puzzleRequest(SIZE, { generation, max_in_flight: AT_ONCE, max_rollout_turns: 8 });
  await writeFile(file, JSON.stringify(request));
  await run(stack, ['start', '--id', ID, '--input-file', file, '--config', config]);
  begun();
  await run(stack, ['watch', ID, '--config', config]);
  return await judgeBatch(path.join(store_root, ID), {
    rows_expected: SIZE.samples * SIZE.num_repeats,
    labels: await checkLabels({
      journals: await textsInFolder(path.join(store_root, ID, 'journals')),
      engines: [{ directory }],
    }),
  });
}

/** Throws what it said if it does not end well: a board must outlive whatever it watches. */
async function run({ command, directory }: KilledStack, args: string[]): Promise<void> {
  const [name = ''] = args;
  const log = path.join(directory, `${name}.log`);
  const child = await command(args, log);
  try {
    const wait = { what: `the end of ${name}`, timeout_ms: ENDS_WITHIN_MS };
    const exit = await within(wait, child.exited);
    if (exit.code !== 0) throw new Error(`${name} ended ${describeExit(exit)}`);
  } catch (error) {
    throw new Error(`${describeError(error)}:\n${await logTail(log, 8)}`);
  } finally {
    await child.stop();
  }
}
