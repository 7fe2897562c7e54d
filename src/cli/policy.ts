import { isAbsolute, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client';
import { readText } from '../platform/utf8-text.js';
import type { PolicyClient } from '../client/policy-client.js';
import { connectPolicy } from '../client/policy-client.js';
import { policyTable } from '../client/policy-table.js';
import { follow } from '../client/follow.js';
import { createScreen } from '../client/screen.js';
import { cutLines } from '../client/text-line.js';
import { UsageError } from '../platform/command.js';
import { describeError } from '../platform/errors.js';
import { checkJson } from '../platform/json/fault-place.js';
import { placeOf } from '../platform/s3/bucket.js';
import { plain, plainJson } from '../platform/plain.js';
import { DEFAULT_FILE, integerOf, settingsNamed } from './arguments.js';
import {
  carryOut,
  holderIn,
  isTransferVerb,
  TRANSFER_OPTIONS,
  TRANSFER_VERBS,
  transferInput,
} from './policy-transfer.js';
import { temporalSettings } from './temporal-settings.js';

const OPTIONS = {
  config: { type: 'string' },
  service: { type: 'string', default: 'default' },
  input: { type: 'string' },
  version: { type: 'string' },
  path: { type: 'string' },
  adapter: { type: 'string' },
  mode: { type: 'string' },
  cache: { type: 'string' },
  order: { type: 'string' },
  quorum: { type: 'string' },
  'pause-limit': { type: 'string' },
  'take-over': { type: 'boolean' },
  ...TRANSFER_OPTIONS,
} as const;

const VERBS = ['status', 'publish', ...TRANSFER_VERBS].map((verb) => `policy ${verb}`);

/** `policy status`, `policy publish`, and a transfer's updates. */
export async function policyCommand([verb = '', ...args]: string[]): Promise<number> {
  if (verb !== 'status' && verb !== 'publish' && !isTransferVerb(verb))
    throw new UsageError(`expected ${VERBS.join(', ')}, got ${JSON.stringify(verb)}`);
  const { 'take-over': take_over, ...values } = parseArgs({ args, options: OPTIONS }).values;
  const input = { ...(await givenTo(verb, values)), ...(take_over === true && { take_over }) };
  const { service } = values;
  const { server, taskQueue: task_queue, services } = await temporalSettings(values.config);
  if (Object.keys(services).length > 0)
    settingsNamed(service, {
      among: services,
      what: 'service',
      file: values.config ?? DEFAULT_FILE,
    });
  const policy = await connectPolicy(server, { service, task_queue });
  try {
    if (verb === 'publish') return await publish(policy, input);
    if (verb !== 'status') return await sayFailure(() => carryOut(policy, { verb, input }));
    const status = await policy.status();
    console.log(policyTable(status, Date.now()).join('\n'));
    return 0;
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    console.log(
      `${service}: no policy workflow runs on this server: nothing has been published, or Temporal's database was lost (the record in the store stays in force)`,
    );
    return 0;
  } finally {
    await policy.close();
  }
}

function checkPath(option: string, path: string | undefined): void {
  if (path === undefined || isAbsolute(path) || placeOf(path) !== null) return;
  const [got, here] = [path, resolve(path)].map((one) => JSON.stringify(one));
  throw new UsageError(
    `${option}: expected an absolute path or s3://bucket/prefix, because each engine opens it itself, got ${got}; here it would be ${here}`,
  );
}

async function readOrder(file: string, verb: string): Promise<object> {
  const text = await readText(file);
  checkJson(text, { file, what: `the fields of ${verb}` });
  return JSON.parse(text) as object;
}

/** The fields of update `publish` that options name. */
function publishOf(values: Record<string, string | undefined>): object {
  const { version, path, adapter, mode, cache, order, quorum } = values;
  if (path !== undefined && adapter !== undefined)
    throw new UsageError('expected --path or --adapter, got both');
  const given = {
    version:
      version === undefined ? undefined : integerOf('--version', { text: version, least: 0 }),
    weights: weightsAt({ path, adapter }),
    holder: holderIn(values),
    mode,
    cache,
    order,
    quorum: quorum === undefined ? undefined : integerOf('--quorum', { text: quorum, least: 1 }),
    pause_limit: values['pause-limit'],
  };
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return Object.fromEntries(set);
}

const weightsAt = ({ path, adapter }: { path: string | undefined; adapter: string | undefined }) =>
  path !== undefined
    ? { kind: 'checkpoint', path }
    : adapter !== undefined
      ? { kind: 'lora', path: adapter }
      : undefined;

/** The fields of an update: from a file, overridden by options. The workflow checks all but numbers and paths. */
async function givenTo(verb: string, values: Record<string, string | undefined>): Promise<object> {
  checkPath('--path', values['path']);
  checkPath('--adapter', values['adapter']);
  checkPath('--checkpoint', values['checkpoint']);
  const { input } = values;
  const file = input === undefined ? {} : await readOrder(input, verb);
  if (isTransferVerb(verb)) return transferInput(verb, { values, file });
  return { ...file, ...publishOf(values) };
}

/** On a terminal with a board of the workflow's state while it lasts. */
async function publish(policy: PolicyClient, input: object): Promise<number> {
  const screen = createScreen(process.stdout, process.env);
  const over = new AbortController();
  // Where nobody looks, nothing is asked: a worker that has just started and gets a question with an update may leave the
  // update out.
  if (screen.live)
    void follow({
      // The workflow may be starting, or its worker unavailable: the board shows the last known state.
      look: () => policy.status().catch(() => null),
      draw: (status) => {
        if (status !== null)
          screen.show((style) => cutLines(policyTable(status, Date.now()), style));
        return false;
      },
      signal: over.signal,
    });
  const close = (): void => {
    over.abort();
    screen.close();
  };
  return await sayFailure(async () => {
    const result = await policy.publish(input).finally(close);
    console.log(plainJson(JSON.stringify(result, null, 2)));
  });
}

/** The reason of an update that failed, and exit code 1. */
async function sayFailure(run: () => Promise<void>): Promise<number> {
  try {
    await run();
    return 0;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    const cause = error instanceof WorkflowUpdateFailedError ? error.cause : error;
    console.error(plain(describeError(cause)));
    return 1;
  }
}
