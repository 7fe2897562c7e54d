import { randomUUID } from 'node:crypto';
import { isAbsolute, resolve } from 'node:path';
import { WorkflowNotFoundError } from '@temporalio/client';
import type { PolicyClient } from '../client/policy-client.js';
import { connectPolicy } from '../client/policy-client.js';
import { policyTable } from '../client/policy-table.js';
import { follow } from '../client/follow.js';
import { createScreen } from '../client/screen.js';
import { cutLines } from '../client/text-line.js';
import { UsageError } from '../platform/command.js';
import { checkJson } from '../platform/json/fault-place.js';
import { placeOf } from '../platform/s3/bucket.js';
import { TEXT, integerIn, integerOf, printJson, optionsIn, textIn } from '../platform/arguments.js';
import { DEFAULT_FILE, settingsNamed } from './settings-file.js';
import { temporalSettings } from './temporal-settings.js';

const OPTIONS = {
  config: TEXT,
  service: { type: 'string', default: 'default' },
  input: TEXT,
  version: TEXT,
  path: TEXT,
  adapter: TEXT,
  mode: TEXT,
  cache: TEXT,
  order: TEXT,
  quorum: TEXT,
  'pause-limit': TEXT,
  'take-over': { type: 'boolean' },
  holder: TEXT,
  incarnation: TEXT,
  checkpoint: TEXT,
  groups: TEXT,
  'stall-limit': TEXT,
  ticket: TEXT,
  done: TEXT,
  sent: TEXT,
  touched: TEXT,
  level: TEXT,
  until: TEXT,
  tags: TEXT,
} as const;

type Values = Record<string, string | undefined>;

/** The fields of each update that options name. The workflow checks all but numbers and paths. */
const FIELDS = {
  publish: (values: Values) => ({
    ...loadedAs(values),
    weights: weightsAt(values),
    order: values['order'],
  }),
  begin: (values: Values) => ({
    ...loadedAs(values),
    checkpoint: values['checkpoint'],
    groups: integerIn('--groups', { text: values['groups'], least: 1 }),
    stall_limit: values['stall-limit'],
  }),
  alive: ({ ticket, done }: Values) => ({
    ticket,
    done: integerIn('--done', { text: done, least: 0 }),
  }),
  finish: ({ ticket, sent }: Values) => ({ ticket, sent: numbersIn('--sent', sent) }),
  abandon: ({ ticket, touched }: Values) => ({ ticket, touched: numbersIn('--touched', touched) }),
  attach: ({ version, path, checkpoint = path }: Values) => ({
    version: integerIn('--version', { text: version, least: 0 }),
    checkpoint,
  }),
  release: ({ holder: name, incarnation }: Values) => ({ holder: name && { name, incarnation } }),
  sleep: ({ level, until, ...values }: Values) => ({
    level: integerIn('--level', { text: level, least: 1 }),
    until,
    holder: holderIn(values),
  }),
  wake: ({ tags }: Values) => ({ tags: tags?.split(',') }),
};

type Verb = keyof typeof FIELDS;
const isVerb = (verb: string): verb is Verb => Object.hasOwn(FIELDS, verb);

/** How engines get new weights, from files or from a trainer. */
const loadedAs = ({ version, mode, cache, quorum, ...values }: Values) => ({
  version: integerIn('--version', { text: version, least: 0 }),
  holder: holderIn(values),
  mode,
  cache,
  quorum: integerIn('--quorum', { text: quorum, least: 1 }),
  pause_limit: values['pause-limit'],
});

function weightsAt({ path, adapter }: Values): object | undefined {
  if (path !== undefined && adapter !== undefined)
    throw new UsageError('expected --path or --adapter, got both');
  if (path !== undefined) return { kind: 'checkpoint', path };
  return adapter === undefined ? undefined : { kind: 'lora', path: adapter };
}

/** Each command is a process of its own. */
const holderIn = ({ holder, incarnation = randomUUID() }: Values) =>
  holder && { name: holder, incarnation };

/** Groups, such as `0,1`; an empty text is none. */
const numbersIn = (option: string, text: string | undefined): number[] | undefined =>
  text
    ?.split(',')
    .filter((part) => part !== '')
    .map((part) => integerOf(option, { text: part, least: 0 }));

/** The weights of a service: their state, or an update, whose answer is printed as JSON. */
export async function policyCommand([verb = '', ...args]: string[]): Promise<number> {
  if (verb !== 'status' && !isVerb(verb)) {
    const verbs = ['status', ...Object.keys(FIELDS)].map((one) => `policy ${one}`);
    throw new UsageError(`expected ${verbs.join(', ')}, got ${JSON.stringify(verb)}`);
  }
  const { 'take-over': take_over, ...values } = optionsIn(args, OPTIONS);
  const given = verb === 'status' ? {} : await givenTo(verb, values);
  const input: object = { ...given, ...(take_over === true && { take_over }) };
  return await withPolicy(values, async (policy, base_urls) => {
    if (verb === 'status') await showStatus(policy, { ...values, base_urls });
    else if (verb === 'alive') await policy.alive(signIn(input));
    else if (verb === 'publish') printJson(await publish(policy, input));
    else printJson(await policy.update(verb, input));
    return 0;
  });
}

/** From a file, overridden by options. */
async function givenTo(verb: Verb, values: Values): Promise<object> {
  for (const option of ['path', 'adapter', 'checkpoint']) checkPath(option, values[option]);
  const { input } = values;
  const file = input === undefined ? {} : await readOrder(input, verb);
  const set = Object.entries(FIELDS[verb](values)).filter(([, value]) => value !== undefined);
  return { ...file, ...Object.fromEntries(set) };
}

function checkPath(option: string, path: string | undefined): void {
  if (path === undefined || isAbsolute(path) || placeOf(path) !== null) return;
  const [got, here] = [path, resolve(path)].map((one) => JSON.stringify(one));
  throw new UsageError(
    `--${option}: expected an absolute path or s3://bucket/prefix, because each engine opens it itself, got ${got}; here it would be ${here}`,
  );
}

async function readOrder(file: string, verb: string): Promise<object> {
  const text = await textIn('--input', file);
  checkJson(text, { file, what: `the fields of ${verb}` });
  return JSON.parse(text) as object;
}

function signIn({ ticket, done }: { ticket?: string; done?: number }) {
  if (ticket !== undefined && done !== undefined) return { ticket, done };
  throw new UsageError('policy alive: expected --ticket and --done');
}

/** The policy of a service, which has to be one of temporal.yaml where there is one, and its engines there. */
export async function withPolicy(
  { service, config }: { service: string; config?: string },
  use: (policy: PolicyClient, base_urls: readonly string[]) => Promise<number>,
): Promise<number> {
  const { server, taskQueue: task_queue, services: among } = await temporalSettings(config);
  const base_urls =
    Object.keys(among).length > 0
      ? settingsNamed(service, { among, what: 'service', file: config ?? DEFAULT_FILE }).base_urls
      : [];
  const policy = await connectPolicy(server, { service, task_queue });
  try {
    return await use(policy, base_urls);
  } finally {
    await policy.close();
  }
}

const ALIVE = 'state is that of the weights; temporal-rollout check says whether an engine answers';

export async function showStatus(
  policy: PolicyClient,
  { service, base_urls }: { service: string; base_urls: readonly string[] },
): Promise<void> {
  try {
    console.log([...policyTable(await policy.status(), Date.now()), '', ALIVE].join('\n'));
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
    const named = base_urls.length === 0 ? '' : `. temporal.yaml names ${base_urls.join(', ')}`;
    console.log(
      `${service}: no policy workflow runs on this server. Nothing was published, or Temporal's database was lost: then the record in the store stays in force${named}`,
    );
  }
}

/** On a terminal with a board of the workflow's state while it lasts. */
async function publish(policy: PolicyClient, input: object): Promise<unknown> {
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
  try {
    return await policy.update('publish', input);
  } finally {
    over.abort();
    screen.close();
  }
}
