import path from 'node:path';
import { z } from 'zod';
import { captureDir } from '../capture/capture-store.js';
import { parseCollect } from '../config/collect-config.js';
import { collectRollouts } from '../collection/collect.js';
import type { CollectionSettings } from '../collection/request.js';
import { Duration } from '../../src/model/durations.js';
import { BatchId } from '../../src/model/batch-request.js';
import { UsageError } from '../../src/platform/command.js';
import { uploadOf } from '../upload/upload.js';
import { runInterruptibly } from './interruptible.js';

/** Our own options, beside upstream's arguments. */
export const COLLECT_OPTIONS = [
  'config',
  'gym-environment',
  'batch-id',
  'run-timeout',
  'max-seq-len',
  'rollout-timeout',
  'folder',
];
export const REPLACE = '--replace';

/** Rows wait for unavailable agents; giving up within a week would gain nothing. */
const ROLLOUT_TIMEOUT = '7d';

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
export async function collectCommand(args: string[]): Promise<number> {
  const cwd = process.cwd();
  const { config, gym, head_server, notes, own, places } = await parseCollect({
    args: args.filter((argument) => argument !== REPLACE),
    cwd,
    env: process.env,
    own: COLLECT_OPTIONS,
  });
  const settings = settingsOf(own, { cwd, replace: args.includes(REPLACE) });
  const capture_dir = captureDir(gym);
  return await runInterruptibly(async (context) => {
    const { screen, signal } = context;
    for (const note of notes) screen.say(note);
    const openUpload = await uploadOf(gym, { cwd, env: process.env, say: screen.say, signal });
    const url = `http://${head_server.host}:${head_server.port}`;
    const { exit_code } = await collectRollouts(
      { config, head_server: url, capture_dir, settings, openUpload },
      { ...places, ...context },
    );
    return exit_code;
  });
}

/** Throws their problems. */
export function settingsOf(
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
