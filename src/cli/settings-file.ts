import { UsageError } from '../platform/command.js';
import { didYouMean } from '../platform/nearest.js';

export const DEFAULT_FILE = './temporal.yaml';

/** A settings file that has to be there. */
export const FILE = { type: 'string', default: DEFAULT_FILE } as const;

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
