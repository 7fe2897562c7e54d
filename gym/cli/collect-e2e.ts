import { captureDir } from '../capture/capture-store.js';
import { parseE2E } from '../config/collect-config.js';
import { collectRollouts } from '../collection/collect.js';
import { E2E_OPTIONS, prepareE2E } from '../e2e/prepare.js';
import { COLLECT_OPTIONS, REPLACE, settingsOf } from './collect.js';
import { uploadOf } from '../upload/upload.js';
import { runInterruptibly } from './interruptible.js';

/**
 * Prepares data and servers from upstream's configuration, collects, and stops what it started; returns the exit code.
 */
export async function collectE2ECommand(args: string[]): Promise<number> {
  const cwd = process.cwd();
  const parsed = await parseE2E({
    args: args.filter((argument) => argument !== REPLACE),
    cwd,
    env: process.env,
    own: [...COLLECT_OPTIONS, ...E2E_OPTIONS],
  });
  const settings = settingsOf(parsed.own, { cwd, replace: args.includes(REPLACE) });
  const capture_dir = captureDir(parsed.gym);
  return await runInterruptibly(async (context) => {
    const { screen, signal } = context;
    for (const note of parsed.notes) screen.say(note);
    const place = { cwd, env: process.env };
    const openUpload = await uploadOf(parsed.gym, { ...place, say: screen.say, signal });
    const { config, stop } = await prepareE2E(parsed, { signal, say: screen.say });
    try {
      const { host, port } = parsed.head_server;
      const { exit_code } = await collectRollouts(
        { config, head_server: `http://${host}:${port}`, capture_dir, settings, openUpload },
        { ...parsed.places, ...context },
      );
      return exit_code;
    } finally {
      await stop();
    }
  });
}
