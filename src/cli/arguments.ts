import path from 'node:path';
import { exists } from '../platform/files.js';
import { UsageError } from '../platform/command.js';
import { didYouMean } from '../platform/nearest.js';

/** What a command line gives. Each throws an error for the user that says what was expected. */

export const DEFAULT_FILE = './temporal.yaml';

/** Where the folder has no temporal.yaml, the one of the stack that was started in it names the store. */
export async function fileOfStore(): Promise<string | undefined> {
  const local = path.join('.rollouts', 'temporal.yaml');
  return !(await exists(DEFAULT_FILE)) && (await exists(local)) ? local : undefined;
}

/** The settings that FILE has under this name. */
export function settingsNamed<T>(
  name: string,
  { among, what, file }: { among: Record<string, T>; what: string; file: string },
): T {
  const known = Object.keys(among);
  const found = Object.hasOwn(among, name) ? among[name] : undefined;
  if (found !== undefined) return found;
  const has = `${file} has ${known.join(', ') || 'none'}`;
  throw new UsageError(`unknown ${what} ${JSON.stringify(name)}; ${has}${didYouMean(name, known)}`);
}

export function integerOf(
  option: string,
  { text, least }: { text: string; least: number },
): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
  throw new UsageError(
    `${option}: expected an integer, ${least} or more, got ${JSON.stringify(text)}`,
  );
}
