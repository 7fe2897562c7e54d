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
import { plain, plainJson } from '../platform/plain.js';
import { DEFAULT_FILE, integerOf, settingsNamed } from './arguments.js';
import { temporalSettings } from './temporal-settings.js';

const OPTIONS = {
  config: { type: 'string' },
  service: { type: 'string', default: 'default' },
  input: { type: 'string' },
  version: { type: 'string' },
  path: { type: 'string' },
  mode: { type: 'string' },
  cache: { type: 'string' },
  order: { type: 'string' },
  quorum: { type: 'string' },
  'pause-limit': { type: 'string' },
} as const;

/** `policy status` and `policy publish`. */
export async function policyCommand([verb = '', ...args]: string[]): Promise<number> {
  if (verb !== 'status' && verb !== 'publish')
    throw new UsageError(`expected policy status or policy publish, got ${JSON.stringify(verb)}`);
  const { values } = parseArgs({ args, options: OPTIONS });
  const input = verb === 'publish' ? await inputOf(values) : null;
  const { service } = values;
  const { server, taskQueue: task_queue, services } = await temporalSettings(values.config);
  if (Object.keys(services).length > 0)
    settingsNamed(service, { among: services, what: 'service', file: values.config ?? DEFAULT_FILE }); // prettier-ignore
  const policy = await connectPolicy(server, { service, task_queue });
  try {
    if (input !== null) return await publish(policy, input);
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

function checkPath(path: string | undefined): void {
  if (path === undefined || isAbsolute(path)) return;
  const [got, here] = [path, resolve(path)].map((one) => JSON.stringify(one));
  throw new UsageError(
    `--path: expected an absolute path, because each engine opens it itself, got ${got}; here it would be ${here}`,
  );
}

async function readOrder(file: string): Promise<object> {
  const text = await readText(file);
  checkJson(text, { file, what: 'the fields of publish' });
  return JSON.parse(text) as object;
}

/** The fields of update `publish`: from a file, overridden by options. The workflow checks all but numbers and path. */
async function inputOf(values: Record<string, string | undefined>): Promise<object> {
  const { input, version, path, mode, cache, order, quorum } = values;
  checkPath(path);
  const file = input === undefined ? {} : await readOrder(input);
  const given = {
    version:
      version === undefined ? undefined : integerOf('--version', { text: version, least: 0 }),
    weights: path === undefined ? undefined : { kind: 'checkpoint', path },
    mode,
    cache,
    order,
    quorum: quorum === undefined ? undefined : integerOf('--quorum', { text: quorum, least: 1 }),
    pause_limit: values['pause-limit'],
  };
  const set = Object.entries(given).filter(([, value]) => value !== undefined);
  return { ...file, ...Object.fromEntries(set) };
}

/** On a terminal with a board of the workflow's state while it lasts. */
async function publish(policy: PolicyClient, input: object): Promise<number> {
  const screen = createScreen(process.stdout, process.env);
  const over = new AbortController();
  void follow({
    // The workflow may be starting, or its worker unavailable: the board shows the last known state.
    look: () => policy.status().catch(() => null),
    draw: (status) => {
      if (status !== null) screen.show((style) => cutLines(policyTable(status, Date.now()), style));
      return false;
    },
    signal: over.signal,
  });
  const close = (): void => {
    over.abort();
    screen.close();
  };
  try {
    const result = await policy.publish(input).finally(close);
    console.log(plainJson(JSON.stringify(result, null, 2)));
    return 0;
  } catch (error) {
    const cause = error instanceof WorkflowUpdateFailedError ? error.cause : error;
    console.error(plain(describeError(cause)));
    return 1;
  }
}
