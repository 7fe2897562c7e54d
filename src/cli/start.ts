import path from 'node:path';
import type { BatchHandle } from '../client/batch-client.js';
import { follow } from '../client/follow.js';
import type { Started } from '../client/start-batch.js';
import { BatchId } from '../model/batch-request.js';
import { Fork } from '../model/fork.js';
import { IN_PAYLOADS } from '../model/workflow-safe/foreign.js';
import { UsageError, commandLine } from '../platform/command.js';
import { checkJson } from '../platform/json/fault-place.js';
import { readJson } from '../platform/json/kept.js';
import { isRecord } from '../platform/json/object.js';
import { plain } from '../platform/plain.js';
import { within } from '../platform/waits/abort.js';
import {
  FLAG,
  TEXT,
  integerIn,
  onlyOne,
  optionsIn,
  optionsAndWordsIn,
  textIn,
} from '../platform/arguments.js';
import { watched, withClient } from './batch.js';

const SETTINGS = { type: 'string', multiple: true, default: [] as string[] } as const;

export async function startCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, {
    config: TEXT,
    'input-file': TEXT,
    like: TEXT,
    set: SETTINGS,
    id: TEXT,
    watch: FLAG,
    restart: FLAG,
  });
  const { 'input-file': file, like, set, watch, restart, config } = values;
  if ((file === undefined) === (like === undefined))
    throw new UsageError('expected --input-file FILE, the batch request, or --like BATCH');
  if (restart && values.id === undefined)
    throw new UsageError('--restart: expected --id ID, of the batch that is played again');
  const batchId = idOr(values.id, () => like ?? stemOf(file ?? ''));
  const given =
    file === undefined ? { like: checkedId('--like', like ?? '') } : await readRequest(file);
  return await started({ batchId, request: withSettings(given, set), restart, watch, config });
}

/** A batch whose rollouts continue one of another batch. */
export async function forkCommand(args: string[]): Promise<number> {
  const { values, positionals } = optionsAndWordsIn(args, {
    config: TEXT,
    at: TEXT,
    repeats: TEXT,
    set: SETTINGS,
    id: TEXT,
    'train-prefix': { type: 'boolean' },
    watch: FLAG,
  });
  const { at, set, watch, config, 'train-prefix': train_prefix } = values;
  if (at === undefined) throw new UsageError('expected --at turn:N or --at token:N');
  const num_repeats = integerIn('--repeats', { text: values.repeats, least: 1 });
  const fork = {
    rollout_id: onlyOne(positionals, 'one BATCH/ROW-REPEAT'),
    at,
    ...(train_prefix && { train_prefix }),
  };
  const [issue] = Fork.safeParse(fork).error?.issues ?? [];
  if (issue !== undefined) throw new UsageError(issue.message);
  const batchId = idOr(values.id, () => `${fork.rollout_id}-${at}`.replaceAll(/[/:]/g, '-'));
  const request = withSettings({ fork, ...(num_repeats && { num_repeats }) }, set);
  return await started({ batchId, request, restart: false, watch, config });
}

interface Starting {
  batchId: string;
  request: unknown;
  restart: boolean;
  watch: boolean;
  config: string | undefined;
}

async function started({ watch, config, ...start }: Starting): Promise<number> {
  const { batchId } = start;
  return await withClient(config, async (client, { server, taskQueue }) => {
    const batch = await client.start({ taskQueue, ...start });
    const place = `${server.options.address}, namespace ${server.namespace}`;
    console.log(plain(startedText(batch.started, { batchId, place, taskQueue })));
    if (watch) return await watched(batch, { batchId, server, config });
    const refusal = await refusedAtOnce(batch);
    if (refusal !== null) throw new Error(`batch ${batchId}: ${refusal}`);
    console.log(plain(`its board: ${commandLine(`watch ${batchId}`, config)}`));
    return 0;
  });
}

/** `generation.temperature=0.7`: a path of fields, and JSON, or else a text. */
export function withSettings(request: unknown, settings: readonly string[]): unknown {
  return settings.reduce((changed, setting) => {
    const [, path = '', text = ''] = /^([a-z][\w.]*)=(.*)$/s.exec(setting) ?? [];
    const names = path.split('.');
    if (names.includes(''))
      throw new UsageError(`--set: expected KEY=VALUE, got ${JSON.stringify(setting)}`);
    return withValue(changed, { names, value: valueOf(text) });
  }, request);
}

function withValue(
  object: unknown,
  { names: [name = '', ...names], value }: { names: string[]; value: unknown },
): unknown {
  const own = isRecord(object) ? object : {};
  return { ...own, [name]: names.length === 0 ? value : withValue(own[name], { names, value }) };
}

function valueOf(text: string): unknown {
  try {
    return readJson(text, IN_PAYLOADS);
  } catch {
    return text;
  }
}

/** Somebody who has changed an environment would take the old rows for new ones. */
export function startedText(
  started: Started,
  { batchId, place, taskQueue }: { batchId: string; place: string; taskQueue: string },
): string {
  const where = `on ${place}, task queue ${taskQueue}`;
  switch (started.how) {
    case 'joined':
      return `batch ${batchId} runs already on ${place}, with this request: joined it`;
    case 'started':
      return `batch ${batchId} runs ${where}`;
    case 'restarted':
      return `batch ${batchId} is played again from the beginning ${where}`;
    case 'continued': {
      const { there } = started;
      const continues = `batch ${batchId} continues ${where}`;
      if (there === null) return continues;
      const rows = `its last result has ${there.completed} of ${there.requested} rows; those that the store still has are not played again`;
      return `${continues}: ${rows}\nif the code of the reward has changed: another --id, or --restart`;
    }
  }
}

/** A worker that runs checks a request within this time. */
const CHECKED_MS = 5000;
const LOOK_AGAIN_MS = 200;

/** Why the batch has failed before anything ran; null: it has not, or nobody has checked it yet. */
export async function refusedAtOnce(
  { look, outcome }: BatchHandle,
  checked_ms = CHECKED_MS,
): Promise<string | null> {
  let refusal: string | null = null;
  // A server or a worker that is slow is no refusal.
  const following = follow({
    look: async () => {
      const seen = await look();
      return { ...seen, ended: seen.closed ? await outcome() : null };
    },
    draw: ({ ended, progress, trouble }) => {
      if (ended !== null && 'failure' in ended) refusal = ended.failure;
      const isChecked = progress !== null && progress.phase !== 'planning';
      return ended !== null || trouble !== null || isChecked;
    },
    signal: AbortSignal.timeout(checked_ms),
    every_ms: LOOK_AGAIN_MS,
  });
  await within(
    checked_ms,
    following.catch(() => false),
  );
  return refusal;
}

/** A worker would refuse it, too, but where nobody looks. */
function checkedId(option: string, id: string): string {
  const { error } = BatchId.safeParse(id);
  if (error === undefined) return id;
  throw new UsageError(`${option}: ${error.issues[0]?.message ?? 'expected a batch id'}`);
}

function idOr(id: string | undefined, stem: () => string): string {
  if (id !== undefined) return checkedId('--id', id);
  const time = new Date().toISOString().replace(/[-:]|\.\d+/g, '');
  return `${
    stem()
      .replace(/^[^A-Za-z0-9]+/, '')
      .slice(0, 80) || 'batch'
  }-${time}`;
}

/** `batch.json` gets the name of its folder. */
function stemOf(file: string): string {
  const { name, dir } = path.parse(path.resolve(file));
  return (name === 'batch' ? path.basename(dir) : name).replace(/[^A-Za-z0-9._-]+/g, '-');
}

async function readRequest(file: string): Promise<unknown> {
  const text = await textIn('--input-file', file);
  checkJson(text, { file, what: 'a batch request' });
  return readJson(text, IN_PAYLOADS);
}
