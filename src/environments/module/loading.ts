import { execFile } from 'node:child_process';
import { pathToFileURL } from 'node:url';
import type { BatchEnvironment, EnvironmentContext, TurnEnvironment } from './authoring.js';
import { OPTIONAL, subjectOf, type ModuleStart } from './wire.js';
import { describeError } from '../../platform/errors.js';
import { readWhole } from '../../platform/regular-file.js';

/** The result of a module's export. Throws an error that names file and export. */
export async function loadModule(
  { path, export: name, settings }: Pick<ModuleStart, 'path' | 'export' | 'settings'>,
  context: EnvironmentContext,
): Promise<TurnEnvironment | BatchEnvironment> {
  const subject = subjectOf({ path, export: name, name: context.name });
  const loaded = await load(path, context);
  const exported = exportOf(loaded, name);
  if (exported === undefined) {
    const hint = name === 'default' ? '; write `export default { stepOne }`' : '';
    throw new Error(
      `${subject} is missing; there are only ${Object.keys(loaded).join(', ')}${hint}`,
    );
  }
  if (typeof exported !== 'function') return shaped(exported, subject);
  let made: unknown;
  try {
    made = await (exported as (...given: unknown[]) => unknown)(settings, context);
  } catch (error) {
    throw new Error(`${subject} threw: ${thrownText(error)}`, { cause: error });
  }
  return shaped(made, `${subject} returned`);
}

async function load(path: string, { name }: EnvironmentContext): Promise<Record<string, unknown>> {
  const url = pathToFileURL(path).href;
  try {
    if (!/\.[cm]?tsx?$/.test(path)) return (await import(url)) as Record<string, unknown>;
    return await loadTypeScript(url);
  } catch (error) {
    const subject = `environment ${name}: cannot load ${path}`;
    const mistake = await whereUnparsable(error, path);
    if (mistake !== null) throw new Error(`${subject}: ${mistake}`);
    throw new Error(`${subject}: ${thrownText(error)}`, { cause: error });
  }
}

/** esbuild's line for a mistake: `/a/b.ts:3:14: ERROR: Unexpected ";"`. */
const MISTAKE = /^(\/.*:\d+):\d+: ERROR: (.*)$/m;

/** A mistake in the module's syntax, or in that of a TypeScript file that it imports, with its line; null: no such error. */
async function whereUnparsable(error: unknown, path: string): Promise<string | null> {
  if (error instanceof SyntaxError) {
    const line = await lineOfMistake(path);
    return line === null ? null : `SyntaxError: ${error.message} (at ${path}:${line})`;
  }
  const [, place, text] = MISTAKE.exec(error instanceof Error ? error.message : '') ?? [];
  if (place === undefined || text === undefined) return null;
  // The loader calls an .mts file .ts.
  const own = path.replace(/\.[cm]ts$/, '.ts');
  return `SyntaxError: ${text} (at ${place.replace(`${own}:`, `${path}:`)})`;
}

/** Node.js tells the line on standard error alone, so another process parses the file again, as the module that it is. */
async function lineOfMistake(path: string): Promise<string | null> {
  const source = await readWhole(path);
  const said = await new Promise<string>((resolve) => {
    const args = ['--check', '--input-type=module', '-'];
    const parser = execFile(process.execPath, args, (...told) => {
      resolve(told[2]);
    });
    parser.stdin?.on('error', () => undefined).end(source);
  });
  return /^\[stdin\]:(\d+)$/m.exec(said)?.[1] ?? null;
}

/** Node.js 20 does not strip types. With source maps, traces show the module's own lines. */
async function loadTypeScript(url: string): Promise<Record<string, unknown>> {
  process.setSourceMapsEnabled(true);
  const { tsImport } = await import('tsx/esm/api');
  return (await tsImport(url, import.meta.url)) as Record<string, unknown>;
}

/** In a file that its package.json makes CommonJS, the default export is one `default` deeper. */
function exportOf(loaded: Record<string, unknown>, name: string): unknown {
  const own = loaded['default'];
  const inner = isObject(own) && own['__esModule'] === true ? own : null;
  return inner?.[name] ?? loaded[name];
}

function shaped(value: unknown, subject: string): TurnEnvironment | BatchEnvironment {
  if (isObject(value)) {
    for (const name of OPTIONAL) {
      if (value[name] !== undefined && typeof value[name] !== 'function')
        throw new Error(`${subject}: ${name}: expected a function, got ${typeof value[name]}`);
    }
    const [one, batch] = [typeof value['stepOne'], typeof value['step']];
    if (one === 'function' && batch === 'undefined') return value as unknown as TurnEnvironment;
    if (batch === 'function' && one === 'undefined') return value as unknown as BatchEnvironment;
  }
  const got = isObject(value) ? `one with ${Object.keys(value).join(', ')}` : typeof value;
  throw new Error(
    `${subject}: expected an object with a function step or stepOne (or a function that makes one), got ${got}`,
  );
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

/** With its class, unless that is plain `Error`: "TypeError: x is not a function". */
export function thrownText(error: unknown): string {
  const text = describeError(error);
  if (!(error instanceof Error) || error.message === '') return text;
  const [name] = [error.name, error.constructor.name].filter((one) => one !== 'Error');
  return name === undefined ? text : `${name}: ${text}`;
}
