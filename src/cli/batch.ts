import path from 'node:path';
import type { BatchClient, BatchHandle, Outcome } from '../client/batch-client.js';
import {
  awaitOutcome,
  connectBatchClient,
  isOtherDeployment,
  openBatchClient,
} from '../client/batch-client.js';
import { followBatch, refusalOf, watchBatch } from '../client/progress.js';
import { allCompleted, renderResult } from '../client/result-table.js';
import { createScreen } from '../client/screen.js';
import type { ServerAddress } from '../client/server.js';
import type { WatchOptions } from '../client/progress.js';
import { stackOf } from '../../dev/folder-claim.js';
import { whySilent } from '../../dev/running-stack.js';
import type { Failures } from '../model/results/answers.js';
import { commandLine } from '../platform/command.js';
import { writeJson } from '../platform/json/kept.js';
import { INTERRUPTED } from '../platform/process/interrupts.js';
import { plain, plainJson } from '../platform/plain.js';
import { FLAG, TEXT, onlyOne, optionsAndWordsIn } from '../platform/arguments.js';
import { withScreen } from './terminal.js';
import { storeOfBatch } from './store.js';
import { temporalSettings } from './temporal-settings.js';

/** A batch without the Temporal CLI: `watch`, `stop`, `result`. `start.ts` starts one. */

export async function watchCommand(args: string[]): Promise<number> {
  const { batchId, config } = meantIn(args);
  // A server that is away is waited for.
  const { server } = await temporalSettings(config);
  return await using(openBatchClient(server), async (client) => {
    await checkIsBatch(client, { batchId, server, config });
    return await watched(client.attach(batchId), { batchId, server, config });
  });
}

function meantIn(args: string[]): { batchId: string; config: string | undefined } {
  const options = { config: TEXT };
  const { values, positionals } = optionsAndWordsIn(args, options);
  return { batchId: onlyOne(positionals, 'one batch id'), config: values.config };
}

/** The command that shows a workflow of another type. */
const SHOWN_BY: Record<string, { what: string; by: (id: string) => string }> = {
  rolloutStream: { what: 'a stream', by: (id) => `stream status --id ${id} --watch` },
  policy: {
    what: 'a policy',
    by: (id) => `policy status --service ${id.slice(id.indexOf('/') + 1)}`,
  },
  rollout: { what: 'one rollout', by: (id) => `show ${id}` },
};

export interface Sought {
  batchId: string;
  server: ServerAddress;
  config: string | undefined;
}

/** Throws an error for the user that says what the id is, or where it was sought. */
async function checkIsBatch(client: Pick<BatchClient, 'typeOf'>, sought: Sought): Promise<void> {
  // Who then looks at the batch says that the server is unavailable, and waits for it.
  const type = await client.typeOf(sought.batchId).catch((error: unknown) => {
    if (isOtherDeployment(error)) throw error;
    return 'rolloutBatch';
  });
  if (type === null) throw new Error(await whyNowhere(sought));
  if (type === 'rolloutBatch') return;
  const { batchId, config } = sought;
  const shown = SHOWN_BY[type];
  throw new Error(
    shown === undefined
      ? `${batchId} is a workflow of type ${type}, no batch`
      : `${batchId} is ${shown.what}: ${commandLine(shown.by(batchId), config)}`,
  );
}

async function whyNowhere({ batchId, server, config }: Sought): Promise<string> {
  const place = `the Temporal server at ${server.options.address}, namespace ${server.namespace}`;
  const { name, has, result, meant } = await storeOfBatch(batchId, config);
  const journals = `its journals are in ${name}`;
  const kept = result === null ? journals : `its result is in ${result}, ${journals}`;
  return has
    ? `${place} no longer has batch ${batchId}; ${kept}: ${commandLine(`show ${batchId}`, config)} reads them, and starting it again continues it`
    : `no batch ${batchId} on ${place}${name === null ? '' : `, or in ${name}`}${meant}`;
}

export async function watched(batch: BatchHandle, sought: Sought): Promise<number> {
  const { batchId, server, config } = sought;
  return await withScreen(process.stdout, async (screen, signal) => {
    const whyForgotten = () => whyNowhere(sought);
    const remedy = await remedyOf(sought);
    const outcome = await watchBatch({ batchId, batch, screen, signal, whyForgotten, ...remedy });
    if ('left' in outcome) {
      const watch = commandLine(`watch ${batchId}`, config);
      const known = outcome.left.isKnown
        ? `Batch ${batchId} continues.`
        : `The Temporal server at ${server.options.address} did not answer, so it is not known whether batch ${batchId} runs.`;
      screen.say(`${known} To watch it:\n  ${watch}`);
      return INTERRUPTED;
    }
    if (!('result' in outcome)) return 1;
    const which = allCompleted(outcome.result.counts) ? '--worst 20' : '--failed';
    screen.say(`To read them:\n  ${commandLine(`show ${batchId}`, config)} ${which}`);
    return 0;
  });
}

/** A worker of the stack in this folder needs nobody to start it, and its server's disk is here. */
async function remedyOf({
  server,
  config,
}: Sought): Promise<Pick<WatchOptions, 'remedy' | 'whySilent'>> {
  const stack = await stackOf(config);
  if (stack?.address !== server.options.address) return {};
  return {
    remedy: 'the stack of this folder restarts one that ends',
    whySilent: () => whySilent(path.dirname(stack.settings)),
  };
}

export async function stopCommand(args: string[]): Promise<number> {
  const { batchId, config } = meantIn(args);
  return await withClient(config, async (client) => {
    const waits = await client.stop(batchId);
    const what = waits === null ? `${batchId} stops` : `stop was sent, but ${waits}`;
    console.log(plain(`${what}; its results so far are kept`));
    return 0;
  });
}

export async function resultCommand(args: string[]): Promise<number> {
  const options = { config: TEXT, json: FLAG };
  const { values, positionals } = optionsAndWordsIn(args, options);
  const batchId = onlyOne(positionals, 'one batch id');
  const { config, json } = values;
  return await withClient(config, async (client, { server }) => {
    const sought = { batchId, server, config };
    await checkIsBatch(client, sought);
    const ended = await untilEnded(client, batchId);
    if (ended === null) return INTERRUPTED;
    const { outcome, failures } = ended;
    if ('failure' in outcome)
      throw new Error(
        outcome.forgotten === true
          ? await whyNowhere(sought)
          : `batch ${batchId}: ${outcome.failure}`,
      );
    if (outcome.refused !== undefined) console.error(plain(refusalOf(batchId, outcome.refused)));
    const { style } = createScreen(process.stdout, process.env);
    if (json) console.log(plainJson(writeJson(outcome.result)));
    else console.log(renderResult({ ...outcome.result, failures }, style()).join('\n'));
    return 0;
  });
}

/** Shows on stderr what a batch that runs waits for, as `watch` does. null: interrupted. */
const untilEnded = (
  client: BatchClient,
  batchId: string,
): Promise<{ outcome: Outcome; failures: Failures | undefined } | null> =>
  withScreen(process.stderr, async (screen, signal) => {
    const batch = client.attach(batchId);
    const isOver = (await client.status(batchId)) !== 'running';
    const { progress } = isOver
      ? await batch.look()
      : await followBatch({ batchId, look: batch.look, screen, signal });
    const outcome = await awaitOutcome(batch, { say: screen.say, signal });
    return outcome && { outcome, failures: progress?.failures };
  });

interface Place {
  server: ServerAddress;
  taskQueue: string;
}

export async function withClient(
  config: string | undefined,
  use: (client: BatchClient, place: Place) => Promise<number>,
): Promise<number> {
  const place = await temporalSettings(config);
  const client = await connectBatchClient(place.server);
  return await using(client, () => use(client, place));
}

async function using(
  client: BatchClient,
  use: (client: BatchClient) => Promise<number>,
): Promise<number> {
  try {
    return await use(client);
  } finally {
    await client.close();
  }
}
