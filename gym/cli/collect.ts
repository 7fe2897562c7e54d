import path from 'node:path';
import { z } from 'zod';
import { captureDir } from '../capture/capture-store.js';
import type { CommandArguments, ParsedCommand } from '../config/collect-config.js';
import { parseCollect, parseE2E } from '../config/collect-config.js';
import { collectRollouts } from '../collection/collect.js';
import type { PreparedE2E } from '../e2e/prepare.js';
import { E2E_OPTIONS, prepareE2E } from '../e2e/prepare.js';
import type { CollectionSettings } from '../collection/request.js';
import { Duration } from '../../src/model/field-kinds.js';
import { BatchId } from '../../src/model/batch-request.js';
import { UsageError } from '../../src/platform/command.js';
import { uploadOf } from '../upload/upload.js';
import { runInterruptibly } from './interruptible.js';

const REPLACE = '--replace';

/** Rows wait for unavailable agents; giving up within a week would gain nothing. */
const ROLLOUT_TIMEOUT = '7d';

/** Our own options, beside upstream's arguments. */
const Options = z.object({
  config: z.string().nullable().default(null),
  'gym-environment': z.string().nullable().default(null),
  'batch-id': BatchId.nullable().default(null),
  'run-timeout': Duration.nullable().default(null),
  'max-seq-len': z.coerce.number().int().positive().nullable().default(null),
  'rollout-timeout': Duration.default(ROLLOUT_TIMEOUT),
  folder: z.string().nullable().default(null),
});

/** Collects with upstream's arguments; returns the exit code. */
export const collectCommand = (args: string[]): Promise<number> =>
  run(args, {
    parse: parseCollect,
    prepare: ({ config }) => Promise.resolve({ config, stop: () => Promise.resolve() }),
  });

/** Prepares data and servers from upstream's configuration, collects, and stops what it started. */
export const collectE2ECommand = (args: string[]): Promise<number> =>
  run(args, { parse: parseE2E, prepare: prepareE2E, own: E2E_OPTIONS });

async function run<T>(
  args: string[],
  {
    parse,
    prepare,
    own = [],
  }: {
    parse: (command: CommandArguments) => Promise<ParsedCommand<T>>;
    prepare: (
      parsed: ParsedCommand<T>,
      context: { signal: AbortSignal; say: (text: string) => void },
    ) => Promise<PreparedE2E>;
    own?: string[];
  },
): Promise<number> {
  const place = { cwd: process.cwd(), env: process.env };
  const parsed = await parse({
    args: args.filter((argument) => argument !== REPLACE),
    ...place,
    own: [...Object.keys(Options.shape), ...own],
  });
  const settings = settingsOf(parsed.own, { cwd: place.cwd, replace: args.includes(REPLACE) });
  const capture_dir = captureDir(parsed.gym);
  return await runInterruptibly(async (context) => {
    const { say } = context.screen;
    for (const note of parsed.notes) say(note);
    const given = { say, signal: context.signal };
    const openUpload = await uploadOf(parsed.gym, { ...place, ...given });
    const { config, stop } = await prepare(parsed, given);
    try {
      return await collectRollouts(
        { config, head_server: parsed.head_server, capture_dir, settings, openUpload },
        { ...parsed.places, ...context },
      );
    } finally {
      await stop();
    }
  });
}

/** Throws their problems. */
function settingsOf(
  own: Partial<Record<string, string>>,
  { cwd, replace }: { cwd: string; replace: boolean },
): CollectionSettings {
  const parsed = Options.safeParse(own);
  if (!parsed.success) {
    const problems = parsed.error.issues.map(
      ({ path: [option], message }) => `--${String(option)}: ${message}`,
    );
    throw new UsageError(problems.join('\n'));
  }
  const given = parsed.data;
  return {
    config: given.config === null ? null : path.resolve(cwd, given.config),
    environment: given['gym-environment'],
    batch_id: given['batch-id'],
    run_timeout: given['run-timeout'],
    max_seq_len: given['max-seq-len'],
    rollout_timeout: given['rollout-timeout'],
    folder: given.folder === null ? null : path.resolve(cwd, given.folder),
    replace,
  };
}
